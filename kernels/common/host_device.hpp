#pragma once
// Arithmetic that the CPU backend and the CUDA kernels share is written once, as functions and functors with
// this mark. They write fmaf() where a product and a sum are to be one rounding, and nowhere else may a
// compiler fuse them: -ffp-contract=off for g++, -fmad=false for nvcc. So both give the same bits.

#if defined(__CUDACC__)
#define HOST_DEVICE __host__ __device__
#else
#define HOST_DEVICE
#endif

#include <cmath>

namespace tutti {

/// a·b + c with one rounding.
HOST_DEVICE inline float fused(float a, float b, float c) {
    return fmaf(a, b, c);
}
HOST_DEVICE inline double fused(double a, double b, double c) {
    return fma(a, b, c);
}

}  // namespace tutti
