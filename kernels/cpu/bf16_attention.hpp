#pragma once
// Attention whose products are in bf16, by our own instructions.

#include "host_memory.hpp"
#include "tutti/device/transformer_ops.hpp"

namespace tutti {

/// Heads of whole vectors, on a processor with the instructions.
bool takes_bf16_attention(const AttentionShape& shape);

/// As TransformerOps's, in fp32, but that the inputs of the products are rounded to bf16: q/√D, k, v, dout,
/// the probabilities and the scores' gradients. Sums and the softmax are fp32. The bits do not depend on the
/// number of threads.
void bf16_attention_forward(const AttentionShape& shape, const TensorView& qkv, const TensorView& out,
                            const TensorView& mask, Workspace& workspace);
void bf16_attention_backward(const AttentionShape& shape, const TensorView& qkv, const TensorView& dout,
                             const TensorView& dqkv, const TensorView& mask, Workspace& workspace);

}  // namespace tutti
