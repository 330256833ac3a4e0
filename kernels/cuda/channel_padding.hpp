#pragma once
// Rows of channels as rows of more or fewer channels, in another type: tensor cores want channels in
// multiples of 8, and a stem's images have 3. f32 or bf16 on either side; one launch.
//
// Moves: R·(C·s + D·t) bytes for R rows of C elements of s bytes in, D of t out. Floor at 4.3 TB/s: 256
// images of 224·224 from 3 channels in fp32 to 8 in bf16: 84 µs.

#include "stream.hpp"
#include "tutti/device/tensor_view.hpp"

namespace tutti::cuda {

/// y[r, c] = x[r, c] rounded to y's type for c < min(C, D), and 0 for the rest. x: [R…, C]; y: [R…, D].
void pad_channels(const TensorView& x, const TensorView& y, Stream stream);

}  // namespace tutti::cuda
