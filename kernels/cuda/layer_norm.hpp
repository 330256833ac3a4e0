#pragma once
// Layer normalisation on the GPU: the contract of TransformerOps (include/tutti/device/transformer_ops.hpp)
// with x, y, dy, dx [R, C] in f32 or bf16 (all the same), gamma, beta, dgamma, dbeta f32[C], statistics
// f64[R, 2].
//
// Moves, with B = R · C · (4 or 2) bytes; floor at 4.3 TB/s for 256 images of ViT-B/16 in bf16 (50432 x 768:
// B = 77 MB, 18 µs): forward 2 B (36 µs), backward 3 B (54 µs). Rows of whole vectors of 16 bytes and at
// most 1024 elements are held in registers; the later passes over any other find it in a cache.

#include "stream.hpp"
#include "tutti/device/tensor_view.hpp"

namespace tutti::cuda {

void layer_norm_forward(const TensorView& x, const TensorView& gamma, const TensorView& beta, double eps,
                        const TensorView& y, const TensorView& statistics, Stream stream);

/// Floats of workspace for R rows of C.
std::int64_t layer_norm_workspace(std::int64_t rows, std::int64_t width);

/// dx is skipped when undefined, and may be dy; addend is left out when undefined, and may be dx. workspace:
/// f32[layer_norm_workspace]. Throws UsageError for C above 29040, whose sums do not fit into a block's
/// shared memory.
void layer_norm_backward(const TensorView& x, const TensorView& gamma, const TensorView& statistics,
                         const TensorView& dy, const TensorView& workspace, const TensorView& dx,
                         const TensorView& dgamma, const TensorView& dbeta, const TensorView& addend,
                         Stream stream);

}  // namespace tutti::cuda
