#include "tutti/train/product_bench.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <vector>

#include "tutti/base/bf16.hpp"
#include "tutti/base/random.hpp"
#include "tutti/train/step_figures.hpp"

namespace tutti {

namespace {

/// Numbers from −1 to 1, as the bytes that `convert` makes of each.
template <class Element, class Convert>
std::vector<std::byte> random_bytes(std::size_t count, std::int64_t seed, const Convert& convert) {
    const RandomStream random(seed, RandomPlace::initial_weights, 0, 0);
    std::vector<std::byte> bytes(count * sizeof(Element));
    for (std::size_t i = 0; i < count; ++i) {
        const Element value = convert(2 * random.uniform(i) - 1);
        std::memcpy(bytes.data() + i * sizeof(Element), &value, sizeof(Element));
    }
    return bytes;
}

/// Numbers like those of a training: the clock of a processor may depend on its power, and that on how many
/// bits of the operands change. Long lists repeat themselves.
void fill_at_random(Device& device, const TensorView& tensor, std::int64_t seed) {
    constexpr std::int64_t most = 1048573;  // a prime number: rows of products differ
    const auto count = static_cast<std::size_t>(std::min(tensor.count(), most));
    const std::vector<std::byte> piece =
        tensor.dtype == DType::f64 ? random_bytes<double>(count, seed, [](double v) { return v; })
        : tensor.dtype == DType::bf16
            ? random_bytes<std::uint16_t>(count, seed,
                                          [](double v) { return bf16_bits(static_cast<float>(v)); })
            : random_bytes<float>(count, seed, [](double v) { return static_cast<float>(v); });
    for (std::size_t begin = 0; begin < tensor.bytes(); begin += piece.size()) {
        const std::size_t bytes = std::min(piece.size(), tensor.bytes() - begin);
        device.copy_from_host({tensor.data + begin, DType::u8, {static_cast<std::int64_t>(bytes)}},
                              piece.data());
    }
}

}  // namespace

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
        fill_at_random(device, x.view(0, stored, {largest * largest}), 1);
        fill_at_random(device, weight.view(0, weights, {largest * largest}), 2);
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
