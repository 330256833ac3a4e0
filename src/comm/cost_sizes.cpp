#include "tutti/comm/cost_sizes.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace tutti {
namespace {

constexpr double wrong = 0.1;
constexpr double nearest_neighbours = 1.5;

}  // namespace

std::vector<std::uint64_t> sizes_to_add(std::span<const CostSample> samples, std::uint64_t element_bytes,
                                        double most_seconds) {
    const CostModel model = fit_cost(samples);
    std::vector<double> sizes;
    for (const CostSample& sample : samples) sizes.push_back(sample.bytes);
    std::ranges::sort(sizes);
    std::vector<std::size_t> worst_first(samples.size());
    std::iota(worst_first.begin(), worst_first.end(), std::size_t{0});
    const auto error = [&](std::size_t s) { return std::abs(model.residuals()[s]); };
    std::ranges::stable_sort(worst_first, std::ranges::greater{}, error);

    std::vector<std::uint64_t> added;
    const auto add_between = [&](double lower, double upper) {
        if (lower <= 0 || upper < nearest_neighbours * lower) return;
        const auto elements = static_cast<std::uint64_t>(std::sqrt(lower * upper)) / element_bytes;
        const auto bytes = static_cast<double>(elements * element_bytes);
        if (bytes > lower && bytes < upper && model.seconds(bytes) <= most_seconds)
            added.push_back(elements * element_bytes);
    };
    for (const std::size_t s : worst_first) {
        if (!added.empty() || error(s) <= wrong) break;
        const auto [first, last] = std::ranges::equal_range(sizes, samples[s].bytes);
        if (first != sizes.begin()) add_between(*std::prev(first), samples[s].bytes);
        if (last != sizes.end()) add_between(samples[s].bytes, *last);
    }
    return added;
}

}  // namespace tutti
