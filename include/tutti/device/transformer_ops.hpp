#pragma once
// The part of the arithmetic contract that transformers need. The conventions of ops.hpp hold; tokens are
// rows: [N, T, C] are T tokens of width C for each of N samples.

#include <cstdint>
#include <span>

#include "tutti/device/tensor_view.hpp"

namespace tutti {

/// `width` is that of one head: a token has heads · width channels.
struct AttentionShape {
    std::int64_t tokens = 0, heads = 0, width = 0;
};

/// Images or clips that patches divide; of one sample. For images frames and patch_frames are 1.
struct PatchShape {
    std::int64_t height = 0, width = 0, channels = 0;
    std::int64_t patch_height = 1, patch_width = 1;
    std::int64_t frames = 1, patch_frames = 1;
    std::int64_t tokens() const {
        return frames / patch_frames * (height / patch_height) * (width / patch_width);
    }
    std::int64_t token_width() const { return patch_frames * patch_height * patch_width * channels; }
};

/// Two functions of nearly the same values (Hendrycks & Gimpel 2016, section 2), at most 5e-4 apart.
enum class GeluForm {
    exact,  ///< x·Φ(x), Φ the standard normal's distribution function (torch.nn.GELU(approximate='none'))
    tanh,   ///< x·(1 + tanh(√(2/π)·(x + 0.044715·x³)))/2 (torch.nn.GELU(approximate='tanh'))
};

/// How the tokens of a sample become one vector.
enum class TokenPooling { first, mean };

class TransformerOps {
  public:
    virtual ~TransformerOps() = default;

    /// Over the last dimension: y = (x − mean)/√(variance + eps) · gamma + beta with the biased variance
    /// (torch.nn.LayerNorm; Ba, Kiros & Hinton 2016). x, y: [R…, C]; gamma, beta: [C]. statistics, f64[R, 2],
    /// gets each row's mean and 1/√(variance + eps).
    virtual void layer_norm_forward(const TensorView& x, const TensorView& gamma, const TensorView& beta,
                                    double eps, const TensorView& y, const TensorView& statistics) = 0;
    /// dx (skipped when undefined), dgamma[C], dbeta[C]. Sums over rows have the same bits each time for one
    /// number of threads. dx may be dy.
    /// addend, where defined: of dx's shape and type; dx is then the sum of the gradient and it, rounded
    /// once. It may be dx.
    virtual void layer_norm_backward(const TensorView& x, const TensorView& gamma,
                                     const TensorView& statistics, const TensorView& dy, const TensorView& dx,
                                     const TensorView& dgamma, const TensorView& dbeta,
                                     const TensorView& addend = {}) = 0;

    /// y = gelu(x).
    virtual void gelu_forward(GeluForm form, const TensorView& x, const TensorView& y) = 0;
    /// dx = dy·gelu'(x). dx may be dy.
    virtual void gelu_backward(GeluForm form, const TensorView& x, const TensorView& dy,
                               const TensorView& dx) = 0;

    /// out[N, T, H, D] = softmax(q·kᵀ/√D)·v for each head (Vaswani et al. 2017, section 3.2.1), with q, k and
    /// v packed as qkv[N, T, 3, H, D]. Needs memory for O(T) scores at a time, not for T².
    /// statistics, where defined: f32[N, H, T] for backward, written where keeps_attention_statistics (of
    /// what exists; the rest may be any numbers). mask, where defined: [N, T], of qkv's type; a sample's
    /// first tokens exist, those from its first 0 on are padding, where qkv may be any finite numbers: no
    /// query meets their keys, and their out is 0. A sample may be all padding.
    virtual void attention_forward(const AttentionShape& shape, const TensorView& qkv, const TensorView& out,
                                   const TensorView& statistics, const TensorView& mask = {}) = 0;
    /// dqkv[N, T, 3, H, D] from dout; the probabilities are computed again. out and statistics: forward's, or
    /// both undefined; mask: forward's. Of padding dqkv is 0, and dout may be any finite numbers.
    virtual void attention_backward(const AttentionShape& shape, const TensorView& qkv, const TensorView& out,
                                    const TensorView& statistics, const TensorView& dout,
                                    const TensorView& dqkv, const TensorView& mask = {}) = 0;
    /// Whether attention_backward, with or without a mask, is the faster for forward's out and statistics.
    virtual bool keeps_attention_statistics(const AttentionShape&, bool /*masked*/) const { return false; }

    /// y[n] = factors[n]·x[n] for each sample; factors: host, N values. y may be x.
    virtual void scale_samples(const TensorView& x, std::span<const double> factors, const TensorView& y) = 0;

    /// y[n] = {class_token[C], tokens of x[n]…} + positions. x: [N, T, C]; y: [N, T+1, C] and
    /// positions: [T+1, C]; without a class token (undefined) y: [N, T, C] and positions: [T, C].
    virtual void embed_tokens_forward(const TensorView& x, const TensorView& class_token,
                                      const TensorView& positions, const TensorView& y) = 0;
    /// dx (skipped when undefined), dclass_token[C] (undefined without one), dpositions; sums over the batch
    /// in its order.
    virtual void embed_tokens_backward(const TensorView& dy, const TensorView& dx,
                                       const TensorView& dclass_token, const TensorView& dpositions) = 0;

    /// Patches as tokens: x[N, F, H, W, C] -> tokens[N, T, PF·PH·PW·C], T = F/PF · H/PH · W/PW, frames before
    /// rows before columns, in the order of T as within a token. A convolution whose stride is its kernel is
    /// then a linear layer with the same weights [O, PF, PH, PW, C]. Patches that do not divide: UsageError.
    virtual void extract_patches(const PatchShape& shape, const TensorView& x, const TensorView& tokens) = 0;
    /// The inverse, and so extraction's backward: every element of x is in one token.
    virtual void join_patches(const PatchShape& shape, const TensorView& tokens, const TensorView& x) = 0;

    /// y[N, C] = the first of x's tokens [N, T, C], or their mean.
    virtual void pool_tokens_forward(TokenPooling pooling, const TensorView& x, const TensorView& y) = 0;
    virtual void pool_tokens_backward(TokenPooling pooling, const TensorView& dy, const TensorView& dx) = 0;
};

}  // namespace tutti
