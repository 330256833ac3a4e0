#include "model_outputs.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <span>
#include <system_error>

#include "transformed_data.hpp"
#include "tutti/base/error.hpp"
#include "tutti/base/units.hpp"
#include "tutti/train/checkpoint.hpp"
#include "tutti/train/objective.hpp"
#include "tutti/train/training_data.hpp"
#include "tutti/train/weights_file.hpp"

namespace tutti {
namespace {

/// Of weights that do not say what they were trained on, as those of older versions and other programs: the
/// data of training, as the model saw them, where they are still there. With model.classes they are only a
/// hint, and none where they cannot be read; without it that is an error.
std::optional<DatasetInfo> training_data(const Config& config) {
    std::error_code ignored;
    const auto& train = config.data.train;
    const bool there = !train.empty() && std::all_of(train.begin(), train.end(), [&](const auto& path) {
        return std::filesystem::exists(path, ignored);
    });
    if (!there) return {};
    try {
        return transformed(open_datasets(train, mapped_limit, labels_needed(config)), config,
                           TransformUse::evaluation)
            ->info();
    } catch (const DataError&) {
        if (!config.model.classes) throw;
        return {};
    }
}

/// Nothing where it cannot be read: what is wrong with a checkpoint its loading says, and an older version's
/// config may have other keys.
std::optional<Config> config_in(const std::string& weights) {
    if (!is_checkpoint(weights)) return {};
    try {
        return parse_config(peek_checkpoint(weights).config, weights, {});
    } catch (const Error&) {
        return {};
    }
}

/// Rank 0's, on every rank. Collective.
std::vector<std::string> share(Communicator& communicator, const std::vector<std::string>& names) {
    std::string text;  // names are of any bytes but 0, behind which each ends
    for (const std::string& name : names) text += name + '\0';
    text = broadcast_text(communicator, text, 0);
    std::vector<std::string> shared;
    for (std::size_t begin = 0, end; begin < text.size(); begin = end + 1) {
        end = text.find('\0', begin);
        shared.push_back(text.substr(begin, end - begin));
    }
    return shared;
}

std::optional<Normalisation> share(Communicator& communicator, const std::optional<Normalisation>& mine) {
    return normalisation_from(broadcast_text(communicator, mine ? to_json(*mine) : "", 0), "rank 0");
}

/// No weight of a temporal transformer depends on how long sequences are. other_crops: images may have
/// another size than in training, which convolutional networks allow; whether this one does its loading says.
bool takes(const ModelConfig& model, const DatasetInfo& trained_on, const DatasetInfo& data,
           bool other_crops) {
    const Shape &then = trained_on.sample_shape, &now = data.sample_shape;
    if (model.name == "temporal_transformer" && then.rank() == 2 && now.rank() == 2) return then[1] == now[1];
    if (other_crops && then.rank() == 3 && now.rank() == 3) return then[2] == now[2];
    return then == now;
}
constexpr const char* remedy_for_sequences =
    "pack them as the training data were, with --sequences and the same --features";

}  // namespace

ModelOutputs find_model_outputs(const Config& config, const std::string& weights, const Dataset& data) {
    const TrainedOn said = read_trained_on(weights);
    const std::optional<Config> of_run = config_in(weights);
    std::optional<DatasetInfo> trained_on = training_data_from_json(said.data, weights);
    // What is said is of the samples behind the crops of training.
    const bool other_crops = trained_on && !(of_run && of_run->data.transforms == config.data.transforms);
    if (!trained_on) trained_on = training_data(config);
    const DatasetInfo& info = data.info();
    if (trained_on && !takes(config.model, *trained_on, info, other_crops))
        throw DataError(
            data.name() + " has samples of shape " + to_string(info.sample_shape) +
                ", but the model was trained on samples of shape " + to_string(trained_on->sample_shape),
            trained_on->sample_shape.rank() == 2 ? remedy_for_sequences : "give data of that shape");
    ModelOutputs outputs;
    outputs.trained = normalisation_from(said.normalisation, weights);
    if (!outputs.trained && trained_on) outputs.trained = normalisation_of(config.data, *trained_on);
    if (!trained_on && !config.data.train.empty())
        outputs.doubt = fmt::format(
            "{}, which the model was trained on, {} not there: whether {} has the same "
            "{}classes or targets{} was not looked at",
            fmt::join(config.data.train, ", "), config.data.train.size() == 1 ? "is" : "are", data.name(),
            info.feature_names.empty() ? "" : "features, ",
            outputs.trained ? "" : ", and the same normalisation,");
    if (trained_on) outputs.feature_names = trained_on->feature_names;
    outputs.loss = config.train.loss;
    if (outputs.loss == LossChoice::automatic)
        outputs.loss = of_run ? of_run->train.loss : loss_of_run(config.train, trained_on.value_or(info));
    outputs.regression = is_regression(outputs.loss);
    if (outputs.loss == LossChoice::reconstruction) {
        outputs.count = 1;
        return outputs;
    }
    if (outputs.loss == LossChoice::location)
        outputs.count = location_targets;
    else if (outputs.loss == LossChoice::segments)
        outputs.count = segment_targets * info.sample_shape[0];
    else if (config.model.classes)
        outputs.count = *config.model.classes;
    else if (of_run && of_run->model.classes)
        outputs.count = *of_run->model.classes;
    else
        outputs.count = model_input(trained_on.value_or(info), config.data).classes;
    // A list of layers says it itself.
    if (outputs.count < 1 && !config.model.layers.empty()) outputs.count = 1;
    if (outputs.count < 1)
        throw DataError(fmt::format("{} has no {} and does not say how many {} there are, and neither do the "
                                    "config or training data that are still there",
                                    data.name(), outputs.regression ? "targets" : "labels",
                                    outputs.regression ? "of them" : "classes"),
                        "set model.classes");
    if (is_of_targets(outputs.loss))
        outputs.target_names =
            trained_on && trained_on->targets > 0 ? trained_on->target_names : info.target_names;
    else if (trained_on)
        outputs.class_names = trained_on->class_names;
    if (!is_of_targets(outputs.loss) && !are_named(outputs.class_names) && info.classes == outputs.count)
        outputs.class_names = info.class_names;
    return outputs;
}

bool is_known_to_be_of_classes(const Config& config, const std::string& weights) {
    if (config.train.loss != LossChoice::automatic) return is_of_classes(config.train.loss);
    // That of a run is auto no more where its data had targets.
    const std::optional<Config> of_run = config_in(weights);
    return of_run && is_of_classes(of_run->train.loss);
}

ModelOutputs share(Communicator& communicator, const ModelOutputs& outputs) {
    std::array<std::int64_t, 3> numbers{outputs.count, outputs.regression ? 1 : 0,
                                        static_cast<std::int64_t>(outputs.loss)};
    communicator.broadcast(view_of(std::span(numbers)), 0).wait();
    return {numbers[0],
            numbers[1] != 0,
            static_cast<LossChoice>(numbers[2]),
            share(communicator, outputs.target_names),
            share(communicator, outputs.class_names),
            share(communicator, outputs.feature_names),
            {},
            share(communicator, outputs.trained)};
}

void tell_of_normalisation(Log& log, const std::string& name, const DataConfig& config,
                           const Normalisation& trained, const DatasetInfo& data) {
    if (!config.normalize && as_trained(config, trained, data).normalize)
        log.info(fmt::format("{}: without mean and std, so normalised as the training data were: {}", name,
                             describe(trained)));
    else if (const std::string doubt = doubt_about_normalisation(config, trained, data); !doubt.empty())
        log.warning(name + ": " + doubt);
}

void check_comparable(const ModelOutputs& outputs, const Dataset& data, InferenceUse use) {
    const DatasetInfo& info = data.info();
    if (const std::string other =
            other_features(outputs.feature_names, info.feature_names, "the model was trained with");
        !other.empty())
        throw DataError(data.name() + " " + other,
                        "pack the data with the columns of training, in their order: trainer inspect lists "
                        "them, of the checkpoint or of data.train");
    if (outputs.loss == LossChoice::reconstruction) return;
    const bool of_targets = is_of_targets(outputs.loss);
    if (of_targets ? info.labelled : info.targets > 0) {
        if (use == InferenceUse::predictions) return;
        throw DataError(fmt::format("{} has {}, but the model was trained to give {}", data.name(),
                                    of_targets ? "labels" : "targets", of_targets ? "targets" : "classes"),
                        of_targets ? "give data with targets" : "give data with labels");
    }
    const bool of_segments = outputs.loss == LossChoice::segments;
    if (of_targets && info.targets > 0 && of_segments != info.has_segments())
        throw DataError(fmt::format("{} has {}, but the model gives {}", data.name(), describe_wanted(info),
                                    of_segments ? "segments" : "numbers"),
                        of_segments ? remedy_for_sequences : "give data with the targets of training");
    if (!of_targets && info.classes > outputs.count)
        throw DataError(fmt::format("{} has {}, but the model was trained on {}", data.name(),
                                    counted(info.classes, "class", "classes"), outputs.count),
                        "give data with the classes that the model knows");
    if (const std::string other =
            other_class_name(outputs.class_names, info.class_names, "in the training data");
        !other.empty())
        throw DataError(data.name() + ": " + other,
                        "pack the data with the classes of training, in their order");
    if (of_targets && info.targets > 0 && info.targets != outputs.count)
        throw DataError(fmt::format("{} has {}, but the model gives {}", data.name(),
                                    counted(info.targets, "target"), outputs.count),
                        "give data with the targets that the model was trained to give");
    if (!info.target_names.empty() && !outputs.target_names.empty() &&
        info.target_names != outputs.target_names)
        throw DataError(
            fmt::format("{} has the targets {}, but the model gives {}", data.name(),
                        fmt::join(info.target_names, ", "), fmt::join(outputs.target_names, ", ")),
            "pack the data with the targets of training, in their order");
}

}  // namespace tutti
