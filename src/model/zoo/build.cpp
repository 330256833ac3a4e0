#include <fmt/format.h>

#include <algorithm>

#include "tutti/base/error.hpp"
#include "tutti/base/units.hpp"
#include "tutti/model/freezing.hpp"
#include "tutti/model/layers_transformer.hpp"
#include "tutti/model/zoo.hpp"

namespace tutti {
namespace {

std::int64_t agreed(const std::string& key, const std::optional<std::int64_t>& wanted, std::int64_t given,
                    const std::string& what) {
    if (wanted && *wanted != given)
        throw UsageError(key + " is " + std::to_string(*wanted) + ", but the data have " +
                             std::to_string(given) + " " + what,
                         "remove " + key + " or use other data");
    return given;
}

// A model may have more classes than occur in the data, never fewer.
std::int64_t agreed_classes(const std::optional<std::int64_t>& wanted, std::int64_t given, bool targets) {
    if (wanted && targets && *wanted != given)
        throw UsageError("model.classes is " + std::to_string(*wanted) + ", but the data have " +
                             std::to_string(given) + (given == 1 ? " target" : " targets"),
                         "remove it: a model gives a number for each target");
    if (wanted && *wanted < given)
        throw UsageError("model.classes is " + std::to_string(*wanted) + ", but the data have " +
                             counted(given, "class", "classes"),
                         "set model.classes to at least " + std::to_string(given) + " or remove it");
    return wanted.value_or(given);
}

// What models of images need of the data.
void check_images(const ModelConfig& config, const Shape& sample) {
    if (sample.rank() != 3)
        throw UsageError(
            "model " + config.name + " needs images, but the data have samples of shape " + to_string(sample),
            "use model.name=mlp or other data");
    agreed("model.channels", config.channels, sample[2], "channels");
    if (config.image) {
        agreed("model.image", config.image, sample[0], "rows");
        agreed("model.image", config.image, sample[1], "columns");
    }
}

VideoMaeOptions videomae_options(const ModelConfig& config, const ModelInput& input) {
    // Another divisor of the channels would be taken without a word.
    if (input.frames > 0 && input.frames != config.frames)
        throw UsageError(fmt::format("model.frames is {}, but the data have clips of {} frames",
                                     config.frames, input.frames),
                         fmt::format("set model.frames: {}, or pack clips of {} frames (trainer pack clips "
                                     "--frames)",
                                     input.frames, config.frames));
    return {.tubelet = {config.frames, config.tubelet, config.patch},
            .dim = config.dim,
            .depth = config.depth,
            .heads = config.heads,
            .mlp_ratio = config.mlp_ratio,
            .gelu = gelu_form(config.gelu, "model.gelu"),
            .norm_eps = config.norm_eps,
            .drop_path = config.drop_path};
}

MaskingOptions masking_options(const ModelConfig& config) {
    const auto half = [](std::int64_t of) { return std::max<std::int64_t>(of / 2, 1); };
    // VideoMAE's decoders are half as wide, but those of H and g no wider than that of L.
    constexpr std::int64_t widest = 512;
    const std::int64_t heads = config.decoder_heads.value_or(half(config.heads));
    const std::int64_t usual = widest % heads == 0 ? std::min(half(config.dim), widest) : half(config.dim);
    return {.ratio = config.mask_ratio,
            .decoder_dim = config.decoder_dim.value_or(usual),
            .decoder_depth = config.decoder_depth,
            .decoder_heads = heads,
            .decoder_ratio = config.decoder_mask_ratio};
}

GraphSpec build_layers(const ModelConfig& config, const ModelInput& input) {
    const Shape& sample = input.sample_shape;
    if (config.name == "videomae_pretrain") {
        check_images(config, sample);
        return build_videomae_pretrain(sample, videomae_options(config, input), masking_options(config),
                                       input.std);
    }
    if (config.name == "locator") {
        check_images(config, sample);
        return build_locator(config.backbone, sample);
    }
    if (config.name == "temporal_transformer")
        return build_temporal_transformer(sample, {.features = config.features,
                                                   .cross = config.fusion == "cross",
                                                   .dim = config.dim,
                                                   .depth = config.depth,
                                                   .heads = config.heads,
                                                   .mlp_ratio = config.mlp_ratio,
                                                   .text_depth = config.text_depth,
                                                   .cross_depth = config.cross_depth});
    const std::int64_t classes = agreed_classes(config.classes, input.classes, input.targets);
    if (!config.layers.empty()) {
        GraphSpec graph = build_sequential(sample, config.layers);
        const Shape& output = graph.nodes().back().shape;
        if (output.rank() != 1 || output[0] < classes || (input.targets && output[0] != classes))
            throw UsageError("model.layers ends with shape " + to_string(output) + ", but the data have " +
                                 std::to_string(classes) + (input.targets ? " targets" : " classes"),
                             "end it with {linear: {out: " + std::to_string(classes) + "}}");
        return graph;
    }
    if (config.name == "mlp" && sample.rank() == 2)
        throw UsageError(
            "model mlp needs images or one vector of features a sample, but the data have sequences "
            "of shape " +
                to_string(sample),
            "use model.name=temporal_transformer, a list model.layers, or other data");
    if (config.name == "mlp") return build_mlp(sample, config.hidden, classes);
    if (config.name == "lenet") {
        check_images(config, sample);
        return build_lenet(sample, classes);
    }
    if (config.name == "mnist") {
        check_images(config, sample);
        return build_mnist(sample, classes);
    }
    if (config.name.starts_with("resnet")) {
        check_images(config, sample);
        return build_resnet(config.name, sample, config.stem, classes);
    }
    if (config.name == "vit") {
        check_images(config, sample);
        return build_vit(sample,
                         {.patch = config.patch,
                          .dim = config.dim,
                          .depth = config.depth,
                          .heads = config.heads,
                          .mlp_ratio = config.mlp_ratio,
                          .gelu = gelu_form(config.gelu, "model.gelu"),
                          .class_token = config.class_token,
                          .norm_eps = config.norm_eps,
                          .drop_path = config.drop_path},
                         classes);
    }
    if (config.name == "videomae") {
        check_images(config, sample);
        return build_videomae(sample, videomae_options(config, input), classes);
    }
    throw UsageError("model.name is " + config.name + ", which is not a model",
                     "there are mlp, lenet, mnist, resnet18, resnet34, resnet50, vit, videomae, "
                     "videomae_pretrain, locator and temporal_transformer");
}

}  // namespace

GraphSpec build_model(const ModelConfig& config, const ModelInput& input) {
    GraphSpec spec = build_layers(config, input);
    freeze(spec, config.freeze, false, "model.freeze");
    freeze(spec, config.freeze_except, true, "model.freeze_except");
    if (config.freeze_statistics) freeze_statistics(spec, "model.freeze_statistics");
    return spec;
}

}  // namespace tutti
