#include "tutti/train/schedule.hpp"

#include "tutti/base/error.hpp"

namespace tutti {

double base_learning_rate(const Config& config, int world_size) {
    return config.train.scale_lr_by_world_size ? config.optim.lr * world_size : config.optim.lr;
}

double learning_rate(const ScheduleConfig& schedule, double base, double) {
    if (schedule.name == "constant") return base;
    throw UsageError("schedule.name is " + schedule.name + ", which this version does not carry out",
                     "use constant");
}

}  // namespace tutti
