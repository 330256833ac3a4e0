#include "permutation.hpp"

#include <numeric>
#include <random>
#include <string>
#include <utility>

#include "tutti/base/error.hpp"
#include "tutti/input/sampler.hpp"

namespace tutti {
namespace {

// torch.Generator.manual_seed takes 64 bits, its mt19937 keeps the low 32.
std::mt19937 engine_of(std::uint64_t seed) {
    return std::mt19937(static_cast<std::uint32_t>(seed));
}

}  // namespace

std::vector<std::int64_t> permutation_by_32_bits(std::int64_t n, std::uint64_t seed) {
    std::mt19937 engine = engine_of(seed);
    std::vector<std::int64_t> order(static_cast<std::size_t>(n));
    std::iota(order.begin(), order.end(), std::int64_t{0});
    for (std::int64_t i = 0; i < n - 1; ++i) {
        const auto z = static_cast<std::int64_t>(engine()) % (n - i);
        std::swap(order[static_cast<std::size_t>(i)], order[static_cast<std::size_t>(i + z)]);
    }
    return order;
}

std::vector<std::int64_t> permutation_by_64_bits(std::int64_t n, std::uint64_t seed) {
    std::mt19937 engine = engine_of(seed);
    std::vector<std::int64_t> order(static_cast<std::size_t>(n));
    for (std::size_t i = 0; i < order.size(); ++i) {
        const std::uint64_t high = engine();
        const std::uint64_t low = engine();
        const std::size_t z = static_cast<std::size_t>((high << 32) | low) % (i + 1);
        order[i] = static_cast<std::int64_t>(i);
        std::swap(order[i], order[z]);
    }
    return order;
}

std::vector<std::int64_t> random_permutation(std::int64_t n, std::uint64_t seed) {
    if (n < 0)
        throw UsageError("a permutation of " + std::to_string(n) + " samples",
                         "the number must be 0 or more");
    return n < large_permutation ? permutation_by_32_bits(n, seed) : permutation_by_64_bits(n, seed);
}

}  // namespace tutti
