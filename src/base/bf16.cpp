#include "tutti/base/bf16.hpp"

#include <cstddef>

namespace tutti {

void round_to_bf16(std::span<const float> from, std::uint16_t* to) {
    for (std::size_t i = 0; i < from.size(); ++i) to[i] = bf16_bits(from[i]);
}

void widen_bf16(std::span<const std::uint16_t> from, float* to) {
    for (std::size_t i = 0; i < from.size(); ++i) to[i] = float_of_bf16(from[i]);
}

}  // namespace tutti
