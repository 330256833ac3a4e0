#pragma once
// What a trained model gives, of which its weights alone say little.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tutti/base/config.hpp"
#include "tutti/base/log.hpp"
#include "tutti/comm/communicator.hpp"
#include "tutti/input/dataset.hpp"
#include "tutti/train/normalisation.hpp"

namespace tutti {

/// The outputs of a model for one sample.
struct ModelOutputs {
    std::int64_t count = 0;   ///< 1 of reconstruction, where nobody asks; of places and segments targets
    bool regression = false;  ///< targets one by one
    LossChoice loss = LossChoice::automatic;  ///< of training; automatic: cross_entropy
    std::vector<std::string> target_names;    ///< `count`, or none where they are not known
    std::vector<std::string> class_names;     ///< of the training data or, where these have none, of `data`
    std::vector<std::string> feature_names;   ///< of the training data, where they are known
    std::string doubt;                        ///< of what `data` are to the model; on the rank that found it
    std::optional<Normalisation> trained;     ///< of the samples of training, where that is known
};

/// By train.loss and model.classes of `config`; where that leaves them open by those of the checkpoint, if
/// `weights` are one, what the weights say of the data that they were trained on, or these data, where they
/// are still there, and `data`. Throws
/// DataError: `data` have samples of another shape than those that the model was trained on; nothing says how
/// many outputs there are.
ModelOutputs find_model_outputs(const Config& config, const std::string& weights, const Dataset& data);

/// Whether config or checkpoint say, before any data are looked at, that the model gives classes.
bool is_known_to_be_of_classes(const Config& config, const std::string& weights);

/// Rank 0's, on every rank. Collective.
ModelOutputs share(Communicator& communicator, const ModelOutputs& outputs);

/// Says where `data`, called `name`, are normalised as the model's training data were (as_trained), and warns
/// where they are not.
void tell_of_normalisation(Log& log, const std::string& name, const DataConfig& config,
                           const Normalisation& trained, const DatasetInfo& data);

/// Metrics may go without samples that cannot be read (data.on_error); predictions have a row for each.
enum class InferenceUse { metrics, predictions };

/// Throws DataError where labels or targets of `data`, if the outputs are such, cannot be compared with the
/// outputs. Of data to predict the others are left alone: a classifier takes data with targets, a model for
/// regression labelled ones.
void check_comparable(const ModelOutputs& outputs, const Dataset& data, InferenceUse use);

}  // namespace tutti
