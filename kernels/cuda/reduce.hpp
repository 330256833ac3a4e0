#pragma once
// Sums and maxima over the threads of a warp or block, always in one order.

#include "launch.hpp"

namespace tutti::cuda {

template <class T>
struct Sum {
    __device__ T operator()(T a, T b) const { return a + b; }
};
template <class T>
struct Maximum {
    __device__ T operator()(T a, T b) const { return a < b ? b : a; }
};

/// The value of the lane whose number differs in the bits of `distance`. Overload it for a type of several
/// words.
template <class T>
__device__ inline T from_lane_xor(T value, int distance) {
    return __shfl_xor_sync(whole_warp, value, distance);
}

/// Every lane of the whole warp gets the result. `combine` must not care for the order of its two arguments.
template <class T, class Combine>
__device__ inline T warp_reduce(T value, const Combine& combine) {
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2)
        value = combine(value, from_lane_xor(value, distance));
    return value;
}

template <class T>
__device__ inline T warp_sum(T value) {
    return warp_reduce(value, Sum<T>{});
}

/// Every thread of a block of `Threads` (a multiple of 32) gets the result. All threads must call; `identity`
/// changes nothing that it is combined with.
template <int Threads, class T, class Combine>
__device__ inline T block_reduce(T value, T identity, const Combine& combine) {
    static_assert(Threads % 32 == 0 && Threads <= 1024);
    SHARED(T, parts, [Threads / 32]);
    value = warp_reduce(value, combine);
    if (lane_index() == 0) parts[thread_index() / 32] = value;
    __syncthreads();
    value = warp_reduce(lane_index() < Threads / 32 ? parts[lane_index()] : identity, combine);
    __syncthreads();  // the next call writes where this one reads
    return value;
}

template <int Threads, class T>
__device__ inline T block_sum(T value) {
    return block_reduce<Threads>(value, T{0}, Sum<T>{});
}

}  // namespace tutti::cuda
