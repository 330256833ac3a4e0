#include "tutti/base/median.hpp"

#include <algorithm>
#include <cassert>

namespace tutti {

double median(std::vector<double> values) {
    assert(!values.empty());
    std::ranges::sort(values);
    const std::size_t half = values.size() / 2;
    return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

}  // namespace tutti
