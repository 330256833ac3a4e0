#pragma once
// What kernels/cuda/launch.hpp includes when no nvcc compiles it: CUDA's language, with a CPU meaning. See
// README.md.

#include <cstddef>
#include <functional>
#include <tuple>
#include <utility>

#include "atomics.hpp"
#include "cuda_language.hpp"
#include "device_math.hpp"
#include "scheduler.hpp"
#include "warp.hpp"
#include "warp_matrix.hpp"

/// SHARED(float, tile, [8][33]) declares `tile` in the block's shared memory.
#define SHARED(T, name, ...)                        \
    using name##_shared_type = T __VA_ARGS__;       \
    static char name##_shared_key;                  \
    auto& name = *static_cast<name##_shared_type*>( \
        ::tutti::kcpu::shared_variable(&name##_shared_key, sizeof(name##_shared_type), #name))

/// Empty: with a promise of no aliases g++ would keep values across barriers, which are plain calls to it.
#define RESTRICT

namespace tutti::kcpu {

/// Threads get their own copies of the parameters, as on the device.
template <class... Parameters, class... Arguments>
void launch(const char* name, void (*kernel)(Parameters...), Extent grid, Extent block,
            std::size_t dynamic_shared, Arguments&&... arguments) {
    const std::tuple<Parameters...> values{static_cast<Parameters>(std::forward<Arguments>(arguments))...};
    run(name, grid, block, SharedMemory{dynamic_shared}, [&] { std::apply(kernel, values); });
}

/// The same, in a stream: who observes launches says when it runs. Parameters are read here.
template <class... Parameters, class... Arguments>
void launch_in_stream(const void* stream, const char* name, void (*kernel)(Parameters...), Extent grid,
                      Extent block, SharedMemory shared, Arguments&&... arguments) {
    const std::tuple<Parameters...> values{static_cast<Parameters>(std::forward<Arguments>(arguments))...};
    issue(name, stream, [=] { run(name, grid, block, shared, [&] { std::apply(kernel, values); }); });
}

}  // namespace tutti::kcpu
