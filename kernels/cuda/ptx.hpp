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

#if defined(__CUDACC__)
/// As instructions name shared memory.
__device__ inline unsigned shared_address(const void* data) {
    return static_cast<unsigned>(__cvta_generic_to_shared(data));
}
#endif

/// ldmatrix.m8n8.x4.b16: four matrices of 8 x 8 numbers of 16 bits in shared memory. Lane 8·m + i gives the
/// address of row i of matrix m, 16 bytes aligned to 16; lane l gets in words[m] the elements 2·(l mod 4) and
/// 2·(l mod 4) + 1 of row l div 4 of matrix m. All lanes of the warp call.
__device__ inline void load_matrices(std::uint32_t (&words)[4], const void* row) {
#if defined(__CUDACC__)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "r"(shared_address(row))
                 : "memory");
#else
    kcpu::load_matrices(words, row, false);
#endif
}
/// The same of their transposes: lane l gets the elements of column l div 4.
__device__ inline void load_transposed_matrices(std::uint32_t (&words)[4], const void* row) {
#if defined(__CUDACC__)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "r"(shared_address(row))
                 : "memory");
#else
    kcpu::load_matrices(words, row, true);
#endif
}

/// mma.m16n8k16 in bf16 with sums in fp32: c[16, 8] += a[16, 16]·b[16, 8]. Lane l, with g = l div 4 and
/// t = l mod 4, holds of a the rows g (a[0], a[2]) and g + 8 (a[1], a[3]), columns 2t and 2t + 1 (a[0], a[1])
/// or 2t + 8 and 2t + 9; of b column g, rows 2t and 2t + 1 (b0) or 2t + 8 and 2t + 9 (b1); of c row g (c[0],
/// c[1]) and g + 8, columns 2t and 2t + 1. All lanes of the warp call.
__device__ inline void multiply_matrices(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                         std::uint32_t b1) {
#if defined(__CUDACC__)
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#else
    kcpu::multiply_matrices(c, a, {b0, b1});
#endif
}

/// cp.async: 16 bytes from global to shared memory, both aligned to 16, which are there when this thread has
/// called wait_for_copies(), and for others behind a barrier after that.
__device__ inline void begin_copy(void* shared, const void* global) {
#if defined(__CUDACC__)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(shared)), "l"(global)
                 : "memory");
#else
    kcpu::begin_copy(shared, global);
#endif
}
__device__ inline void wait_for_copies() {
#if defined(__CUDACC__)
    asm volatile("cp.async.wait_all;" ::: "memory");
#else
    kcpu::wait_for_copies();
#endif
}

}  // namespace tutti::cuda
