// From a clip to tokens that know their place.

#include <cmath>

#include "tubelet_positions.hpp"
#include "tutti/base/error.hpp"
#include "tutti/model/layers.hpp"
#include "tutti/model/layers_transformer.hpp"

namespace tutti {
namespace {

/// A pixel holds the channels of all frames, so a clip is also an image of rows, columns and groups of
/// t.depth frames, in that order: cutting it with rows for frames leaves groups as the tokens' last index.
PatchShape cut(const Shape& clip, const Tubelet& t) {
    return {.height = clip[1],
            .width = t.frames / t.depth,
            .channels = clip[2] / t.frames * t.depth,
            .patch_height = t.size,
            .patch_width = 1,
            .frames = clip[0],
            .patch_frames = t.size};
}

class Tubelets final : public Layer {
  public:
    explicit Tubelets(const PatchShape& shape)
        : Layer({shape.tokens(), shape.token_width()}), shape_(shape) {}
    std::string kind() const override { return "tubelets"; }
    void forward(const LayerCall& call) override {
        ops().extract_patches(shape_, call.inputs[0], call.output);
    }
    void backward(const LayerCall& call) override {
        if (call.input_gradients[0].defined())
            ops().join_patches(shape_, call.output_gradient, call.input_gradients[0]);
    }

  private:
    PatchShape shape_;
};

class FixedPositions final : public Layer {
  public:
    FixedPositions(const Shape& tokens, std::vector<double> table) : Layer(tokens) {
        add_buffer({.name = "pos_embed", .shape = tokens, .saved = false, .values = std::move(table)});
    }
    std::string kind() const override { return "fixed_positions"; }
    double forward_flops() const override { return static_cast<double>(output_shape().count()); }
    double backward_flops(bool) const override { return 0; }
    void forward(const LayerCall& call) override {
        ops().embed_tokens_forward(call.inputs[0], {}, call.buffers[0], call.output);
    }
    void backward(const LayerCall& call) override {
        if (call.input_gradients[0].defined()) ops().copy(call.output_gradient, call.input_gradients[0]);
    }
};

/// One row of a table of positions.
void append_sinusoids(std::int64_t position, std::int64_t width, std::vector<double>& table) {
    for (std::int64_t i = 0; i < width; ++i) {
        const double angle = static_cast<double>(position) /
                             std::pow(10000.0, static_cast<double>(i / 2 * 2) / static_cast<double>(width));
        table.push_back(i % 2 == 0 ? std::sin(angle) : std::cos(angle));
    }
}

}  // namespace

void check_tubelets(const Shape& clip, const Tubelet& t) {
    if (clip.rank() != 3)
        throw UsageError("tubelets: the input has shape " + to_string(clip),
                         "clips [height, width, frames x channels] are needed");
    if (t.frames < 1 || clip[2] % t.frames != 0)
        throw UsageError(
            "model.frames is " + std::to_string(t.frames) + ", but the data have " + std::to_string(clip[2]) +
                " channels for all frames",
            "give the number of frames with which the clips were packed (trainer pack clips --frames)");
    if (t.depth < 1 || t.frames % t.depth != 0)
        throw UsageError("model.tubelet is " + std::to_string(t.depth) + ", but a clip has " +
                             std::to_string(t.frames) + " frames",
                         "choose a divisor of model.frames");
    if (t.size < 1 || clip[0] % t.size != 0 || clip[1] % t.size != 0)
        throw UsageError("model.patch is " + std::to_string(t.size) + ", but the frames have " +
                             std::to_string(clip[0]) + " x " + std::to_string(clip[1]) + " pixels",
                         "choose a divisor of both");
}

std::vector<double> tubelet_position_table(const Shape& clip, const Tubelet& tubelet, std::int64_t width) {
    const std::int64_t places = clip[0] / tubelet.size * (clip[1] / tubelet.size);
    const std::int64_t groups = tubelet.frames / tubelet.depth;
    std::vector<double> table;
    for (std::int64_t token = 0; token < places * groups; ++token) {
        const std::int64_t place = token / groups, group = token % groups;
        append_sinusoids(group * places + place, width, table);
    }
    return table;
}

std::unique_ptr<Layer> make_tubelets(const Shape& clip, const Tubelet& tubelet) {
    check_tubelets(clip, tubelet);
    return std::make_unique<Tubelets>(cut(clip, tubelet));
}

ParameterSpec tubelet_weight(const Shape& clip, const Tubelet& tubelet, std::int64_t out) {
    check_tubelets(clip, tubelet);
    const std::int64_t colours = clip[2] / tubelet.frames;
    const Shape file{out, colours, tubelet.depth, tubelet.size, tubelet.size};
    const double bound = 1.0 / std::sqrt(static_cast<double>(file.count() / out));
    return {"weight", file, file, {0, 3, 4, 2, 1}, Initializer::uniform(bound)};
}

std::unique_ptr<Layer> make_tubelet_positions(const Shape& tokens, const Shape& clip,
                                              const Tubelet& tubelet) {
    check_tubelets(clip, tubelet);
    const std::int64_t count =
        clip[0] / tubelet.size * (clip[1] / tubelet.size) * (tubelet.frames / tubelet.depth);
    if (tokens[0] != count)
        throw UsageError("fixed_positions: there are " + std::to_string(tokens[0]) + " tokens",
                         "the clip has " + std::to_string(count));
    std::vector<double> table = tubelet_position_table(clip, tubelet, tokens[1]);
    return std::make_unique<FixedPositions>(tokens, std::move(table));
}

std::unique_ptr<Layer> make_sequence_positions(const Shape& tokens) {
    if (tokens.rank() != 2)
        throw UsageError("fixed_positions: the input has shape " + to_string(tokens),
                         "tokens [T, C] are needed");
    std::vector<double> table;
    for (std::int64_t token = 0; token < tokens[0]; ++token) append_sinusoids(token, tokens[1], table);
    return std::make_unique<FixedPositions>(tokens, std::move(table));
}

}  // namespace tutti
