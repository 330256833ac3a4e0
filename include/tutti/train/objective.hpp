#pragma once
// What a model is trained to give: the class of a sample, its targets, the place of the one thing in it, its
// segments, or the part of it that was hidden.

#include <memory>
#include <optional>
#include <span>
#include <string>

#include "tutti/base/config.hpp"
#include "tutti/input/dataset.hpp"
#include "tutti/input/transforms.hpp"
#include "tutti/model/loss.hpp"
#include "tutti/model/zoo.hpp"
#include "tutti/train/location.hpp"
#include "tutti/train/segments.hpp"

namespace tutti {

/// What the outputs of a model are compared with. location, segments: with targets, three or two of each
/// second, but not one by one.
enum class Objective { classes, targets, location, segments, hidden_input };

/// Whether a sample's answer is right or wrong: the class, or whether the thing is there. Pure.
constexpr bool has_accuracy(Objective objective) {
    return objective == Objective::classes || objective == Objective::location;
}

/// Whether a loss that is no longer auto is of classes; whether it is of the data's targets, one by one or
/// not. Pure.
constexpr bool is_of_classes(LossChoice loss) {
    return loss == LossChoice::automatic || loss == LossChoice::cross_entropy;
}
constexpr bool is_of_targets(LossChoice loss) {
    return is_regression(loss) || loss == LossChoice::location || loss == LossChoice::segments;
}

/// By train.loss, auto included. Pure.
Objective objective_of(const TrainConfig& config, const DatasetInfo& data);

/// What train.loss: location minimises, and how places are decoded; nothing of another loss. Pure.
std::optional<LocationTask> location_of_run(const TrainConfig& config);

/// What train.loss: segments minimises, and how segments are decoded; nothing of another loss. Pure.
std::optional<SegmentTask> segments_of_run(const TrainConfig& config);

/// The targets of a locator: whether the thing is there, and its place.
inline constexpr std::int64_t location_targets = 3;

/// Which targets are a place in the sample, which moves as a sample is flipped: those of a locator, and two
/// that are named x and y, x_pix and y_pix, or cx and cy; else nothing. Pure.
std::optional<PlaceTargets> place_targets(const TrainConfig& config, const DatasetInfo& data);

/// Whether data must have labels or targets to be read as the config says. Pure.
Labels labels_needed(const Config& config);

/// For data with targets auto becomes the loss that it means there, so that a run's config says it; all else
/// stays. Pure.
LossChoice loss_of_run(const TrainConfig& config, const DatasetInfo& data);

/// The same with the settings that follow from the data written out, for data with targets train.loss and
/// model.classes: the run's config then says them to those who have the weights without these data. Pure.
Config config_with_objective(Config config, const DatasetInfo& data);

/// Throws UsageError where data.normalize, if it is given, has neither one value nor one for each channel,
/// which is the last dimension of `sample`, and where it would change the last feature of a sequence [T, F],
/// which says whether a step exists.
void check_normalize(const DataConfig& config, const Shape& sample);

/// What build_model has to know of the data: as many outputs as classes, or as targets, and what their pixels
/// are divided by. Pure.
ModelInput model_input(const DatasetInfo& data, const DataConfig& config);

/// build_model() for data: where it throws and their images look as if their channels came first, the
/// UsageError says that, too.
GraphSpec build_model_for(const ModelConfig& config, const ModelInput& input, const DatasetInfo& data);

/// Throws UsageError where train.loss and the data do not go together, and where settings of classes are
/// given for another objective or the other way round. `name` of the data, for messages. Pure.
void check_objective(const TrainConfig& config, const DatasetInfo& data, const std::string& name);

/// Throws UsageError where only one of data.latitudes and data.longitudes is given, or a model of this loss,
/// and of so many targets, tells no place: it is neither a locator nor one of x and y. Pure.
void check_geography(const DataConfig& config, LossChoice loss, std::int64_t targets);

/// The loss of training: with train.label_smoothing and `class_weights` (class_weights(); empty: none).
std::unique_ptr<Loss> make_training_loss(Device& device, DType compute, const TrainConfig& config,
                                         const DatasetInfo& data, std::span<const double> class_weights);
/// That of evaluations, where each sample counts 1 and nothing is smoothed.
std::unique_ptr<Loss> make_evaluation_loss(Device& device, DType compute, const TrainConfig& config,
                                           const DatasetInfo& data);

}  // namespace tutti
