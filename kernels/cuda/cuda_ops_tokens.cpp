// What transformers need, attention aside.

#include "activations.hpp"
#include "arena_ops.hpp"
#include "cuda_ops.hpp"
#include "elementwise.hpp"
#include "layer_norm.hpp"
#include "patches.hpp"
#include "tokens.hpp"

namespace tutti::cuda {

void CudaOps::layer_norm_forward(const TensorView& x, const TensorView& gamma, const TensorView& beta,
                                 double eps, const TensorView& y, const TensorView& statistics) {
    cuda::layer_norm_forward(x, gamma, beta, eps, y, statistics, stream());
}
void CudaOps::layer_norm_backward(const TensorView& x, const TensorView& gamma, const TensorView& statistics,
                                  const TensorView& dy, const TensorView& dx, const TensorView& dgamma,
                                  const TensorView& dbeta, const TensorView& addend) {
    const std::int64_t width = gamma.count(), rows = x.count() / width;
    const TensorView workspace = context_->scratch(DType::f32, {layer_norm_workspace(rows, width)});
    cuda::layer_norm_backward(x, gamma, statistics, dy, workspace, dx, dgamma, dbeta, addend, stream());
}

void CudaOps::gelu_forward(GeluForm form, const TensorView& x, const TensorView& y) {
    cuda::gelu_forward(form, x, y, stream());
}
void CudaOps::gelu_backward(GeluForm form, const TensorView& x, const TensorView& dy, const TensorView& dx) {
    cuda::gelu_backward(form, x, dy, dx, stream());
}

void CudaOps::scale_samples(const TensorView& x, std::span<const double> factors, const TensorView& y) {
    cuda::scale_samples(x, context_->upload(factors), y, stream());
}

void CudaOps::embed_tokens_forward(const TensorView& x, const TensorView& class_token,
                                   const TensorView& positions, const TensorView& y) {
    if (x.dtype == positions.dtype) return cuda::embed_tokens_forward(x, class_token, positions, y, stream());
    // Parameters are f32, the kernel adds like to like.
    auto [token, places] =
        context_->scratch({Wanted{x.dtype, class_token.defined() ? class_token.shape : Shape{0}},
                           Wanted{x.dtype, positions.shape}});
    if (class_token.defined())
        cast(class_token, token, stream());
    else
        token = {};
    cast(positions, places, stream());
    cuda::embed_tokens_forward(x, token, places, y, stream());
}
void CudaOps::embed_tokens_backward(const TensorView& dy, const TensorView& dx,
                                    const TensorView& dclass_token, const TensorView& dpositions) {
    cuda::embed_tokens_backward(dy, dx, dclass_token, dpositions, stream());
}

void CudaOps::extract_patches(const PatchShape& shape, const TensorView& x, const TensorView& tokens) {
    cuda::extract_patches(shape, x, tokens, stream());
}
void CudaOps::join_patches(const PatchShape& shape, const TensorView& tokens, const TensorView& x) {
    cuda::join_patches(shape, tokens, x, stream());
}

void CudaOps::pool_tokens_forward(TokenPooling pooling, const TensorView& x, const TensorView& y) {
    cuda::pool_tokens_forward(pooling, x, y, stream());
}
void CudaOps::pool_tokens_backward(TokenPooling pooling, const TensorView& dy, const TensorView& dx) {
    cuda::pool_tokens_backward(pooling, dy, dx, stream());
}

}  // namespace tutti::cuda
