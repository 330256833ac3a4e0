#pragma once
// What a model was trained on, as far as other data must be alike: kept with its weights.

#include <optional>
#include <string>

#include "tutti/input/dataset.hpp"

namespace tutti {

/// One line of JSON: the shape of samples, classes or targets, and the names of these and of features, of
/// which those are left out that are not UTF-8, as JSON must be. Pure.
std::string training_data_to_json(const DatasetInfo& data);

/// What such a line says, and of the rest what DatasetInfo has by itself. Nothing of an empty text, as older
/// checkpoints have it. Throws DataError, which names `source`, for what is not such a line. Pure.
std::optional<DatasetInfo> training_data_from_json(const std::string& json, const std::string& source);

/// Where a training on `data`, called `name`, is to begin with weights that were `trained` with features of
/// other names, or, if it `keeps_head`, with as many classes of other names: which, and what that means; else
/// nothing. Pure.
std::string doubt_about_names(const DatasetInfo& trained, const DatasetInfo& data, const std::string& name,
                              bool keeps_head);

}  // namespace tutti
