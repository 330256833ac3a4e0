#pragma once
// Forward of a convolution of stride 2 over few channels (a model's first) as one of stride 1 over 64
// channels, for which the libraries have engines that keep tensor cores busy. Two steps:
//
// Of the padded image, a cell is 2 × 2 pixels: 2 lines of 8 elements, each the channels of two pixels and
// zeros. With tap k = 2a + b and pixel 2·oh + k = 2·(oh + a) + b, kernel and stride halve: ceil(K/2) cells,
// stride 1; taps beyond the kernel have zeros for weights.
// Four cells side by side are one pixel of 64 channels, and the four outputs side by side in y are one pixel
// of 4·O channels (in memory nothing moves): output q of these sees the cells q … q + ceil(K/2) − 1, and has
// zeros for weights elsewhere.
//
// ResNet's 7 × 7 over 224·224·3 becomes 4 × 2 over 115·29·64 with 256 outputs. It has 512 products for each
// output, half of them with zeros, where 7·7·8 has 392, but its operands fill the engines' tiles.
// Zero times an infinity or a NaN is a NaN: one in x reaches the outputs of its four and the windows one
// pixel farther, too.
//
// Floor at 4.3 TB/s for 256 of those images in bf16, 77 MB to 109 MB: 43 µs. The weights are small.

#include <optional>

#include "../common/counts.hpp"
#include "stream.hpp"
#include "tutti/device/ops.hpp"

namespace tutti::cuda {

/// Sizes in elements.
struct Cells {
    static constexpr std::int64_t line = 8, size = 2 * line, side_by_side = 4;
};

/// The convolution of stride 1, or nothing where this does not apply or pay. Without bias.
inline std::optional<Conv2dShape> folded(const Conv2dShape& s) {
    if (s.stride_h != 2 || s.stride_w != 2 || s.groups != 1 || 2 * s.in > Cells::line) return {};
    // Of a small kernel most of four windows' width would be zeros.
    if (s.kernel_h < 5 || s.kernel_w < 5 || s.out_width() % Cells::side_by_side != 0) return {};
    Conv2dShape result;
    result.in = Cells::side_by_side * Cells::size;
    result.out = Cells::side_by_side * s.out;
    result.kernel_h = divided_up(s.kernel_h, 2);
    result.kernel_w = divided_up(divided_up(s.kernel_w, 2) + Cells::side_by_side - 1, Cells::side_by_side);
    result.height = s.out_height() + result.kernel_h - 1;
    result.width = s.out_width() / Cells::side_by_side + result.kernel_w - 1;
    result.bias = false;
    return result;
}

// Of a shape that can be folded. f32 or bf16 on either side; one launch each.

/// x[N, H, W, I] -> cells[N, height, width, 64] of the folded shape.
void space_to_depth(const Conv2dShape& shape, const TensorView& x, const TensorView& cells, Stream stream);
/// weight[O, KH, KW, I] -> [4·O, …, 64]
void fold_weight(const Conv2dShape& shape, const TensorView& weight, const TensorView& folded_weight,
                 Stream stream);

}  // namespace tutti::cuda
