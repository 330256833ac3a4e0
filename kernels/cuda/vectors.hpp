#pragma once
// Memory accesses of up to 16 bytes, with fp32 in registers whatever lies in memory.

#include <cstdint>

#include "../common/bf16.hpp"
#include "launch.hpp"
#include "ptx.hpp"
#include "tutti/base/dtype.hpp"

namespace tutti::cuda {

/// How many elements of T one thread handles at a time: 16 bytes of them.
template <class T>
inline constexpr int vector_size = static_cast<int>(16 / sizeof(T));

template <int N>
struct Lanes {
    static constexpr int count = N;
};

template <class T, int N>
struct alignas(N * sizeof(T)) Vector {
    T at[N];
};

/// N neighbours of at most 16 bytes, as they lie in memory; `data` must be aligned to N elements. For loads
/// of several rows that are to be under way together: so they need few registers, and nothing waits for one.
template <int N, class T>
__device__ inline Vector<T, N> fetch(const T* data) {
    return *reinterpret_cast<const Vector<T, N>*>(data);
}

template <class T, int N>
__device__ inline void widen(const Vector<T, N>& vector, float (&values)[N]) {
#pragma unroll
    for (int i = 0; i < N; ++i) values[i] = to_float(vector.at[i]);
}

/// N neighbours; `data` must be aligned to N elements, or 16 bytes where that is less.
template <int N, class T>
__device__ inline void load(const T* data, float (&values)[N]) {
    constexpr int step = N < vector_size<T> ? N : vector_size<T>;
#pragma unroll
    for (int first = 0; first < N; first += step) {
        const auto vector = *reinterpret_cast<const Vector<T, step>*>(data + first);
#pragma unroll
        for (int i = 0; i < step; ++i) values[first + i] = to_float(vector.at[i]);
    }
}

template <int N>
__device__ inline void store(float* data, const float (&values)[N]) {
    constexpr int step = N < 4 ? N : 4;
#pragma unroll
    for (int first = 0; first < N; first += step) {
        Vector<float, step> vector;
#pragma unroll
        for (int i = 0; i < step; ++i) vector.at[i] = values[first + i];
        *reinterpret_cast<Vector<float, step>*>(data + first) = vector;
    }
}

template <int N>
__device__ inline void store(Bf16* data, const float (&values)[N]) {
    if constexpr (N == 1) {
        *data = {static_cast<std::uint16_t>(round_to_bf16x2(values[0], 0.0f))};
    } else {
        constexpr int step = N < 8 ? N : 8;
#pragma unroll
        for (int first = 0; first < N; first += step) {
            std::uint32_t words[step / 2];
#pragma unroll
            for (int i = 0; i < step; i += 2)
                words[i / 2] = round_to_bf16x2(values[first + i], values[first + i + 1]);
            Vector<Bf16, step> vector;
            __builtin_memcpy(&vector, words, sizeof vector);
            *reinterpret_cast<Vector<Bf16, step>*>(data + first) = vector;
        }
    }
}

/// Flat arrays: body(first, Lanes<N>) for each whole vector, body(i, Lanes<1>) for each of the rest, all
/// threads of the grid together. Launch with elementwise(divided_up(count, N)).
template <int N, class Body>
__device__ inline void for_elements(std::int64_t count, const Body& body) {
    const std::int64_t vectors = count / N;
    for (std::int64_t i = grid_thread(); i < vectors; i += grid_threads()) body(i * N, Lanes<N>{});
    if constexpr (N > 1)
        for (std::int64_t i = vectors * N + grid_thread(); i < count; i += grid_threads())
            body(i, Lanes<1>{});
}

/// Whether all of these addresses allow accesses of 16 bytes.
template <class... Pointers>
bool aligned(const Pointers*... data) {
    return ((reinterpret_cast<std::uintptr_t>(data) % 16 == 0) && ...);
}

/// Whether rows of `width` elements of T at these addresses can be moved in whole vectors.
template <class T, class... Pointers>
bool whole_vectors(std::int64_t width, const Pointers*... data) {
    return width % vector_size<T> == 0 && aligned(data...);
}
/// The same where only the host knows the type.
template <class... Pointers>
bool whole_vectors(DType type, std::int64_t width, const Pointers*... data) {
    return width % static_cast<std::int64_t>(16 / size_of(type)) == 0 && aligned(data...);
}

/// Calls body(Lanes<vector_size<T>>) where `wide` accesses are allowed, else body(Lanes<1>).
template <class T, class Body>
void with_lanes(bool wide, const Body& body) {
    if (wide) return body(Lanes<vector_size<T>>{});
    body(Lanes<1>{});
}

}  // namespace tutti::cuda
