#pragma once
// Attention with products in bf16: cuDNN's fused engines, on tensors rounded into scratch memory.

#include <map>
#include <memory>
#include <tuple>

#include "cuda_context.hpp"
#include "cudnn_attention.hpp"

namespace tutti::cuda {

/// Decides once for each shape: where cuDNN has no engine (widths that are no multiple of 8, GPUs before
/// Ampere), it does nothing and says so, and products with a softmax between take its place. What is rounded
/// to bf16: q, k, v, the result and its gradient, the probabilities and the gradients of the scores where
/// they are operands of products; scores, sums and statistics are fp32. The same bits each time.
class FusedAttention {
  public:
    /// As many samples at a time as bring backward's workspace up to `most_workspace` bytes.
    explicit FusedAttention(std::shared_ptr<CudaContext> context,
                            std::int64_t most_workspace = std::int64_t{512} << 20);

    /// As Ops::attention_forward, on f32. False: nothing is done.
    bool forward(const AttentionShape& shape, const TensorView& qkv, const TensorView& out);
    /// As Ops::attention_backward: out and the statistics are computed again.
    bool backward(const AttentionShape& shape, const TensorView& qkv, const TensorView& dout,
                  const TensorView& dqkv);

  private:
    using Key = std::tuple<AttentionPass, std::int64_t, std::int64_t, std::int64_t, std::int64_t>;

    std::int64_t samples_at_once(const AttentionShape& shape) const;
    /// Null where there is no engine.
    AttentionPlan* plan(const AttentionProblem& problem);
    /// Whether all batch sizes that `samples` are cut into have a plan.
    bool has_plans(AttentionPass pass, const AttentionShape& shape, std::int64_t samples);
    void run(AttentionPass pass, const AttentionShape& shape, std::int64_t samples,
             const AttentionTensors& tensors);

    std::shared_ptr<CudaContext> context_;
    const std::int64_t most_workspace_;
    std::map<Key, std::unique_ptr<AttentionPlan>> plans_;
};

}  // namespace tutti::cuda
