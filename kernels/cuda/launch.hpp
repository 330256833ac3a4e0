#pragma once
// The header of every kernel's source. This one and ptx.hpp are the only ones that know that there are two
// builds: nvcc's, and that of the tests, in which g++ compiles the same sources and tests/support/kcpu runs
// them on the CPU.
//
// In place of CUDA's words a kernel writes
//   SHARED(float, tile, [8][33]);       static shared memory, fresh for each block
//   dynamic_shared<float>()             what Geometry::dynamic_shared asked for, 128-byte aligned
//   const float* RESTRICT x             nothing that the kernel writes is seen through x
//   __global__ void REGISTERS(144, 416) in place of __launch_bounds__: that many for each of 416 threads
//   launch("name", kernel, geometry, stream, arguments...)
// and PTX instructions only through ptx.hpp.

#include <cstdint>

#include "geometry.hpp"
#include "stream.hpp"

namespace tutti::cuda {

/// Whether a kernel must ask for its shared memory: above 48 KiB, static and dynamic together (CUDA C++
/// Programming Guide, "Shared Memory", compute capability 8.x on). The static part, which the host does not
/// know, has 16 of them.
inline bool asks_for_shared_memory(const Geometry& geometry) {
    return geometry.dynamic_shared > 32 * 1024;
}

}  // namespace tutti::cuda

#if defined(__CUDACC__)

#include <cuda_runtime.h>

#include <string>
#include <utility>

#include "tutti/base/error.hpp"

#define SHARED(T, name, ...) __shared__ T name __VA_ARGS__
#define RESTRICT __restrict__
// __launch_bounds__ alone may take fewer, for more blocks at once, or more. (__maxnreg__: CUDA 12.4.)
#if __CUDACC_VER_MAJOR__ > 12 || (__CUDACC_VER_MAJOR__ == 12 && __CUDACC_VER_MINOR__ >= 4)
#define REGISTERS(count, threads) __maxnreg__((::tutti::cuda::registers_of_a_block<count, threads>()))
#else
#define REGISTERS(count, threads) __launch_bounds__(threads, 1)
#endif

namespace tutti::cuda {

template <int Count, int Threads>
constexpr int registers_of_a_block() {
    static_assert(registers_fit(Count, Threads), "no multiprocessor could hold such a block");
    return Count;
}

template <class T>
__device__ T* dynamic_shared() {
    extern __shared__ __align__(128) unsigned char tutti_dynamic_shared_memory[];
    return reinterpret_cast<T*>(tutti_dynamic_shared_memory);
}

inline void check_launch(cudaError_t status, const char* name) {
    if (status == cudaSuccess) return;
    cudaGetLastError();  // told here; kept as one, it would be told to who next asks whether a launch failed
    throw RunError(std::string("the CUDA kernel ") + name +
                   " could not be started: " + cudaGetErrorName(status) + ", " + cudaGetErrorString(status));
}

/// Asynchronous. Throws RunError, with the name, when the launch is refused.
template <class... Parameters, class... Arguments>
void launch(const char* name, void (*kernel)(Parameters...), const Geometry& geometry, Stream stream,
            Arguments&&... arguments) {
    if (geometry.empty()) return;
    const auto extent = [](const Extent3& e) { return dim3(e.x, e.y, e.z); };
    if (asks_for_shared_memory(geometry))
        check_launch(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                          static_cast<int>(geometry.dynamic_shared)),
                     name);
    cudaLaunchConfig_t config{};
    config.gridDim = extent(geometry.grid);
    config.blockDim = extent(geometry.block);
    config.dynamicSmemBytes = geometry.dynamic_shared;
    config.stream = stream;
    check_launch(
        cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(std::forward<Arguments>(arguments))...),
        name);
}

}  // namespace tutti::cuda

#else

#include "kcpu.hpp"

#define REGISTERS(count, threads)

namespace tutti::cuda {

template <class T>
T* dynamic_shared() {
    return static_cast<T*>(kcpu::dynamic_shared_memory());
}

template <class... Parameters, class... Arguments>
void launch(const char* name, void (*kernel)(Parameters...), const Geometry& geometry, Stream stream,
            Arguments&&... arguments) {
    if (geometry.empty()) return;
    const auto extent = [](const Extent3& e) { return kcpu::Extent{e.x, e.y, e.z}; };
    kcpu::launch_in_stream(stream, name, kernel, extent(geometry.grid), extent(geometry.block),
                           kcpu::SharedMemory{geometry.dynamic_shared, asks_for_shared_memory(geometry)
                                                                           ? kcpu::most_shared_memory
                                                                           : kcpu::unasked_shared_memory},
                           std::forward<Arguments>(arguments)...);
}

}  // namespace tutti::cuda

#endif

namespace tutti::cuda {

inline constexpr unsigned whole_warp = 0xffffffffu;

// Where a thread is; blocks and grids of one dimension.
__device__ inline int thread_index() {
    return static_cast<int>(threadIdx.x);
}
__device__ inline int block_threads() {
    return static_cast<int>(blockDim.x);
}
__device__ inline int lane_index() {
    return static_cast<int>(threadIdx.x % 32);
}
__device__ inline std::int64_t block_index() {
    return static_cast<std::int64_t>(blockIdx.x);
}
__device__ inline std::int64_t grid_thread() {
    return static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ inline std::int64_t grid_threads() {
    return static_cast<std::int64_t>(gridDim.x) * blockDim.x;
}

}  // namespace tutti::cuda
