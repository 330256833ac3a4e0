#pragma once
// The layers of masked autoencoders of clips (VideoMAE, Tong et al. 2022): some tokens are hidden, and a
// model is to say what was there. All layers of one step hide the same tokens. Each throws UsageError when
// the input does not fit (what came, what is wanted).

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "tutti/device/masking_ops.hpp"
#include "tutti/model/layer.hpp"
#include "tutti/model/layers_transformer.hpp"

namespace tutti {

/// "Tube" masking: a place of the frame is hidden in all groups of frames. int(ratio · places) are hidden,
/// which ones is drawn for each sample from (run.seed, epoch, position). UsageErrors name model.mask_ratio:
/// one place at least must be hidden, and one stay visible.
TubeMask tube_mask(const Shape& clip, const Tubelet& tubelet, double ratio);

/// Which tokens the decoder is to say: by `ratio`, int(4 · ratio) of the four places of a cell are dropped in
/// each group of frames (RunningCells); nothing for 0: all that are hidden. UsageErrors name
/// model.decoder_mask_ratio: one place of a cell is dropped at least, and one kept; frames have even numbers
/// of rows and columns of places, and clips a multiple of four groups of frames, so that each place is said
/// as often.
std::optional<RunningCells> running_cells(const Shape& clip, const Tubelet& tubelet, double ratio);

/// {T, C} -> {V, C}: the tokens that stay visible. Behind the model's input alone: it has no gradient.
std::unique_ptr<Layer> make_visible_tokens(const Shape& tokens, const TubeMask& mask);

/// {V, C} -> {V, C}: adds each visible token the position that make_tubelet_positions would have added.
std::unique_ptr<Layer> make_visible_positions(const Shape& visible, const Shape& clip, const Tubelet& tubelet,
                                              const TubeMask& mask);

/// {V, C} -> {T, C}: the visible tokens, then for each hidden one the learned mask_token {1, 1, C} (truncated
/// normal, std 0.02, cut there), to all of which the position is added. With `cells` {V + K, C}: instead of
/// the hidden tokens those that are kept, visible ones among them, as VideoMAE V2 has it.
std::unique_ptr<Layer> make_mask_tokens(const Shape& visible, const Shape& clip, const Tubelet& tubelet,
                                        const TubeMask& mask, const std::optional<RunningCells>& cells = {});

/// {T, C} -> {count, C}: the last ones.
std::unique_ptr<Layer> make_last_tokens(const Shape& tokens, std::int64_t count);

/// Inputs: what the model says of the hidden tokens, with `cells` of those that are kept, {M, D}, and all
/// tokens of the clip, {T, D}, as make_tubelets cuts them. -> {M·D}: the first less the hidden ones, of which
/// each channel has been brought to mean 0 and variance 1 within its token: (x − mean)/(√variance + 1e-6),
/// with divisor count − 1. std: what the clip's pixels were divided by (data.normalize), one number or one
/// for each channel of all frames: the 1e-6 is added to pixels of 0 to 1, as VideoMAE does it.
std::unique_ptr<Layer> make_patch_differences(const Shape& prediction, const Shape& tokens, const Shape& clip,
                                              const Tubelet& tubelet, const TubeMask& mask,
                                              const std::optional<RunningCells>& cells,
                                              std::span<const float> std);
/// The linear layer before: a file holds its outputs frames before rows before columns before channels, as
/// VideoMAE does; xavier_uniform, bias 0.
std::unique_ptr<Layer> make_tubelet_head(const Shape& tokens, const Shape& clip, const Tubelet& tubelet);

}  // namespace tutti
