#include "tutti/train/schedule.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "tutti/base/error.hpp"

namespace tutti {
namespace {

double warm_up(const ScheduleConfig& schedule, double base, double epoch) {
    const double part = epoch / schedule.warmup_epochs;
    const double rise = schedule.warmup == WarmUp::power ? std::pow(part, schedule.warmup_power) : part;
    return schedule.warmup_lr + (base - schedule.warmup_lr) * rise;
}

double cosine(const ScheduleConfig& schedule, double base, double epoch, double epochs) {
    const double length = epochs - schedule.warmup_epochs;
    const double part = length > 0 ? std::min((epoch - schedule.warmup_epochs) / length, 1.0) : 1.0;
    return schedule.min_lr + (base - schedule.min_lr) * (1 + std::cos(std::numbers::pi * part)) / 2;
}

}  // namespace

double base_learning_rate(const Config& config, int world_size) {
    return config.train.scale_lr_by_world_size ? config.optim.lr * world_size : config.optim.lr;
}

double epoch_of_update(std::int64_t epoch, std::int64_t position, std::int64_t global_batch,
                       std::int64_t updates_per_epoch) {
    const double update = static_cast<double>(position) / static_cast<double>(global_batch);
    return static_cast<double>(epoch) + update / static_cast<double>(updates_per_epoch);
}

double learning_rate(const ScheduleConfig& schedule, double base, double epoch, std::int64_t epochs) {
    if (epoch < schedule.warmup_epochs) return warm_up(schedule, base, epoch);
    if (schedule.name == "constant") return base;
    if (schedule.name == "step")
        return base * std::pow(schedule.gamma,
                               std::floor(std::floor(epoch) / static_cast<double>(schedule.step_size)));
    if (schedule.name == "cosine") return cosine(schedule, base, epoch, static_cast<double>(epochs));
    throw UsageError("schedule.name is " + schedule.name + ", which this version does not carry out",
                     "use constant, step or cosine");
}

}  // namespace tutti
