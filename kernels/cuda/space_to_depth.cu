#include "space_to_depth.hpp"

#include "pixels.hpp"
#include "storage.hpp"
#include "vectors.hpp"

namespace tutti::cuda {
namespace {

constexpr int line = Cells::line, side_by_side = Cells::side_by_side;

/// An image of few channels and the cells that cover it from `padding` before its corner.
struct Image {
    int height, width, channels, padding_h, padding_w;
    unsigned rows, columns;  ///< of cells
    unsigned items;          ///< lines of cells
};

/// A thread gathers one line of a cell: two pixels, which are neighbours in memory.
template <class In, class Out>
__global__ void __launch_bounds__(256) gather_cells(Image s, const In* RESTRICT x, Out* RESTRICT cells) {
    for_items(s.items, [&](unsigned item) {
        const unsigned cell = item / 2, row = cell / s.columns, n = row / s.rows;
        const int h = static_cast<int>(2 * (row - n * s.rows) + item % 2) - s.padding_h;
        const int w = static_cast<int>(2 * (cell - row * s.columns)) - s.padding_w;
        const bool in_rows = h >= 0 && h < s.height;
        const bool first = in_rows && w >= 0 && w < s.width;
        const bool second = in_rows && w + 1 >= 0 && w + 1 < s.width;
        const std::int64_t pixel = (std::int64_t{n} * s.height + h) * s.width + w;
        float values[line];
#pragma unroll
        for (int i = 0; i < line; ++i) {
            const bool inside = i < s.channels ? first : i < 2 * s.channels && second;
            values[i] = inside ? to_float(x[pixel * s.channels + i]) : 0.0f;
        }
        store(cells + std::int64_t{item} * line, values);
    });
}

/// [O, KH, KW, I], and the folded shape's taps.
struct Kernel {
    int out, height, width, channels;
    int taps_h, taps_w;
};

template <class In, class Out>
__global__ void __launch_bounds__(256)
    fold_lines(Kernel s, const In* RESTRICT weight, Out* RESTRICT folded, unsigned items) {
    for_items(items, [&](unsigned item) {
        const auto at = static_cast<int>(item);  // [4, O, taps_h, taps_w · 4, 2] lines
        const int columns = s.taps_w * side_by_side;
        const int cell = at / 2, row = cell / columns, filter = row / s.taps_h, q = filter / s.out;
        const int kh = 2 * (row % s.taps_h) + at % 2, kw = 2 * (cell % columns - q), o = filter % s.out;
        float values[line];
#pragma unroll
        for (int i = 0; i < line; ++i) {
            const int column = i < s.channels ? kw : kw + 1;
            const bool inside = i < 2 * s.channels && kh < s.height && column >= 0 && column < s.width;
            values[i] =
                inside ? to_float(weight[((o * s.height + kh) * s.width + kw) * s.channels + i]) : 0.0f;
        }
        store(folded + std::int64_t{item} * line, values);
    });
}

Kernel kernel_of(const Conv2dShape& s, const Conv2dShape& to) {
    const auto narrow = [](std::int64_t size) { return static_cast<int>(size); };
    return {narrow(s.out), narrow(s.kernel_h),  narrow(s.kernel_w),
            narrow(s.in),  narrow(to.kernel_h), narrow(to.kernel_w)};
}

/// Calls body(Storage<In>, Storage<Out>).
template <class Body>
void with_both(DType in, DType out, const Body& body) {
    with_storage(in, [&]<class In>(Storage<In> from) {
        with_storage(out, [&]<class Out>(Storage<Out> to) { body(from, to); });
    });
}

std::int64_t weights(const Conv2dShape& s) {
    return s.out * s.kernel_h * s.kernel_w * s.in;
}

}  // namespace

void space_to_depth(const Conv2dShape& shape, const TensorView& x, const TensorView& cells, Stream stream) {
    const Conv2dShape to = folded(shape).value();
    const std::int64_t in_size = shape.height * shape.width * shape.in;
    const std::int64_t out_size = to.height * to.width * to.in;
    const std::int64_t samples = in_size > 0 ? x.count() / in_size : 0;
    assert(x.count() == samples * in_size && cells.count() == samples * out_size && aligned(cells.data));
    const auto narrow = [](std::int64_t size) { return static_cast<int>(size); };
    with_both(x.dtype, cells.dtype, [&]<class In, class Out>(Storage<In>, Storage<Out>) {
        for_samples(samples, out_size / line, [&](std::int64_t first, std::int64_t, unsigned items) {
            const Image image{narrow(shape.height),
                              narrow(shape.width),
                              narrow(shape.in),
                              narrow(shape.padding_h),
                              narrow(shape.padding_w),
                              static_cast<unsigned>(to.height),
                              static_cast<unsigned>(to.width * side_by_side),
                              items};
            launch("space_to_depth", gather_cells<In, Out>, elementwise(items), stream, image,
                   elements<const In>(x) + first * in_size, elements<Out>(cells) + first * out_size);
        });
    });
}

void fold_weight(const Conv2dShape& shape, const TensorView& weight, const TensorView& folded_weight,
                 Stream stream) {
    const Conv2dShape to = folded(shape).value();
    assert(weight.count() == weights(shape) && folded_weight.count() == weights(to));
    assert(aligned(folded_weight.data) && weights(to) < std::int64_t{1} << 31);
    const std::int64_t lines = weights(to) / line;
    with_both(weight.dtype, folded_weight.dtype, [&]<class In, class Out>(Storage<In>, Storage<Out>) {
        launch("fold_weight", fold_lines<In, Out>, elementwise(lines), stream, kernel_of(shape, to),
               elements<const In>(weight), elements<Out>(folded_weight), static_cast<unsigned>(lines));
    });
}

}  // namespace tutti::cuda
