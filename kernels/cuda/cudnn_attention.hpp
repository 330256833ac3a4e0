#pragma once
// Attention of all heads as one execution plan of cuDNN (its fused, "flash" engines; Dao et al. 2022), in
// bf16 with fp32 in between. Source: NVIDIA cuDNN documentation, "Fused Flash Attention" and "Backend
// Descriptor Types": forward is the operation of its own that cuDNN has since 9.13.1, backward the pattern of
// operations that its engines recognise.

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "cudnn_plan.hpp"
#include "tutti/device/transformer_ops.hpp"

namespace tutti::cuda {

enum class AttentionPass { forward, backward };

struct AttentionProblem {
    AttentionPass pass = AttentionPass::forward;
    std::int64_t batch = 0;
    AttentionShape shape;
};
std::string describe(const AttentionProblem& problem);

/// All of them aligned to 16 bytes. The heads are read where they lie, without copies.
struct AttentionTensors {
    std::byte* qkv = nullptr;         ///< bf16[N, T, 3, H, D]
    std::byte* out = nullptr;         ///< bf16[N, T, H, D], written by forward, read by backward
    std::byte* statistics = nullptr;  ///< f32[N, H, T], log Σ exp of each row's scores; likewise
    std::byte* dout = nullptr;        ///< bf16[N, T, H, D], backward only
    std::byte* dqkv = nullptr;        ///< bf16[N, T, 3, H, D], backward only
};

class AttentionPlan {
  public:
    /// Takes about a second: cuDNN compiles the engine for the shape, for which it wants a driver. Throws
    /// GpuError, RunError (which engines were refused, and why) when there is none: widths that are no
    /// multiple of 8, for one.
    AttentionPlan(const AttentionProblem& problem, const CudnnTarget& target);

    /// Backward's holds the gradients of the scores in 16 bits, [N, H, T, T] with T rounded up: so its sums
    /// run in one order.
    std::int64_t workspace_bytes() const { return plan_.workspace_bytes(); }
    std::int64_t engine() const { return plan_.engine(); }

    /// In the handle's stream.
    void execute(cudnnHandle_t handle, const AttentionTensors& tensors, std::byte* workspace);

  private:
    AttentionProblem problem_;
    // Operands by value, whose addresses are given to the library: they live as long as what is recorded.
    float factor_ = 1.0f / std::sqrt(static_cast<float>(problem_.shape.width)), unity_ = 1;
    std::vector<CudnnDescriptor> descriptors_;  // which the plan refers to
    CudnnPlan plan_;
};

}  // namespace tutti::cuda
