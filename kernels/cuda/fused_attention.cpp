#include "fused_attention.hpp"

#include <algorithm>

#include "arena_ops.hpp"
#include "gpu_error.hpp"
#include "short_attention.hpp"
#include "token_counts.hpp"

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

/// Of the statistics f32[N, H, T], those of the samples [first, first + count).
TensorView rows(const TensorView& statistics, const AttentionShape& shape, std::int64_t first,
                std::int64_t count) {
    const std::size_t sample = sizeof(float) * static_cast<std::size_t>(shape.heads * shape.tokens);
    return {statistics.data + sample * static_cast<std::size_t>(first),
            DType::f32,
            {count, shape.heads, shape.tokens}};
}

/// Why an engine that cuDNN has must not be asked, or nothing. By NVIDIA's notes on releases: cuDNN Frontend
/// 1.16.0, "Bug Fix" (an invalid memory access of backward in CUDA graphs, where there is no padding mask and
/// the tokens are no multiple of 128), and cuDNN 9.18.1, "Known Issues" (no backward of a single token). The
/// frontend asks for forward's operation from 9.13.1 on.
std::string unsafe(const AttentionProblem& problem) {
    constexpr std::size_t has_forward = 91301;
    if (cudnnGetVersion() < has_forward) return "cuDNN has it since 9.13.1";
    if (problem.pass == AttentionPass::forward) return {};
    if (problem.shape.tokens == 1) return "cuDNN has no backward of one token";
    constexpr std::size_t mended = 91501;  // 9.15.1 (cudnn_version.h)
    if (problem.shape.tokens % 128 == 0 || cudnnGetVersion() >= mended) return {};
    return "before 9.15.1 cuDNN's backward reads outside of its memory in CUDA graphs, where the tokens are "
           "no multiple of 128";
}

/// Whether cuDNN may read and write there (AttentionTensors).
bool reachable(const TensorView& statistics) {
    return statistics.defined() && reinterpret_cast<std::uintptr_t>(statistics.data) % 16 == 0;
}

}  // namespace

FusedAttention::FusedAttention(std::shared_ptr<CudaContext> context, std::int64_t most_workspace)
    : context_(std::move(context)), most_workspace_(most_workspace) {}

bool FusedAttention::has_kernels(const AttentionShape& shape) const {
    return takes_short_attention(shape, context_->shared_memory());
}

/// Backward's workspace holds the gradients of their scores in 16 bits, with the tokens rounded up to whole
/// tiles.
std::int64_t FusedAttention::samples_at_once(const AttentionShape& shape) const {
    const std::int64_t tokens = (shape.tokens + 127) / 128 * 128;
    return std::max<std::int64_t>(1, most_workspace_ / (2 * shape.heads * tokens * tokens));
}

AttentionPlan* FusedAttention::plan(const AttentionProblem& problem) {
    const AttentionShape& s = problem.shape;
    const Key key{problem.pass, problem.batch, {s.tokens, s.heads, s.width}};
    if (refused_.contains(key)) return nullptr;
    if (const auto known = plans_.find(key); known != plans_.end()) return known->second.get();
    if (const std::string why = unsafe(problem); !why.empty()) {
        refuse(key, problem, why);
        return nullptr;
    }
    const CudnnTarget target{.handle = context_->cudnn()};
    try {
        auto made = std::make_unique<AttentionPlan>(problem, target);
        return (plans_[key] = std::move(made)).get();
    } catch (const NoCudnnEngine& error) {
        refuse(key, problem, error.what());
    } catch (const GpuError& error) {
        // A cuDNN that does not know the operation.
        if (error.component() != "cuDNN" || !error.unsupported()) throw;
        refuse(key, problem, error.what());
    }
    return nullptr;
}

void FusedAttention::refuse(const Key& key, const AttentionProblem& problem, const std::string& why) {
    refused_.insert(key);
    context_->notice("no fused " + describe(problem) +
                     ", it is computed as products in fp32 instead: " + why);
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

void FusedAttention::run_forward(const AttentionShape& shape, std::int64_t samples,
                                 const AttentionTensors& tensors, const TensorView& kept) {
    const std::int64_t most = samples_at_once(shape);
    for (std::int64_t first = 0; first < samples; first += most) {
        const std::int64_t count = std::min(most, samples - first);
        AttentionTensors part = from(tensors, shape, first);
        const TensorView place = kept.defined() ? rows(kept, shape, first, count) : TensorView();
        if (reachable(place)) part.statistics = place.data;
        run(AttentionPass::forward, shape, count, part);
        if (place.defined() && !reachable(place)) copy(part.statistics, place.data, place.bytes());
    }
}

bool FusedAttention::forward(const AttentionShape& shape, const TensorView& qkv, const TensorView& out,
                             const TensorView& kept, const TensorView& mask) {
    const std::int64_t samples = qkv.shape[0], most = samples_at_once(shape);
    const bool own = has_kernels(shape);
    if (!own && (mask.defined() || !has_plans(AttentionPass::forward, shape, samples))) return false;
    const bool narrow = qkv.dtype == DType::bf16;
    const std::int64_t part = own ? 0 : std::min(samples, most);
    auto [narrow_qkv, narrow_out, statistics, counts] =
        context_->scratch({Wanted{DType::bf16, narrow ? Shape{0} : qkv.shape},
                           Wanted{DType::bf16, narrow ? Shape{0} : out.shape},
                           Wanted{DType::f32, {part, shape.heads, shape.tokens}}, counts_of(mask)});
    if (narrow)
        narrow_qkv = qkv, narrow_out = out;
    else
        cast(qkv, narrow_qkv, context_->stream());
    if (own)
        short_attention_forward(shape, narrow_qkv, counted(mask, counts, context_->stream()), narrow_out,
                                kept, context_->stream());
    else
        run_forward(shape, samples, {narrow_qkv.data, narrow_out.data, statistics.data}, kept);
    if (!narrow) cast(narrow_out, out, context_->stream());
    return true;
}

void FusedAttention::run_backward(const AttentionShape& shape, std::int64_t samples,
                                  const AttentionTensors& tensors, const TensorView& kept) {
    const std::int64_t most = samples_at_once(shape);
    for (std::int64_t first = 0; first < samples; first += most) {
        const std::int64_t count = std::min(most, samples - first);
        AttentionTensors part = from(tensors, shape, first);
        const TensorView place = rows(kept, shape, first, count);
        if (reachable(place))
            part.statistics = place.data;
        else
            copy(place.data, part.statistics, place.bytes());
        run(AttentionPass::backward, shape, count, part);
    }
}

bool FusedAttention::backward(const AttentionShape& shape, const TensorView& qkv, const TensorView& out,
                              const TensorView& kept, const TensorView& dout, const TensorView& dqkv,
                              const TensorView& mask) {
    const std::int64_t samples = qkv.shape[0], most = samples_at_once(shape);
    const bool own = has_kernels(shape);
    // It reads what a fused forward has kept.
    if (!own && (mask.defined() || !has_plans(AttentionPass::forward, shape, samples) ||
                 !has_plans(AttentionPass::backward, shape, samples)))
        return false;
    const bool narrow = qkv.dtype == DType::bf16;
    const auto copy_of = [&](const TensorView& view) {
        return Wanted{DType::bf16, narrow ? Shape{0} : view.shape};
    };
    const std::int64_t part = own ? 0 : std::min(samples, most);
    auto [narrow_qkv, narrow_out, statistics, narrow_dout, narrow_dqkv, counts] =
        context_->scratch({copy_of(qkv), copy_of(out), Wanted{DType::f32, {part, shape.heads, shape.tokens}},
                           copy_of(dout), copy_of(dqkv), counts_of(mask)});
    if (narrow) {
        narrow_qkv = qkv, narrow_out = out, narrow_dout = dout, narrow_dqkv = dqkv;
    } else {
        cast(qkv, narrow_qkv, context_->stream());
        cast(out, narrow_out, context_->stream());  // bf16 it was: the same bits
        cast(dout, narrow_dout, context_->stream());
    }
    if (own)
        short_attention_backward(shape, narrow_qkv, counted(mask, counts, context_->stream()), narrow_out,
                                 kept, narrow_dout, narrow_dqkv, context_->stream());
    else
        run_backward(shape, samples,
                     {narrow_qkv.data, narrow_out.data, statistics.data, narrow_dout.data, narrow_dqkv.data},
                     kept);
    if (!narrow) cast(narrow_dqkv, dqkv, context_->stream());
    return true;
}

void FusedAttention::copy(const std::byte* source, std::byte* target, std::size_t bytes) {
    check(cudaMemcpyAsync(target, source, bytes, cudaMemcpyDeviceToDevice, context_->stream()),
          "cudaMemcpyAsync of the statistics of attention");
}

}  // namespace tutti::cuda
