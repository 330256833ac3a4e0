#pragma once
// The learning rate as a pure function of progress.

#include "tutti/base/config.hpp"

namespace tutti {

/// The base rate: optim.lr, times the number of ranks with train.scale_lr_by_world_size.
double base_learning_rate(const Config& config, int world_size);

/// The rate of the update that begins at `epoch` (fractions allowed: 1.5 is the middle of the second epoch).
/// constant: the base rate.
double learning_rate(const ScheduleConfig& schedule, double base, double epoch);

}  // namespace tutti
