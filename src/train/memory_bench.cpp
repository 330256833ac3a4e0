#include "tutti/train/memory_bench.hpp"

#include <chrono>
#include <vector>

#include "tutti/train/step_figures.hpp"

namespace tutti {

struct MemoryBench::Impl {
    Impl(Device& on, DType type, std::int64_t bytes)
        : device(on),
          ops(on.ops(type)),
          dtype(type),
          n(bytes / 2 / static_cast<std::int64_t>(size_of(type))) {
        if (n == 0) return;
        for (Buffer* buffer : {&x, &y}) {
            *buffer = device.allocate(static_cast<std::size_t>(n) * size_of(dtype), "passes over memory");
            ops.fill(buffer->view(0, dtype, {n}), 0.5);
        }
    }

    double once() {
        const auto begin = std::chrono::steady_clock::now();
        ops.add(x.view(0, dtype, {n}), y.view(0, dtype, {n}));
        // Waits for a device that works on its own.
        double element = 0;
        device.copy_to_host(&element, y.view(0, dtype, {1}));
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    }

    Device& device;
    Ops& ops;
    const DType dtype;
    const std::int64_t n;
    Buffer x, y;
    std::vector<double> seconds;
};

MemoryBench::MemoryBench(Device& device, DType dtype, std::int64_t bytes)
    : impl_(std::make_unique<Impl>(device, dtype, bytes)) {}

MemoryBench::~MemoryBench() = default;

void MemoryBench::run(int passes) {
    if (impl_->n == 0) return;
    if (impl_->seconds.empty()) impl_->once();
    for (int k = 0; k < passes; ++k) impl_->seconds.push_back(impl_->once());
}

double MemoryBench::rate() const {
    const double median = spread_of(impl_->seconds).median;
    const auto bytes = static_cast<double>(3 * impl_->n) * static_cast<double>(size_of(impl_->dtype));
    return median > 0 ? bytes / median : 0;
}

}  // namespace tutti
