#pragma once
// The part of the arithmetic contract that masked pre-training needs: an encoder that sees some tokens of
// each sample, and a decoder that is to tell the rest (He et al. 2022, "Masked Autoencoders Are Scalable
// Vision Learners"; Tong et al. 2022, "VideoMAE", tube masking). The conventions of ops.hpp hold; tokens are
// rows: [N, T, C] are T tokens of width C for each of N samples.

#include <cstdint>

#include "tutti/device/dropout_address.hpp"
#include "tutti/device/tensor_view.hpp"

namespace tutti {

/// Of one sample: T = places·repeats tokens, of which token t is at place t / repeats. `hidden` places, with
/// all their repeats, are hidden: 0 ≤ hidden < places.
struct TubeMask {
    std::int64_t places = 0, repeats = 1, hidden = 0;
    constexpr std::int64_t tokens() const { return places * repeats; }
    constexpr std::int64_t hidden_tokens() const { return hidden * repeats; }
    constexpr std::int64_t visible_tokens() const { return tokens() - hidden_tokens(); }
};

/// What a decoder says of a clip, where that is not all that is hidden: running cells (Qing et al. 2022,
/// "MAR: Masked Autoencoders for Efficient Action Recognition"; Wang et al. 2023, "VideoMAE V2"). The places
/// of a frame are rows of `columns`, cut into cells of 2 × 2. In repeat r the token of a place is dropped
/// where (q
/// + start + r) mod 4 < dropped, with q = 2·(row mod 2) + column mod 2, and a start of each sample's own. Of
/// any four repeats that follow each other a place is so kept in 4 − dropped. `columns`, the number of rows
/// and repeats / 2 are even; 1 ≤ dropped ≤ 3.
struct RunningCells {
    std::int64_t columns = 2, dropped = 2;
    constexpr std::int64_t kept_per_place(const TubeMask& mask) const {
        return mask.repeats / 4 * (4 - dropped);
    }
    constexpr std::int64_t kept_tokens(const TubeMask& mask) const {
        return mask.places * kept_per_place(mask);
    }
    /// Of the hidden ones those that are kept.
    constexpr std::int64_t said_tokens(const TubeMask& mask) const {
        return mask.hidden * kept_per_place(mask);
    }
};

class MaskingOps {
  public:
    virtual ~MaskingOps() = default;

    /// order (i64[N, T]) gets of each sample first the tokens that stay visible, then the hidden ones, each
    /// ascending. Hidden are the `hidden` places with the least keys; the key of place p is the 64 bits
    /// (words 0 high, 1 low) of RandomStream(address.seed, RandomPlace::mask, address.epoch,
    /// address.positions[n]).bits(p); of equal keys that of the lower place is the less. address.layer plays
    /// no part: all calls for a step get the same order.
    virtual void mask_tokens(const DropoutAddress& address, const TubeMask& mask,
                             const TensorView& order) = 0;

    /// decoded (i64[N, V + K], V visible and K kept tokens) gets of each sample the V visible tokens, as they
    /// stand in order (i64[N, T], of mask_tokens with the same address); then of all places, in the order in
    /// which these stand there, the tokens that are kept, ascending: so the said ones are the last. A
    /// sample's start is word 0 of RandomStream(as of mask_tokens).bits(mask.places), mod 4.
    virtual void running_cells(const DropoutAddress& address, const TubeMask& mask, const RunningCells& cells,
                               const TensorView& order, const TensorView& decoded) = 0;

    /// y[n, k] = x[n, order[n, k]], k < K ≤ T. x: [N, T, C], T or of y's type; order: i64[N, T]; y: [N, K,
    /// C], rounded where it is narrower.
    virtual void take_tokens(const TensorView& x, const TensorView& order, const TensorView& y) = 0;

    /// y[n, k] = (k < V ? x[n, k] : mask_token) + positions[order[n, k]], k < K, V ≤ K ≤ L. x: [N, V, C];
    /// mask_token: [C] (undefined where V = K); positions: [T, C]; order: i64[N, L], of mask_tokens or
    /// running_cells; y: [N, K, C]. mask_token and positions may be as the parameters of embed_tokens.
    virtual void fill_tokens_forward(const TensorView& x, const TensorView& mask_token,
                                     const TensorView& positions, const TensorView& order,
                                     const TensorView& y) = 0;
    /// Of dy[N, K, C] and V = `visible`: dx[n, k] = dy[n, k], k < V (skipped when undefined); dmask_token[c]
    /// = Σ dy[n, k, c] over n and k ≥ V, whose bits do not depend on the number of threads; it is undefined
    /// where V = K.
    virtual void fill_tokens_backward(const TensorView& dy, const TensorView& dx,
                                      const TensorView& dmask_token, std::int64_t visible) = 0;

    /// y[n] = the last K tokens of x[n]. x: [N, T, C]; y: [N, K, C], K ≤ T.
    virtual void last_tokens_forward(const TensorView& x, const TensorView& y) = 0;
    /// dx[n] = {0…, dy[n]}.
    virtual void last_tokens_backward(const TensorView& dy, const TensorView& dx) = 0;

    /// differences[n, j] = prediction[n, j] − t, where t is the token patches[n, order[n, L − M + j]]
    /// normalised by channel: (x − mean_c)/(√variance_c + epsilon[c]) over its D / channels elements of
    /// channel c, those at c, c + channels, …; the divisor of the variance is their count less 1 (of one
    /// element the variance is 0). prediction and differences: [N, M, D]; patches: [N, T, D]; epsilon:
    /// [channels], above 0; all of T, whatever the activations are; order: i64[N, L]. Mean and variance are
    /// taken in double. differences may be prediction. (The target of VideoMAE with normalize_target.)
    virtual void patch_differences(const TensorView& prediction, const TensorView& patches,
                                   const TensorView& order, const TensorView& epsilon,
                                   const TensorView& differences) = 0;
};

}  // namespace tutti
