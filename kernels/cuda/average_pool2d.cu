#include "average_pool2d.hpp"

#include "pixels.hpp"
#include "storage.hpp"
#include "vectors.hpp"

namespace tutti::cuda {
namespace {

struct Plan {
    int height, width, channels, out_height, out_width;
    unsigned items;
    const std::int64_t *rows, *columns;            ///< {begin, end, divisor}
    const std::int64_t *row_users, *column_users;  ///< {first, end}
};

Plan plan(const AveragePool2dShape& s, const TensorView& table, unsigned items) {
    const auto rows = static_cast<std::int64_t>(s.rows.size());
    const auto columns = static_cast<std::int64_t>(s.columns.size());
    assert(table.count() == 3 * (rows + columns) + 2 * (s.height + s.width));
    const std::int64_t* data = table.as<std::int64_t>();
    const std::int64_t* users = data + 3 * (rows + columns);
    return {static_cast<int>(s.height),
            static_cast<int>(s.width),
            static_cast<int>(s.channels),
            static_cast<int>(rows),
            static_cast<int>(columns),
            items,
            data,
            data + 3 * rows,
            users,
            users + 2 * s.height};
}

template <class T, int N>
__global__ void __launch_bounds__(256, 1) forward(Plan s, const T* RESTRICT x, T* RESTRICT y) {
    for_items(s.items, [&](unsigned item) {
        const Pixel out = pixel_of(item, s.out_height, s.out_width, s.channels / N, N);
        const std::int64_t *rows = s.rows + 3 * out.h, *columns = s.columns + 3 * out.w;
        const T* image = x + out.n * s.height * s.width * s.channels + out.channel;
        float sum[N] = {};
        const int h_end = static_cast<int>(rows[1]), w_begin = static_cast<int>(columns[0]);
        const int w_end = static_cast<int>(columns[1]);
        for (int h = static_cast<int>(rows[0]); h < h_end; ++h) {
#pragma unroll 4
            for (int w = w_begin; w < w_end; ++w) {
                float value[N];
                load(image + static_cast<std::int64_t>(h * s.width + w) * s.channels, value);
#pragma unroll
                for (int i = 0; i < N; ++i) sum[i] += value[i];
            }
        }
        const float divisor = static_cast<float>(rows[2] * columns[2]);
#pragma unroll
        for (int i = 0; i < N; ++i) sum[i] /= divisor;
        store(y + std::int64_t{item} * N, sum);
    });
}

template <class T, int N>
__global__ void __launch_bounds__(256, 1) backward(Plan s, const T* RESTRICT dy, T* RESTRICT dx) {
    for_items(s.items, [&](unsigned item) {
        const Pixel in = pixel_of(item, s.height, s.width, s.channels / N, N);
        const std::int64_t *rows = s.row_users + 2 * in.h, *columns = s.column_users + 2 * in.w;
        const T* image = dy + in.n * s.out_height * s.out_width * s.channels + in.channel;
        float sum[N] = {};
        const int oh_end = static_cast<int>(rows[1]), ow_begin = static_cast<int>(columns[0]);
        const int ow_end = static_cast<int>(columns[1]);
        for (int oh = static_cast<int>(rows[0]); oh < oh_end; ++oh)
            for (int ow = ow_begin; ow < ow_end; ++ow) {
                const float divisor = static_cast<float>(s.rows[3 * oh + 2] * s.columns[3 * ow + 2]);
                float gradient[N];
                load(image + static_cast<std::int64_t>(oh * s.out_width + ow) * s.channels, gradient);
#pragma unroll
                for (int i = 0; i < N; ++i) sum[i] += gradient[i] / divisor;
            }
        store(dx + std::int64_t{item} * N, sum);
    });
}

std::int64_t in_elements(const AveragePool2dShape& s) {
    return s.height * s.width * s.channels;
}
std::int64_t out_elements(const AveragePool2dShape& s) {
    return static_cast<std::int64_t>(s.rows.size() * s.columns.size()) * s.channels;
}

void append_windows(const std::vector<PoolWindow>& windows, std::vector<std::int64_t>& table) {
    for (const PoolWindow& window : windows)
        table.insert(table.end(), {window.begin, window.end, window.divisor});
}

/// As windows ascend, those that hold a place are neighbours.
void append_users(const std::vector<PoolWindow>& windows, std::int64_t size,
                  std::vector<std::int64_t>& table) {
    for (std::size_t i = 1; i < windows.size(); ++i)
        if (windows[i].begin < windows[i - 1].begin || windows[i].end < windows[i - 1].end)
            throw UsageError("average_pool2d: window " + std::to_string(i) + " lies before its predecessor",
                             "on a CUDA device the windows must be in ascending order");
    std::size_t first = 0, end = 0;
    for (std::int64_t place = 0; place < size; ++place) {
        while (first < windows.size() && windows[first].end <= place) ++first;
        end = std::max(end, first);
        while (end < windows.size() && windows[end].begin <= place) ++end;
        table.insert(table.end(), {static_cast<std::int64_t>(first), static_cast<std::int64_t>(end)});
    }
}

}  // namespace

std::vector<std::int64_t> average_pool2d_table(const AveragePool2dShape& shape) {
    std::vector<std::int64_t> table;
    append_windows(shape.rows, table);
    append_windows(shape.columns, table);
    append_users(shape.rows, shape.height, table);
    append_users(shape.columns, shape.width, table);
    return table;
}

void average_pool2d_forward(const AveragePool2dShape& shape, const TensorView& table, const TensorView& x,
                            const TensorView& y, Stream stream) {
    assert(x.dtype == y.dtype);
    const std::int64_t in_size = in_elements(shape), out_size = out_elements(shape);
    assert(x.count() == x.shape[0] * in_size && y.count() == x.shape[0] * out_size);
    with_storage(x.dtype, [&]<class T>(Storage<T>) {
        const bool wide = whole_vectors<T>(shape.channels, x.data, y.data);
        with_lanes<T>(wide, [&]<int N>(Lanes<N>) {
            for_samples(x.shape[0], out_size / N, [&](std::int64_t first, std::int64_t, unsigned items) {
                launch("average_pool2d_forward", forward<T, N>, elementwise(items), stream,
                       plan(shape, table, items), elements<const T>(x) + first * in_size,
                       elements<T>(y) + first * out_size);
            });
        });
    });
}

void average_pool2d_backward(const AveragePool2dShape& shape, const TensorView& table, const TensorView& dy,
                             const TensorView& dx, Stream stream) {
    assert(dx.dtype == dy.dtype);
    const std::int64_t in_size = in_elements(shape), out_size = out_elements(shape);
    assert(dx.count() == dx.shape[0] * in_size && dy.count() == dx.shape[0] * out_size);
    with_storage(dx.dtype, [&]<class T>(Storage<T>) {
        const bool wide = whole_vectors<T>(shape.channels, dx.data, dy.data);
        with_lanes<T>(wide, [&]<int N>(Lanes<N>) {
            for_samples(dx.shape[0], in_size / N, [&](std::int64_t first, std::int64_t, unsigned items) {
                launch("average_pool2d_backward", backward<T, N>, elementwise(items), stream,
                       plan(shape, table, items), elements<const T>(dy) + first * out_size,
                       elements<T>(dx) + first * in_size);
            });
        });
    });
}

}  // namespace tutti::cuda
