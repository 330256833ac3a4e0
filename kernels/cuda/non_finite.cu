#include "non_finite.hpp"

#include "launch.hpp"
#include "storage.hpp"
#include "vectors.hpp"

namespace tutti::cuda {
namespace {

using Flag = unsigned long long;  // what atomicOr takes; as wide as an i64

__global__ void __launch_bounds__(256) clear_flags(Flag* flags, std::int64_t count) {
    for (std::int64_t i = grid_thread(); i < count; i += grid_threads()) flags[i] = 0;
}

/// The last segment that begins at or before `place`; empty segments before it begin there, too.
__device__ inline std::int64_t segment_of(const std::int64_t* offsets, std::int64_t segments,
                                          std::int64_t place) {
    std::int64_t low = 0, high = segments;
    while (high - low > 1) {
        const std::int64_t middle = (low + high) / 2;
        (offsets[middle] <= place ? low : high) = middle;
    }
    return low;
}

template <class T>
__global__ void __launch_bounds__(256)
    scan(const T* RESTRICT x, std::int64_t count, const std::int64_t* RESTRICT offsets, std::int64_t segments,
         Flag* flags) {
    const auto look = [&]<int N>(std::int64_t first, Lanes<N>) {
        float values[N];
        load<N>(x + first, values);
#pragma unroll
        for (int i = 0; i < N; ++i)
            if (!isfinite(values[i])) atomicOr(flags + segment_of(offsets, segments, first + i), Flag{1});
    };
    for_elements<vector_size<T>>(count, look);
}

/// For a buffer that does not begin at a multiple of 16 bytes.
template <class T>
__global__ void __launch_bounds__(256)
    scan_singly(const T* RESTRICT x, std::int64_t count, const std::int64_t* RESTRICT offsets,
                std::int64_t segments, Flag* flags) {
    for (std::int64_t i = grid_thread(); i < count; i += grid_threads())
        if (!isfinite(to_float(x[i]))) atomicOr(flags + segment_of(offsets, segments, i), Flag{1});
}

}  // namespace

void find_non_finite(const TensorView& x, const TensorView& offsets, const TensorView& flags, Stream stream) {
    const std::int64_t segments = flags.count();
    assert(offsets.count() == segments + 1);
    static_assert(sizeof(Flag) == sizeof(std::int64_t));
    Flag* bits = reinterpret_cast<Flag*>(flags.as<std::int64_t>());
    launch("non_finite clear", clear_flags, elementwise(segments), stream, bits, segments);
    with_storage(x.dtype, [&]<class T>(Storage<T>) {
        const bool wide = aligned(x.data);
        launch("non_finite", wide ? scan<T> : scan_singly<T>,
               elementwise(divided_up(x.count(), wide ? vector_size<T> : 1)), stream, elements<const T>(x),
               x.count(), offsets.as<std::int64_t>(), segments, bits);
    });
}

}  // namespace tutti::cuda
