#include "sum_of_squares.hpp"

#include "launch.hpp"
#include "storage.hpp"

namespace tutti::cuda {
namespace {

// As in kernels/cpu/sum_of_squares.cpp.
constexpr std::int64_t block_elements = 4096;
constexpr int lanes = 8;
constexpr int threads = 256;

/// Eight threads sum one block of elements, each every eighth; a warp reads four whole sectors at a time.
template <class T>
__global__ void __launch_bounds__(threads)
    sum_blocks(const T* RESTRICT x, std::int64_t count, std::int64_t blocks, double* RESTRICT sums) {
    const std::int64_t block = grid_thread() / lanes;
    const int lane = thread_index() % lanes;
    const std::int64_t begin = block * block_elements;
    const std::int64_t end = begin + block_elements < count ? begin + block_elements : count;
    double sum = 0;
#pragma unroll 16
    for (std::int64_t i = begin + lane; i < end; i += lanes) {
        const double value = static_cast<double>(to_float(x[i]));
        sum += value * value;
    }
    for (int distance = lanes / 2; distance > 0; distance /= 2)
        sum += __shfl_xor_sync(whole_warp, sum, distance);
    if (lane == 0 && block < blocks) sums[block] = sum;
}

/// The tree over `count` sums, halves added to halves, by one block.
__global__ void __launch_bounds__(1024) add_tree(double* sums, std::int64_t count, double* RESTRICT total) {
    if (count == 0 && thread_index() == 0) sums[0] = 0;
    while (count > 1) {
        const std::int64_t half = (count + 1) / 2;
        for (std::int64_t i = thread_index(); i + half < count; i += block_threads())
            sums[i] += sums[i + half];
        __syncthreads();
        count = half;
    }
    if (thread_index() == 0) *total = sums[0];
}

}  // namespace

std::int64_t sum_of_squares_workspace(std::int64_t count) {
    return std::max<std::int64_t>(1, divided_up(count, block_elements));
}

void sum_of_squares(const TensorView& x, const TensorView& workspace, const TensorView& sum, Stream stream) {
    const std::int64_t count = x.count(), blocks = divided_up(count, block_elements);
    assert(workspace.count() >= sum_of_squares_workspace(count) && sum.count() == 1);
    double* sums = workspace.as<double>();
    const Geometry many{{static_cast<unsigned>(divided_up(blocks * lanes, threads))}, {threads}};
    with_storage(x.dtype, [&]<class T>(Storage<T>) {
        launch("sum_of_squares", sum_blocks<T>, many, stream, elements<const T>(x), count, blocks, sums);
    });
    const unsigned tree_threads = blocks > 512 ? 1024 : 256;
    launch("sum_of_squares tree", add_tree, Geometry{{1}, {tree_threads}}, stream, sums, blocks,
           sum.as<double>());
}

}  // namespace tutti::cuda
