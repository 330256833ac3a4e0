#pragma once
// What a training says as it starts and as it ends.

#include <string>

#include "training_recipe.hpp"
#include "tutti/base/config.hpp"
#include "tutti/base/log.hpp"
#include "tutti/comm/launch.hpp"
#include "tutti/train/trainer.hpp"

namespace tutti {

/// Who trains on what; warnings for settings without effect and for data that look wrong.
void log_training(Log& log, Launcher launcher, const TrainingInputs& inputs, const Config& config);

/// How the training ended. same_command: whether the command that started it goes on after a stop.
void log_end(Log& log, const Config& config, const TrainingResult& result, bool same_command);

/// The line that scripts look for, the last one on standard output. last_eval: TrainingResult's; without one
/// nothing is printed.
void print_result(Log& log, const std::string& last_eval);

}  // namespace tutti
