// Attention as products and softmax, head by head over all samples: a head's matrices of the samples are
// equally far apart in the packed tensors, which is what a batch of products needs. In fp32, or tf32 where
// products are that. With products in bf16 fused attention goes before (fused_attention.hpp); what it does
// not take this one computes in fp32, on copies of tensors that are bf16.

#include <cmath>

#include "arena_ops.hpp"
#include "cuda_ops.hpp"
#include "row_softmax.hpp"
#include "token_counts.hpp"

namespace tutti::cuda {
namespace {

/// The products of one head, with S the scores, P = softmax(S) and their gradients as [N, T, T].
struct HeadProducts {
    HeadProducts(const AttentionShape& shape, std::int64_t batch, ProductType type)
        : tokens(shape.tokens),
          width(shape.width),
          samples(batch),
          products(type == ProductType::tf32 ? ProductType::tf32 : ProductType::fp32),
          packed{3 * shape.heads * shape.width, 3 * shape.tokens * shape.heads * shape.width},
          plain{shape.heads * shape.width, shape.tokens * shape.heads * shape.width},
          square{shape.tokens, shape.tokens * shape.tokens} {}

    static ProductOperand transposed(ProductOperand operand) {
        operand.transposed = true;
        return operand;
    }
    /// [T, T] = a[T, D] · b[T, D]ᵀ
    Product scores(const ProductOperand& a, const ProductOperand& b) const {
        return {tokens, tokens, width, a, transposed(b), square, samples, products};
    }
    /// [T, D] = a[T, T] (or its transpose) · b[T, D]
    Product mix(const ProductOperand& a, const ProductOperand& b, const ProductOperand& c) const {
        return {tokens, width, tokens, a, b, c, samples, products};
    }

    std::int64_t tokens, width, samples;
    ProductType products;
    ProductOperand packed, plain, square;
};

/// q, k or v (`which` 0, 1, 2) of a head in a packed tensor, of its first sample.
std::byte* part(const TensorView& packed, const AttentionShape& shape, std::int64_t which,
                std::int64_t head) {
    return packed.data + sizeof(float) * static_cast<std::size_t>((which * shape.heads + head) * shape.width);
}

}  // namespace

bool CudaOps::keeps_attention_statistics(const AttentionShape& shape, bool masked) const {
    return fused_attention_ && fused_attention_->may_take(shape, masked);
}

void CudaOps::attention_forward(const AttentionShape& shape, const TensorView& qkv, const TensorView& out,
                                const TensorView& statistics, const TensorView& mask) {
    const std::int64_t samples = qkv.shape[0];
    assert(qkv.count() == samples * shape.tokens * 3 * shape.heads * shape.width);
    if (samples == 0) return;
    if (fused_attention_ && fused_attention_->forward(shape, qkv, out, statistics, mask)) return;
    const bool wide = qkv.dtype == DType::f32;
    const auto [p, counts, wide_qkv, wide_out] = context_->scratch(
        {Wanted{DType::f32, {samples, shape.tokens, shape.tokens}}, counts_of(mask),
         Wanted{DType::f32, wide ? Shape{0} : qkv.shape}, Wanted{DType::f32, wide ? Shape{0} : out.shape}});
    const TensorView existing = counted(mask, counts, stream());
    if (wide) return attend_by_heads(shape, existing, p, qkv, out);
    cast(qkv, wide_qkv, stream());
    attend_by_heads(shape, existing, p, wide_qkv, wide_out);
    cast(wide_out, out, stream());
}

void CudaOps::attend_by_heads(const AttentionShape& shape, const TensorView& existing, const TensorView& p,
                              const TensorView& qkv, const TensorView& out) {
    const HeadProducts of(shape, qkv.shape[0], type_);
    const float scale = 1.0f / std::sqrt(static_cast<float>(shape.width));
    for (std::int64_t head = 0; head < shape.heads; ++head) {
        products_->multiply(of.scores(of.packed, of.packed), scale, part(qkv, shape, 0, head),
                            part(qkv, shape, 1, head), p.data);
        row_softmax_forward(p, existing, stream());
        products_->multiply(of.mix(of.square, of.packed, of.plain), 1, p.data, part(qkv, shape, 2, head),
                            part(out, shape, 0, head));
    }
}

void CudaOps::attention_backward(const AttentionShape& shape, const TensorView& qkv, const TensorView& out,
                                 const TensorView& statistics, const TensorView& dout, const TensorView& dqkv,
                                 const TensorView& mask) {
    const std::int64_t samples = qkv.shape[0];
    assert(qkv.count() == dqkv.count() && 3 * dout.count() == qkv.count());
    if (samples == 0) return;
    if (fused_attention_ && statistics.defined() &&
        fused_attention_->backward(shape, qkv, out, statistics, dout, dqkv, mask))
        return;
    const Wanted square{DType::f32, {samples, shape.tokens, shape.tokens}};
    const bool wide = qkv.dtype == DType::f32;
    const auto copy_of = [&](const TensorView& view) {
        return Wanted{DType::f32, wide ? Shape{0} : view.shape};
    };
    const auto [p, ds, counts, wide_qkv, wide_dout, wide_dqkv] =
        context_->scratch({square, square, counts_of(mask), copy_of(qkv), copy_of(dout), copy_of(dqkv)});
    const TensorView existing = counted(mask, counts, stream());
    if (wide) return attend_by_heads_backward(shape, existing, p, ds, qkv, dout, dqkv);
    cast(qkv, wide_qkv, stream());
    cast(dout, wide_dout, stream());
    attend_by_heads_backward(shape, existing, p, ds, wide_qkv, wide_dout, wide_dqkv);
    cast(wide_dqkv, dqkv, stream());
}

void CudaOps::attend_by_heads_backward(const AttentionShape& shape, const TensorView& existing,
                                       const TensorView& p, const TensorView& ds, const TensorView& qkv,
                                       const TensorView& dout, const TensorView& dqkv) {
    const HeadProducts of(shape, qkv.shape[0], type_);
    const float scale = 1.0f / std::sqrt(static_cast<float>(shape.width));
    for (std::int64_t head = 0; head < shape.heads; ++head) {
        std::byte *q = part(qkv, shape, 0, head), *k = part(qkv, shape, 1, head);
        products_->multiply(of.scores(of.packed, of.packed), scale, q, k, p.data);
        row_softmax_forward(p, existing, stream());
        // dV = Pᵀ·dO; dP = dO·Vᵀ; dQ = dS·K; dK = dSᵀ·Q, with the scale in dS.
        products_->multiply(of.mix(HeadProducts::transposed(of.square), of.plain, of.packed), 1, p.data,
                            part(dout, shape, 0, head), part(dqkv, shape, 2, head));
        products_->multiply(of.scores(of.plain, of.packed), 1, part(dout, shape, 0, head),
                            part(qkv, shape, 2, head), ds.data);
        row_softmax_backward(p, existing, scale, ds, stream());
        products_->multiply(of.mix(of.square, of.packed, of.packed), 1, ds.data, k,
                            part(dqkv, shape, 0, head));
        products_->multiply(of.mix(HeadProducts::transposed(of.square), of.packed, of.packed), 1, ds.data, q,
                            part(dqkv, shape, 1, head));
    }
}

}  // namespace tutti::cuda
