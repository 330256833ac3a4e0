#include "row_sums.hpp"

#include <cassert>

#include "geometry.hpp"
#include "launch.hpp"
#include "storage.hpp"
#include "vectors.hpp"

namespace tutti::cuda {
namespace {

/// A thread has the same elements of all rows, so the sum may lie in one of them.
template <int N>
__global__ void __launch_bounds__(256)
    add_rows_kernel(const Bf16* rows, std::int64_t row_count, std::int64_t count, Bf16* sum) {
    for_elements<N>(count, [&]<int M>(std::int64_t i, Lanes<M>) {
        float total[M];
        load(rows + i, total);
        for (std::int64_t row = 1; row < row_count; ++row) {
            float x[M];
            load(rows + row * count + i, x);
#pragma unroll
            for (int k = 0; k < M; ++k) total[k] += x[k];
        }
        store(sum + i, total);
    });
}

}  // namespace

void add_rows(const TensorView& rows, const TensorView& sum, Stream stream) {
    const std::int64_t count = sum.count();
    assert(rows.shape[1] == count);
    const auto* const first = elements<const Bf16>(rows);
    auto* const out = elements<Bf16>(sum);
    with_lanes<Bf16>(aligned(first, out) && count % vector_size<Bf16> == 0, [&]<int N>(Lanes<N>) {
        launch("add_rows", add_rows_kernel<N>, elementwise(divided_up(count, N)), stream, first,
               rows.shape[0], count, out);
    });
}

}  // namespace tutti::cuda
