#include "synthetic_data.hpp"

#include <fmt/format.h>

#include <charconv>
#include <limits>
#include <numeric>

#include "option_parser.hpp"
#include "tutti/base/error.hpp"
#include "tutti/input/random_dataset.hpp"
#include "tutti/train/objective.hpp"
#include "tutti/train/virtual_shards.hpp"

namespace tutti {
namespace {

constexpr std::int64_t default_image = 28, default_channels = 1, default_classes = 10;
constexpr std::int64_t locators_image = 96, locators_channels = 3;
constexpr std::int64_t clips_image = 224, clips_channels = 3;
constexpr std::int64_t sequences_seconds = 256, sequences_features = 512 + 2048 + 384;

Shape parse_shape(const std::string& text) {
    const UsageError wrong("--shape: '" + text + "' is no shape of a sample",
                           "give HEIGHTxWIDTHxCHANNELS, as 28x28x1, SECONDSxFEATURES, as 900x2945, or the "
                           "number of features");
    std::vector<std::int64_t> sizes;
    const char *at = text.data(), *const end = at + text.size();
    while (true) {
        std::int64_t size = 0;
        const auto [rest, problem] = std::from_chars(at, end, size);
        if (problem != std::errc() || size < 1 || sizes.size() == 3) throw wrong;
        sizes.push_back(size);
        if (rest == end) return Shape(std::span<const std::int64_t>(sizes));
        if (*rest != 'x') throw wrong;
        at = rest + 1;
    }
}

/// What the model says itself, and else what its kind usually sees.
Shape usual_image(const Config& config) {
    const ModelConfig& model = config.model;
    const bool location = config.train.loss == LossChoice::location;
    const bool clips = model.name == "videomae" || model.name == "videomae_pretrain";
    const std::int64_t image = model.image.value_or(location ? locators_image
                                                    : clips  ? clips_image
                                                             : default_image);
    const std::int64_t channels = model.channels.value_or(location ? locators_channels
                                                          : clips  ? clips_channels * model.frames
                                                                   : default_channels);
    return {image, image, channels};
}

/// With one feature more, which says whether a second exists.
Shape usual_sequence(const ModelConfig& model) {
    const auto& widths = model.features;
    const std::int64_t features = std::accumulate(widths.begin(), widths.end(), std::int64_t{0});
    return {sequences_seconds, (widths.empty() ? sequences_features : features) + 1};
}

void check_shape(const Config& config, const Shape& shape) {
    const bool of_segments = config.train.loss == LossChoice::segments;
    if (shape.rank() == 0 || of_segments == (shape.rank() == 2)) return;
    if (of_segments)
        throw UsageError("--shape " + to_string(shape) +
                             " is none of sequences, which the model temporal_transformer needs",
                         "give SECONDSxFEATURES, as 900x2945");
    throw UsageError("--shape " + to_string(shape) +
                         " is one of sequences, which the model temporal_transformer alone takes",
                     "give HEIGHTxWIDTHxCHANNELS, as 28x28x1, or the number of features");
}

}  // namespace

void add_synthetic_options(OptionParser& parser, RecipeArguments& recipe, std::string& shape) {
    parser.add_flag("--synthetic", recipe.own_data, "random samples in memory instead of data.train");
    parser.add_option("--shape", shape,
                      "of such a sample, as 28x28x1, 784, or 900x2945 for sequences with segments; default: "
                      "model.image and model.channels, else 28x28x1, for a locator 96x96x3, for clips "
                      "224x224x(3 x model.frames), for sequences 256x2945");
}

Shape synthetic_shape(const RecipeArguments& recipe, const std::string& text) {
    if (text.empty()) return {};
    if (!recipe.own_data)
        throw UsageError("--shape is for --synthetic only", "the data set has its own shape");
    return parse_shape(text);
}

std::function<std::unique_ptr<Dataset>()> synthetic_data(const RecipeArguments& recipe, const Config& config,
                                                         const Shape& sample_shape, int ranks,
                                                         std::int64_t updates) {
    if (!recipe.own_data) return {};
    return [&config, sample_shape, ranks, updates] {
        check_shape(config, sample_shape);
        const bool location = config.train.loss == LossChoice::location;
        const std::int64_t batch = samples_per_update(config, ranks);
        if (updates > std::numeric_limits<std::int64_t>::max() / batch)
            throw UsageError(
                fmt::format("{} steps of {} samples are more than can be counted", updates, batch),
                "set --steps, --warmup or train.batch_size to less");
        if (config.train.loss == LossChoice::segments)
            return make_random_sequences(
                sample_shape.rank() > 0 ? sample_shape : usual_sequence(config.model), batch * updates,
                config.run.seed);
        const std::int64_t outputs =
            location ? location_targets : config.model.classes.value_or(default_classes);
        return make_random_dataset(sample_shape.rank() > 0 ? sample_shape : usual_image(config),
                                   batch * updates, outputs, config.run.seed,
                                   location || is_regression(config.train.loss) ? outputs : 0);
    };
}

void keep_first_weights(const RecipeArguments& recipe, Config& config) {
    if (!recipe.own_data) return;
    config.optim.lr = 0;
    config.schedule = {};  // with rates of its own
}

}  // namespace tutti
