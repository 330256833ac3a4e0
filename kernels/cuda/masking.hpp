#pragma once
// Masked pre-training, as MaskingOps: which tokens of a sample are hidden, taking and filling by that order,
// and how far predictions are from the normalised patches. Tokens are rows: [N, T, C], f32 or bf16;
// arithmetic in fp32 with the CPU's bits, of sums and statistics apart, which are in double and in an order
// that the shape alone decides. Without atomics. What changes from step to step lies in device memory, so
// that a captured step draws anew.
//
// Moves: running cells 16·N·(V + K); take N·K·C·(s + s') bytes, s and s' = 4 or 2; fill N·(V + K)·C·s, its
// backward N·(K + V)·C·s; last tokens N·2·K·C·s, their backward N·(K + T)·C·s; differences 3·N·M·D·4. Floor
// at 4.3 TB/s, 64 clips of VideoMAE's ViT-B (1568 tokens, 160 visible): taking 160·1536 elements from f32 to
// bf16 22 µs; filling to 1568·384 in bf16 20 µs; differences of 1408·1536 387 µs.

#include "dropout.hpp"
#include "tutti/device/masking_ops.hpp"

namespace tutti::cuda {

/// order: i64[N, T]; address.layer plays no part. Any number of places below 2³¹; the work grows with its
/// square.
void mask_tokens(const DropoutPlace& address, const TubeMask& mask, const TensorView& order, Stream stream);

/// decoded: i64[N, V + K]; address as of mask_tokens.
void running_cells(const DropoutPlace& address, const TubeMask& mask, const RunningCells& cells,
                   const TensorView& order, const TensorView& decoded, Stream stream);

/// x in f32 or y's type.
void take_tokens(const TensorView& x, const TensorView& order, const TensorView& y, Stream stream);

/// x, mask_token and positions of y's type.
void fill_tokens_forward(const TensorView& x, const TensorView& mask_token, const TensorView& positions,
                         const TensorView& order, const TensorView& y, Stream stream);
/// Doubles of workspace for dmask_token.
std::int64_t fill_tokens_workspace(const TensorView& dy, std::int64_t visible);
/// dmask_token is f32, for the gradient arena; workspace: f64[fill_tokens_workspace(dy, visible)].
void fill_tokens_backward(const TensorView& dy, const TensorView& workspace, const TensorView& dx,
                          const TensorView& dmask_token, std::int64_t visible, Stream stream);

void last_tokens_forward(const TensorView& x, const TensorView& y, Stream stream);
void last_tokens_backward(const TensorView& dy, const TensorView& dx, Stream stream);

/// All in f32.
void patch_differences(const TensorView& prediction, const TensorView& patches, const TensorView& order,
                       const TensorView& epsilon, const TensorView& differences, Stream stream);

}  // namespace tutti::cuda
