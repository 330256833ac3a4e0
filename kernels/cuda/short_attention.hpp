#pragma once
// Attention of few tokens: one block computes a head of a sample with all its keys, values and, backward,
// scores in shared memory, by tensor cores. Rabe & Staats 2021 and Dao 2023 ("FlashAttention-2"), for
// sequences that need no second round: backward has each product once, and adds nothing in global memory.
//
// Products bf16 with sums in fp32; q, k, v, the result and its gradient are bf16, probabilities and gradients
// of scores are rounded to it as operands of products; scores, sums and statistics are fp32. One launch each,
// the same bits each time.
//
// Moves: forward 4·N·T·H·D·2 bytes, backward 8·N·T·H·D·2, and 4·N·T·H of statistics each. Floor at 4.3 TB/s
// for one layer of ViT-B/16 (N 256, T 197, H 12, D 64): 72 µs forward, 144 backward; of its products, 31 and
// 76 GFLOP, at 790 TFLOP/s 39 and 97 µs.

#include <cstddef>
#include <cstdint>

#include "stream.hpp"
#include "tutti/device/transformer_ops.hpp"

namespace tutti::cuda {

/// Whether there are kernels for it: heads of width 32 or 64, at most 256 tokens, and no more shared memory
/// than a block of the GPU may have, in bytes.
bool takes_short_attention(const AttentionShape& shape, std::size_t shared_memory);

/// As TransformerOps::attention_forward. qkv bf16[N, T, 3, H, D], aligned to 16 bytes; out bf16[N, T, H, D],
/// aligned to 4; statistics f32[N, H, T], log Σ exp of each row's scores, or undefined. existing, where
/// defined: i64[N], how many tokens of a sample are no padding.
void short_attention_forward(const AttentionShape& shape, const TensorView& qkv, const TensorView& existing,
                             const TensorView& out, const TensorView& statistics, Stream stream);

/// As TransformerOps::attention_backward, with forward's qkv, existing, out and statistics. out and dout are
/// aligned to 16 bytes, dqkv to 4.
void short_attention_backward(const AttentionShape& shape, const TensorView& qkv, const TensorView& existing,
                              const TensorView& out, const TensorView& statistics, const TensorView& dout,
                              const TensorView& dqkv, Stream stream);

}  // namespace tutti::cuda
