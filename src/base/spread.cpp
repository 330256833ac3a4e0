#include "tutti/base/spread.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

namespace tutti {

double median(std::vector<double> values) {
    assert(!values.empty());
    std::ranges::sort(values);
    const std::size_t half = values.size() / 2;
    return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

Spread spread_of(std::vector<double> values) {
    if (values.empty()) return {};
    const auto [min, max] = std::ranges::minmax(values);
    return {min, median(std::move(values)), max};
}

}  // namespace tutti
