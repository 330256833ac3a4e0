#pragma once
// What a config and its data must be so that they can be trained.

#include "tutti/base/config.hpp"
#include "tutti/input/dataset.hpp"

namespace tutti {

/// Whether config and data fit together, before anything is written: batch and data, training and validation
/// data, model and samples, k of the top-k accuracy and classes; and whether scaled learning rates are
/// numbers. val: null without validation data. Throws UsageError or DataError.
void check_training(const Config& config, const Dataset& train, const Dataset* val, int world_size);

}  // namespace tutti
