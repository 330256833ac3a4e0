#include "eigen_ops.hpp"
#include "parallel.hpp"

namespace tutti {
namespace {

/// Elements whose squares one thread sums; fixed, so that no number of threads changes a bit.
constexpr std::int64_t block = 4096;
/// Sums that run side by side in a block: as many as the widest vectors have doubles, written out so that the
/// order is the same for every instruction set.
constexpr std::int64_t lanes = 8;

/// Halves added to halves: the first `count` values along a binary tree.
double tree_sum(double* values, std::int64_t count) {
    while (count > 1) {
        const std::int64_t half = (count + 1) / 2;
        for (std::int64_t i = 0; i + half < count; ++i) values[i] += values[i + half];
        count = half;
    }
    return values[0];
}

template <class T>
double block_sum(const T* x, std::int64_t count) {
    double sums[lanes] = {};
    std::int64_t i = 0;
    for (; i + lanes <= count; i += lanes) {
#pragma omp simd
        for (std::int64_t lane = 0; lane < lanes; ++lane) {
            const double value = static_cast<double>(x[i + lane]);
            sums[lane] += value * value;
        }
    }
    for (std::int64_t lane = 0; i + lane < count; ++lane) {
        const double value = static_cast<double>(x[i + lane]);
        sums[lane] += value * value;
    }
    return tree_sum(sums, lanes);
}

}  // namespace

template <class T>
void EigenOps<T>::sum_of_squares(const TensorView& x, const TensorView& sum) {
    assert(sum.count() == 1);
    const std::int64_t count = x.count(), blocks = (count + block - 1) / block;
    double& total = *sum.as<double>();
    if (blocks == 0) {
        total = 0;
        return;
    }
    const T* values = x.as<T>();
    double* sums = workspace_->reserve_elements<double>(static_cast<std::size_t>(blocks));
    for_ranges(
        blocks,
        [=](std::int64_t begin, std::int64_t end) {
            for (std::int64_t b = begin; b < end; ++b)
                sums[b] = block_sum(values + b * block, std::min(block, count - b * block));
        },
        block);
    total = tree_sum(sums, blocks);
}

template void EigenOps<float>::sum_of_squares(const TensorView&, const TensorView&);
template void EigenOps<double>::sum_of_squares(const TensorView&, const TensorView&);

}  // namespace tutti
