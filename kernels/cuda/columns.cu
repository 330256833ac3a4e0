#include "columns.hpp"

#include <cassert>

#include "map.hpp"
#include "pixels.hpp"

namespace tutti::cuda {
namespace {

/// How many elements apart the rows are.
struct Strides {
    std::int64_t x, y;
};

/// An item is N columns of one of the rows, which have `groups` of them.
template <class In, class Out, int N>
__global__ void __launch_bounds__(256)
    copy_groups(unsigned items, unsigned groups, Strides rows, const In* RESTRICT x, Out* RESTRICT y) {
    for_items(items, [&](unsigned item) {
        const unsigned row = item / groups, column = (item - row * groups) * N;
        float value[N];
        load(x + row * rows.x + column, value);
        store(y + row * rows.y + column, value);
    });
}

}  // namespace

void copy_columns(const TensorView& x, const ColumnRange& columns, const TensorView& y, Stream stream) {
    const Strides strides{x.shape[x.shape.rank() - 1], y.shape[y.shape.rank() - 1]};
    const std::int64_t rows = rows_of(y);
    assert(rows_of(x) == rows && columns.count >= 0);
    assert(columns.from >= 0 && columns.from + columns.count <= strides.x);
    assert(columns.to >= 0 && columns.to + columns.count <= strides.y);
    with_storage(x.dtype, [&]<class In>(Storage<In>) {
        with_storage(y.dtype, [&]<class Out>(Storage<Out>) {
            using Narrow = Narrower<In, Out>;
            const auto whole = [](auto... counts) { return (... && (counts % vector_size<Narrow> == 0)); };
            const bool wide = whole(columns.from, columns.to, columns.count, strides.x, strides.y);
            with_lanes<Narrow>(wide && aligned(x.data, y.data), [&]<int N>(Lanes<N>) {
                const std::int64_t groups = columns.count / N;
                for_samples(rows, groups, [&](std::int64_t first, std::int64_t, unsigned items) {
                    launch("copy_columns", copy_groups<In, Out, N>, elementwise(items), stream, items,
                           static_cast<unsigned>(groups), strides,
                           elements<const In>(x) + first * strides.x + columns.from,
                           elements<Out>(y) + first * strides.y + columns.to);
                });
            });
        });
    });
}

}  // namespace tutti::cuda
