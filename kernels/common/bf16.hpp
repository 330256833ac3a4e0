#pragma once
// bf16 in memory: the upper half of an IEEE binary32. Arithmetic is in fp32.

#include <bit>
#include <cstdint>

#include "host_device.hpp"

namespace tutti {

struct Bf16 {
    std::uint16_t bits;
};

HOST_DEVICE inline float to_float(float value) {
    return value;
}
HOST_DEVICE inline float to_float(Bf16 value) {
    return __builtin_bit_cast(float, static_cast<std::uint32_t>(value.bits) << 16);
}

/// To the nearest, ties to even; every NaN becomes 0x7fff, as in hardware (PTX ISA, "cvt").
HOST_DEVICE inline Bf16 to_bf16(float value) {
    if (value != value) return {0x7fff};
    const auto bits = __builtin_bit_cast(std::uint32_t, value);
    return {static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16)};
}

}  // namespace tutti
