#pragma once
// PTX instructions that kernels use, each as one function with a CPU meaning. (Reference: PTX ISA.)

#include <cstdint>

#include "../common/bf16.hpp"
#include "launch.hpp"

namespace tutti::cuda {

/// cvt.rn.bf16x2.f32: two numbers rounded to bf16, `low` in the lower half.
__device__ inline std::uint32_t round_to_bf16x2(float low, float high) {
#if defined(__CUDACC__)
    std::uint32_t packed;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
    return packed;
#else
    return static_cast<std::uint32_t>(to_bf16(low).bits) | static_cast<std::uint32_t>(to_bf16(high).bits)
                                                               << 16;
#endif
}

}  // namespace tutti::cuda
