#include "tutti/base/random.hpp"

#include <cmath>
#include <numbers>

namespace tutti {

double RandomStream::normal(std::uint64_t index) const {
    const auto words = bits(index);
    // 1 - u lies in (0, 1], so the logarithm is finite.
    const double radius = std::sqrt(-2 * std::log1p(-unit_interval(words[0], words[1])));
    return radius * std::cos(2 * std::numbers::pi * unit_interval(words[2], words[3]));
}

}  // namespace tutti
