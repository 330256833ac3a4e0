#include "tutti/train/product_bench.hpp"

#include <algorithm>
#include <chrono>

#include "tutti/train/step_figures.hpp"

namespace tutti {

double ProductTimes::rate() const {
    const double median = spread_of(seconds).median;
    const auto side = static_cast<double>(n);
    return median > 0 ? 2 * side * side * side / median : 0;
}

struct ProductBench::Impl {
    Impl(Device& on, Arithmetic arithmetic, std::span<const std::int64_t> sizes)
        : device(on),
          ops(on.ops(arithmetic)),
          dtype(arithmetic.compute),
          weights(ops.product_inputs()),
          stored(ops.activations()) {
        const std::int64_t largest = sizes.empty() ? 0 : *std::ranges::max_element(sizes);
        for (Buffer* buffer : {&x, &weight, &y})
            *buffer =
                device.allocate(static_cast<std::size_t>(largest * largest) * size_of(dtype), "products");
        // Neither zeros, which a processor may treat in a way of its own, nor anything that grows.
        ops.fill(x.view(0, stored, {largest * largest}), 0.5);
        ops.fill(weight.view(0, weights, {largest * largest}), 0.5);
        for (const std::int64_t n : sizes) {
            times.push_back({n, {}});
            products.push_back(ops.linear({n, n, false}));
        }
    }

    double once(std::size_t i) {
        const Shape square{times[i].n, times[i].n};
        const auto begin = std::chrono::steady_clock::now();
        products[i]->forward(x.view(0, stored, square), weight.view(0, weights, square), {},
                             y.view(0, stored, square));
        // Waits for a device that works on its own.
        double element = 0;
        device.copy_to_host(&element, y.view(0, stored, {1}));
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    }

    Device& device;
    Ops& ops;
    const DType dtype, weights, stored;  // computed in; of the weights; of x and y
    Buffer x, weight, y;
    std::vector<ProductTimes> times;
    std::vector<std::unique_ptr<LinearOp>> products;
};

ProductBench::ProductBench(Device& device, Arithmetic arithmetic, std::span<const std::int64_t> sizes)
    : impl_(std::make_unique<Impl>(device, arithmetic, sizes)) {}

ProductBench::~ProductBench() = default;

void ProductBench::run(int repetitions) {
    for (std::size_t i = 0; i < impl_->products.size(); ++i) {
        std::vector<double>& seconds = impl_->times[i].seconds;
        if (seconds.empty()) impl_->once(i);
        for (int k = 0; k < repetitions; ++k) seconds.push_back(impl_->once(i));
    }
}

std::span<const ProductTimes> ProductBench::times() const {
    return impl_->times;
}

}  // namespace tutti
