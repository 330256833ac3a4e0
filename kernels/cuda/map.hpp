#pragma once
// Kernels that compute each element from the elements at the same place: y[i] = f(a[i], b[i], …) in fp32.
// The output may be one of the inputs.

#include "geometry.hpp"
#include "launch.hpp"
#include "storage.hpp"
#include "vectors.hpp"

namespace tutti::cuda {

template <int N, class Function, class In, class Out>
__global__ void __launch_bounds__(256) map_one(Function f, const In* a, Out* y, std::int64_t count) {
    for_elements<N>(count, [&]<int M>(std::int64_t i, Lanes<M>) {
        float x[M];
        load(a + i, x);
#pragma unroll
        for (int k = 0; k < M; ++k) x[k] = f(x[k]);
        store(y + i, x);
    });
}

template <int N, class Function, class In, class Out>
__global__ void __launch_bounds__(256)
    map_two(Function f, const In* a, const Out* b, Out* y, std::int64_t count) {
    for_elements<N>(count, [&]<int M>(std::int64_t i, Lanes<M>) {
        float x[M], z[M];
        load(a + i, x);
        load(b + i, z);
#pragma unroll
        for (int k = 0; k < M; ++k) x[k] = f(x[k], z[k]);
        store(y + i, x);
    });
}

/// The lanes that suit the narrower of two types, so that both are moved in whole vectors.
template <class A, class B>
using Narrower = std::conditional_t<(sizeof(A) < sizeof(B)), A, B>;

/// y = f(a), for any count.
template <class In, class Out, class Function>
void map(const char* name, const Function& f, const In* a, Out* y, std::int64_t count, Stream stream) {
    with_lanes<Narrower<In, Out>>(aligned(a, y), [&]<int N>(Lanes<N>) {
        launch(name, map_one<N, Function, In, Out>, elementwise(divided_up(count, N)), stream, f, a, y,
               count);
    });
}

/// y = f(a, b)
template <class In, class Out, class Function>
void map(const char* name, const Function& f, const In* a, const Out* b, Out* y, std::int64_t count,
         Stream stream) {
    with_lanes<Narrower<In, Out>>(aligned(a, b, y), [&]<int N>(Lanes<N>) {
        launch(name, map_two<N, Function, In, Out>, elementwise(divided_up(count, N)), stream, f, a, b, y,
               count);
    });
}

}  // namespace tutti::cuda
