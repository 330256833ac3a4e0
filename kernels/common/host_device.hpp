#pragma once
// Arithmetic that the CPU backend and the CUDA kernels share is written once, as functions and functors with
// this mark. They write fmaf() where a product and a sum are to be one rounding, and nowhere else may a
// compiler fuse them: -ffp-contract=off for g++, -fmad=false for nvcc. So both give the same bits.

#if defined(__CUDACC__)
#define HOST_DEVICE __host__ __device__
#else
#define HOST_DEVICE
#endif
