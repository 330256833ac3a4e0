// Tokens that are hidden from a model, and what it says of them.

#include <fmt/format.h>

#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "tubelet_positions.hpp"
#include "tutti/base/error.hpp"
#include "tutti/model/layers.hpp"
#include "tutti/model/layers_masking.hpp"

namespace tutti {
namespace {

/// A layer that needs to know which tokens are hidden: it draws them itself, into its state, and gets what
/// the other layers of the step get, as the numbers are addressed.
class MaskedLayer : public Layer {
  public:
    MaskedLayer(const Shape& output, const TubeMask& mask, const std::optional<RunningCells>& cells = {})
        : Layer(output), mask_(mask), cells_(cells) {}
    std::int64_t state_bytes_per_sample() const override {
        return (mask_.tokens() + decoded_tokens()) * static_cast<std::int64_t>(size_of(DType::i64));
    }

  protected:
    /// [N, T], as Ops::mask_tokens leaves it; with cells [N, V + K], as Ops::running_cells does.
    TensorView draw(const LayerCall& call) {
        const StepContext& step = *call.step;
        const DropoutAddress address{step.seed, step.epoch, step.positions, call.number};
        const std::int64_t samples = call.inputs[0].shape[0];
        const TensorView order{call.state.data, DType::i64, {samples, mask_.tokens()}};
        ops().mask_tokens(address, mask_, order);
        if (!cells_) return order;
        const TensorView decoded{call.state.data + order.bytes(), DType::i64, {samples, decoded_tokens()}};
        ops().running_cells(address, mask_, *cells_, order, decoded);
        return decoded;
    }
    const TubeMask& mask() const { return mask_; }

  private:
    std::int64_t decoded_tokens() const {
        return cells_ ? mask_.visible_tokens() + cells_->kept_tokens(mask_) : 0;
    }

    TubeMask mask_;
    std::optional<RunningCells> cells_;
};

class VisibleTokens final : public MaskedLayer {
  public:
    VisibleTokens(const Shape& tokens, const TubeMask& mask)
        : MaskedLayer({mask.visible_tokens(), tokens[1]}, mask) {}
    std::string kind() const override { return "visible_tokens"; }
    bool converts() const override { return true; }
    void forward(const LayerCall& call) override {
        ops().take_tokens(call.inputs[0], draw(call), call.output);
    }
    void backward(const LayerCall&) override {}
};

/// With a mask token, or without where only visible tokens come out.
class PlacedTokens final : public MaskedLayer {
  public:
    PlacedTokens(const Shape& visible, std::int64_t tokens, const TubeMask& mask,
                 const std::optional<RunningCells>& cells, std::vector<double> table)
        : MaskedLayer({tokens, visible[1]}, mask, cells) {
        const std::int64_t width = visible[1];
        add_buffer({.name = "pos_embed",
                    .shape = {mask.tokens(), width},
                    .saved = false,
                    .values = std::move(table)});
        constexpr double std = 0.02;
        if (has_hidden())
            add_parameter(
                {"mask_token", {1, 1, width}, {1, 1, width}, {}, Initializer::truncated_normal(std, std)});
    }
    std::string kind() const override { return has_hidden() ? "mask_tokens" : "visible_positions"; }
    double forward_flops() const override { return static_cast<double>(output_shape().count()); }
    double backward_flops(bool) const override {
        return static_cast<double>((output_shape()[0] - mask().visible_tokens()) * output_shape()[1]);
    }
    void forward(const LayerCall& call) override {
        const TensorView token = has_hidden() ? flat(call.parameters_like(call.output)[0]) : TensorView{};
        ops().fill_tokens_forward(call.inputs[0], token, call.buffers[0], draw(call), call.output);
    }
    void backward(const LayerCall& call) override {
        const TensorView dtoken = has_hidden() ? flat(call.parameter_gradients[0]) : TensorView{};
        ops().fill_tokens_backward(call.output_gradient, call.input_gradients[0], dtoken,
                                   mask().visible_tokens());
    }

  private:
    bool has_hidden() const { return output_shape()[0] > mask().visible_tokens(); }
    static TensorView flat(const TensorView& token) { return token.reshaped({token.count()}); }
};

class LastTokens final : public Layer {
  public:
    LastTokens(const Shape& tokens, std::int64_t count) : Layer({count, tokens[1]}) {}
    std::string kind() const override { return "last_tokens"; }
    void forward(const LayerCall& call) override { ops().last_tokens_forward(call.inputs[0], call.output); }
    void backward(const LayerCall& call) override {
        if (call.input_gradients[0].defined())
            ops().last_tokens_backward(call.output_gradient, call.input_gradients[0]);
    }
};

class PatchDifferences final : public MaskedLayer {
  public:
    PatchDifferences(const Shape& prediction, const TubeMask& mask, const std::optional<RunningCells>& cells,
                     std::vector<double> epsilon)
        : MaskedLayer({prediction.count()}, mask, cells), prediction_(prediction) {
        const Shape channels{static_cast<std::int64_t>(epsilon.size())};
        add_buffer({.name = "epsilon", .shape = channels, .saved = false, .values = std::move(epsilon)});
    }
    std::string kind() const override { return "patch_differences"; }
    bool works_in_place() const override { return true; }
    double forward_flops() const override { return static_cast<double>(output_shape().count()); }
    double backward_flops(bool) const override { return 0; }
    void forward(const LayerCall& call) override {
        const Shape rows = prediction_.with_front(call.output.shape[0]);
        ops().patch_differences(call.inputs[0], call.inputs[1], draw(call), call.buffers[0],
                                call.output.reshaped(rows));
    }
    void backward(const LayerCall& call) override {
        const TensorView& gradient = call.input_gradients[0];
        if (gradient.defined()) ops().copy(call.output_gradient.reshaped(gradient.shape), gradient);
    }

  private:
    Shape prediction_;
};

void require(const std::string& layer, const Shape& tokens, std::int64_t count) {
    if (tokens.rank() != 2 || tokens[0] != count || tokens[1] < 1)
        throw UsageError(layer + ": the input has shape " + to_string(tokens),
                         std::to_string(count) + " tokens [T, C] are needed");
}

std::unique_ptr<Layer> placed(const std::string& layer, const Shape& visible, std::int64_t tokens,
                              const Shape& clip, const Tubelet& tubelet, const TubeMask& mask,
                              const std::optional<RunningCells>& cells = {}) {
    require(layer, visible, mask.visible_tokens());
    return std::make_unique<PlacedTokens>(visible, tokens, mask, cells,
                                          tubelet_position_table(clip, tubelet, visible[1]));
}

std::int64_t colours_of(const Shape& clip, const Tubelet& tubelet) {
    return clip[2] / tubelet.frames;
}

}  // namespace

TubeMask tube_mask(const Shape& clip, const Tubelet& tubelet, double ratio) {
    check_tubelets(clip, tubelet);
    TubeMask mask;
    mask.places = clip[0] / tubelet.size * (clip[1] / tubelet.size);
    mask.repeats = tubelet.frames / tubelet.depth;
    mask.hidden = static_cast<std::int64_t>(ratio * static_cast<double>(mask.places));
    if (mask.hidden < 1 || mask.hidden >= mask.places)
        throw UsageError(
            fmt::format("model.mask_ratio is {}, which hides {} of {} patches of a frame", ratio,
                        std::max<std::int64_t>(mask.hidden, 0), mask.places),
            "choose it so that one at least is hidden and one is not, or set model.patch to less");
    return mask;
}

std::optional<RunningCells> running_cells(const Shape& clip, const Tubelet& tubelet, double ratio) {
    if (ratio == 0) return {};
    check_tubelets(clip, tubelet);
    RunningCells cells;
    cells.columns = clip[1] / tubelet.size;
    cells.dropped = static_cast<std::int64_t>(4 * ratio);
    if (cells.dropped < 1)
        throw UsageError(
            fmt::format("model.decoder_mask_ratio is {}, which drops none of a cell's four patches", ratio),
            "set it to 0.25, 0.5 or 0.75, or to 0 for a decoder that says all that is hidden");
    const std::int64_t rows = clip[0] / tubelet.size, groups = tubelet.frames / tubelet.depth;
    if (rows % 2 != 0 || cells.columns % 2 != 0 || groups % 4 != 0)
        throw UsageError(
            fmt::format(
                "model.decoder_mask_ratio: cells of 2 x 2 patches that run over 4 groups of frames do not "
                "fit into clips of {} x {} patches in {} groups",
                rows, cells.columns, groups),
            "choose clips, model.patch and model.tubelet so that rows and columns are even and groups a "
            "multiple "
            "of 4, or leave it out");
    return cells;
}

std::unique_ptr<Layer> make_visible_tokens(const Shape& tokens, const TubeMask& mask) {
    require("visible_tokens", tokens, mask.tokens());
    return std::make_unique<VisibleTokens>(tokens, mask);
}

std::unique_ptr<Layer> make_visible_positions(const Shape& visible, const Shape& clip, const Tubelet& tubelet,
                                              const TubeMask& mask) {
    return placed("visible_positions", visible, mask.visible_tokens(), clip, tubelet, mask);
}

std::unique_ptr<Layer> make_mask_tokens(const Shape& visible, const Shape& clip, const Tubelet& tubelet,
                                        const TubeMask& mask, const std::optional<RunningCells>& cells) {
    const std::int64_t tokens = cells ? mask.visible_tokens() + cells->kept_tokens(mask) : mask.tokens();
    return placed("mask_tokens", visible, tokens, clip, tubelet, mask, cells);
}

std::unique_ptr<Layer> make_last_tokens(const Shape& tokens, std::int64_t count) {
    if (tokens.rank() != 2 || count < 1 || tokens[0] < count)
        throw UsageError("last_tokens: the input has shape " + to_string(tokens),
                         "at least " + std::to_string(count) + " tokens [T, C] are needed");
    return std::make_unique<LastTokens>(tokens, count);
}

std::unique_ptr<Layer> make_patch_differences(const Shape& prediction, const Shape& tokens, const Shape& clip,
                                              const Tubelet& tubelet, const TubeMask& mask,
                                              const std::optional<RunningCells>& cells,
                                              std::span<const float> std) {
    require("patch_differences", prediction, cells ? cells->said_tokens(mask) : mask.hidden_tokens());
    require("patch_differences", tokens, mask.tokens());
    if (prediction[1] != tokens[1])
        throw UsageError("patch_differences: the tokens have " + std::to_string(tokens[1]) + " values, but " +
                             std::to_string(prediction[1]) + " are said",
                         "as many are needed");
    if (tubelet.depth * tubelet.size * tubelet.size < 2)
        throw UsageError("model.patch and model.tubelet make tokens of one pixel, which have no variance",
                         "set model.patch to at least 2");
    constexpr double of_pixels = 1e-6;
    std::vector<double> epsilon(static_cast<std::size_t>(colours_of(clip, tubelet)), of_pixels);
    for (std::size_t c = 0; c < epsilon.size() && !std.empty(); ++c)
        epsilon[c] /= static_cast<double>(std[std.size() == 1 ? 0 : c]);
    return std::make_unique<PatchDifferences>(prediction, mask, cells, std::move(epsilon));
}

std::unique_ptr<Layer> make_tubelet_head(const Shape& tokens, const Shape& clip, const Tubelet& tubelet) {
    check_tubelets(clip, tubelet);
    const std::int64_t colours = colours_of(clip, tubelet), width = tokens[1];
    const Shape values{tubelet.depth, tubelet.size, tubelet.size, colours};
    const std::int64_t out = values.count();
    const double bound = std::sqrt(6.0 / static_cast<double>(width + out));
    return make_linear(tokens,
                       {"weight",
                        {out, width},
                        {tubelet.depth, tubelet.size, tubelet.size, colours, width},
                        {1, 2, 0, 3, 4},
                        Initializer::uniform(bound)},
                       {"bias", {out}, values, {1, 2, 0, 3}, Initializer::constant(0)});
}

}  // namespace tutti
