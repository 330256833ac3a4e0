#include "fused_attention.hpp"

#include <algorithm>

#include "arena_ops.hpp"
#include "gpu_error.hpp"

namespace tutti::cuda {
namespace {

/// Of the samples from `first` on; statistics are those of the samples at hand.
AttentionTensors from(const AttentionTensors& tensors, const AttentionShape& shape, std::int64_t first) {
    const auto bytes = 2 * static_cast<std::size_t>(first * shape.tokens * shape.heads * shape.width);
    AttentionTensors part = tensors;
    part.qkv += 3 * bytes;
    part.out += bytes;
    if (part.dout) part.dout += bytes, part.dqkv += 3 * bytes;
    return part;
}

}  // namespace

FusedAttention::FusedAttention(std::shared_ptr<CudaContext> context, std::int64_t most_workspace)
    : context_(std::move(context)), most_workspace_(most_workspace) {}

/// Backward's workspace holds the gradients of their scores in 16 bits, with the tokens rounded up to whole
/// tiles.
std::int64_t FusedAttention::samples_at_once(const AttentionShape& shape) const {
    const std::int64_t tokens = (shape.tokens + 127) / 128 * 128;
    return std::max<std::int64_t>(1, most_workspace_ / (2 * shape.heads * tokens * tokens));
}

AttentionPlan* FusedAttention::plan(const AttentionProblem& problem) {
    const AttentionShape& s = problem.shape;
    const Key key{problem.pass, problem.batch, s.tokens, s.heads, s.width};
    const auto known = plans_.find(key);
    if (known != plans_.end()) return known->second.get();
    std::unique_ptr<AttentionPlan>& made = plans_[key];
    try {
        made = std::make_unique<AttentionPlan>(problem, CudnnTarget{.handle = context_->cudnn()});
    } catch (const GpuError& error) {
        // A cuDNN that does not know the operation: the other way computes it.
        if (error.library() != "cuDNN") throw;
    } catch (const RunError&) {
        // No engine: likewise.
    }
    return made.get();
}

bool FusedAttention::has_plans(AttentionPass pass, const AttentionShape& shape, std::int64_t samples) {
    const std::int64_t most = samples_at_once(shape), rest = samples % most;
    return (samples < most || plan({pass, most, shape})) && (rest == 0 || plan({pass, rest, shape}));
}

void FusedAttention::run(AttentionPass pass, const AttentionShape& shape, std::int64_t samples,
                         const AttentionTensors& tensors) {
    AttentionPlan& chosen = *plan({pass, samples, shape});
    chosen.execute(context_->cudnn(), tensors,
                   context_->library_workspace().reserve(static_cast<std::size_t>(chosen.workspace_bytes())));
}

bool FusedAttention::forward(const AttentionShape& shape, const TensorView& qkv, const TensorView& out) {
    const std::int64_t samples = qkv.shape[0], most = samples_at_once(shape);
    if (!has_plans(AttentionPass::forward, shape, samples)) return false;
    const bool narrow = qkv.dtype == DType::bf16;
    auto [narrow_qkv, narrow_out, statistics] =
        context_->scratch({Wanted{DType::bf16, narrow ? Shape{0} : qkv.shape},
                           Wanted{DType::bf16, narrow ? Shape{0} : out.shape},
                           Wanted{DType::f32, {std::min(samples, most), shape.heads, shape.tokens}}});
    if (narrow)
        narrow_qkv = qkv, narrow_out = out;
    else
        cast(qkv, narrow_qkv, context_->stream());
    const AttentionTensors tensors{narrow_qkv.data, narrow_out.data, statistics.data};
    for (std::int64_t first = 0; first < samples; first += most)
        run(AttentionPass::forward, shape, std::min(most, samples - first), from(tensors, shape, first));
    if (!narrow) cast(narrow_out, out, context_->stream());
    return true;
}

bool FusedAttention::backward(const AttentionShape& shape, const TensorView& qkv, const TensorView& dout,
                              const TensorView& dqkv) {
    const std::int64_t samples = qkv.shape[0], most = samples_at_once(shape);
    if (!has_plans(AttentionPass::forward, shape, samples) ||
        !has_plans(AttentionPass::backward, shape, samples))
        return false;
    const bool narrow = qkv.dtype == DType::bf16;
    const Shape none{0}, packed = narrow ? none : qkv.shape;
    auto [narrow_qkv, narrow_out, statistics, narrow_dout, narrow_dqkv] =
        context_->scratch({Wanted{DType::bf16, packed}, Wanted{DType::bf16, dout.shape},
                           Wanted{DType::f32, {std::min(samples, most), shape.heads, shape.tokens}},
                           Wanted{DType::bf16, narrow ? none : dout.shape}, Wanted{DType::bf16, packed}});
    if (narrow) {
        narrow_qkv = qkv, narrow_dout = dout, narrow_dqkv = dqkv;
    } else {
        cast(qkv, narrow_qkv, context_->stream());
        cast(dout, narrow_dout, context_->stream());
    }
    const AttentionTensors tensors{narrow_qkv.data, narrow_out.data, statistics.data, narrow_dout.data,
                                   narrow_dqkv.data};
    for (std::int64_t first = 0; first < samples; first += most) {
        const std::int64_t count = std::min(most, samples - first);
        run(AttentionPass::forward, shape, count, from(tensors, shape, first));
        run(AttentionPass::backward, shape, count, from(tensors, shape, first));
    }
    if (!narrow) cast(narrow_dqkv, dqkv, context_->stream());
    return true;
}

}  // namespace tutti::cuda
