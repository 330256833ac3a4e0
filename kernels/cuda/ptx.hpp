#pragma once
// PTX instructions that kernels use, each as one function with a CPU meaning. (Reference: PTX ISA.)

#include <cmath>
#include <cstdint>
#include <limits>

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

#if !defined(__CUDACC__)
/// x, or a zero of its sign where it is subnormal: what instructions with .ftz read and write.
inline float flushed(float x) {
    return std::abs(x) < std::numeric_limits<float>::min() ? std::copysign(0.0f, x) : x;
}
#endif

/// ex2.approx.ftz.f32: 2^x with a relative error below 2^-22; 0 where that is subnormal.
__device__ inline float fast_exp2(float x) {
#if defined(__CUDACC__)
    float power;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
    return power;
#else
    return flushed(std::exp2(x));
#endif
}

/// rcp.approx.ftz.f32: 1/x within one unit of the last place; 0 where that is subnormal.
__device__ inline float fast_reciprocal(float x) {
#if defined(__CUDACC__)
    float reciprocal;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(reciprocal) : "f"(x));
    return reciprocal;
#else
    return flushed(1.0f / flushed(x));
#endif
}

/// min.NaN.f32: the smaller of two numbers; NaN where one of them is.
__device__ inline float smaller_or_nan(float a, float b) {
#if defined(__CUDACC__)
    float smaller;
    asm("min.NaN.f32 %0, %1, %2;" : "=f"(smaller) : "f"(a), "f"(b));
    return smaller;
#else
    return a != a || a < b ? a : b;
#endif
}

}  // namespace tutti::cuda
