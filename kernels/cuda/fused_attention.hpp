#pragma once
// Attention with products in bf16: our own kernels for few tokens (short_attention.hpp), else cuDNN's fused
// engines, on tensors that are bf16 or are rounded into scratch memory.

#include <map>
#include <memory>
#include <set>
#include <tuple>

#include "cuda_context.hpp"
#include "cudnn_attention.hpp"

namespace tutti::cuda {

/// Where our kernels take the shape they are asked, with or without padding; which shapes these are depends
/// on the GPU's shared memory alone. With cuDNN's engines it decides once for each pass, shape and number of
/// samples, so that no result depends on what was computed before: where cuDNN has no engine (widths that are
/// no multiple of 8, GPUs before Ampere), does not know the operation or has it with a known fault, it does
/// nothing and says so, to the user too (the context's notice), and products with a softmax between take its
/// place. Other failures of cuDNN are errors. What is rounded to bf16: q, k, v, the result and its gradient,
/// the probabilities and the gradients of the scores where they are operands of products; scores, sums and
/// statistics are fp32. The same bits each time.
class FusedAttention {
  public:
    /// As many samples at a time as bring backward's workspace up to `most_workspace` bytes.
    explicit FusedAttention(std::shared_ptr<CudaContext> context,
                            std::int64_t most_workspace = std::int64_t{512} << 20);

    /// False where it is known without asking that there is no engine.
    bool may_take(const AttentionShape& shape, bool masked) const {
        return has_kernels(shape) || (!masked && shape.width % 8 == 0);
    }
    /// As Ops::attention_forward, on f32 or bf16; statistics are written where defined. False: nothing is
    /// done.
    bool forward(const AttentionShape& shape, const TensorView& qkv, const TensorView& out,
                 const TensorView& statistics, const TensorView& mask);
    /// As Ops::attention_backward, with forward's out and statistics.
    bool backward(const AttentionShape& shape, const TensorView& qkv, const TensorView& out,
                  const TensorView& statistics, const TensorView& dout, const TensorView& dqkv,
                  const TensorView& mask);

  private:
    using ShapeKey = std::tuple<std::int64_t, std::int64_t, std::int64_t>;
    using Key = std::tuple<AttentionPass, std::int64_t, ShapeKey>;

    bool has_kernels(const AttentionShape& shape) const;
    std::int64_t samples_at_once(const AttentionShape& shape) const;
    /// Null where there is no engine.
    AttentionPlan* plan(const AttentionProblem& problem);
    void refuse(const Key& key, const AttentionProblem& problem, const std::string& why);
    /// Whether all batch sizes that `samples` are cut into have a plan.
    bool has_plans(AttentionPass pass, const AttentionShape& shape, std::int64_t samples);
    void run(AttentionPass pass, const AttentionShape& shape, std::int64_t samples,
             const AttentionTensors& tensors);
    /// Of narrow tensors, in parts of the batch; kept: statistics in memory of the caller's or undefined,
    /// with `statistics` for those of a part.
    void run_forward(const AttentionShape& shape, std::int64_t samples, const AttentionTensors& tensors,
                     const TensorView& kept);
    void run_backward(const AttentionShape& shape, std::int64_t samples, const AttentionTensors& tensors,
                      const TensorView& kept);

    /// Within the device.
    void copy(const std::byte* source, std::byte* target, std::size_t bytes);

    std::shared_ptr<CudaContext> context_;
    const std::int64_t most_workspace_;
    std::map<Key, std::unique_ptr<AttentionPlan>> plans_;
    std::set<Key> refused_;
};

}  // namespace tutti::cuda
