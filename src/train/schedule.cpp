#include "tutti/train/schedule.hpp"
#include "tutti/base/units.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "tutti/base/error.hpp"
#include "tutti/train/virtual_shards.hpp"

namespace tutti {
namespace {

double warm_up(const ScheduleConfig& schedule, double base, double epoch) {
    const double part = epoch / schedule.warmup_epochs;
    const double rise = schedule.warmup == WarmUp::power ? std::pow(part, schedule.warmup_power) : part;
    return schedule.warmup_lr + (base - schedule.warmup_lr) * rise;
}

/// How much of the way from the end of the warm-up to the end of `epochs` is done, up to 1.
double part_done(const ScheduleConfig& schedule, double epoch, double epochs) {
    const double length = epochs - schedule.warmup_epochs;
    return length > 0 ? std::min((epoch - schedule.warmup_epochs) / length, 1.0) : 1.0;
}

/// left: of the way from min_lr to the base rate.
double above_least(const ScheduleConfig& schedule, double base, double left) {
    return schedule.min_lr + (base - schedule.min_lr) * left;
}

std::int64_t milestones_behind(const ScheduleConfig& schedule, double epoch) {
    return std::ranges::count_if(schedule.milestones,
                                 [=](std::int64_t one) { return static_cast<double>(one) <= epoch; });
}

}  // namespace

ScaledRates scaled_rates(const Config& config, int world_size) {
    ScaledRates rates{config.optim.lr, config.schedule};
    if (config.train.scale_lr_by_world_size) rates.base *= world_size;
    if (const auto batch = config.train.scale_lr_by_batch) {
        const double factor =
            static_cast<double>(samples_per_update(config, world_size)) / static_cast<double>(*batch);
        for (double* rate : {&rates.base, &rates.schedule.min_lr, &rates.schedule.warmup_lr}) *rate *= factor;
    }
    return rates;
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
    if (schedule.name == "multi_step")
        return base * std::pow(schedule.gamma, static_cast<double>(milestones_behind(schedule, epoch)));
    const double part = part_done(schedule, epoch, static_cast<double>(epochs));
    if (schedule.name == "linear") return above_least(schedule, base, 1 - part);
    if (schedule.name == "cosine")
        return above_least(schedule, base, (1 + std::cos(std::numbers::pi * part)) / 2);
    throw UsageError("schedule.name is " + schedule.name + ", which this version does not carry out",
                     "use constant, step, multi_step, linear or cosine");
}

namespace {

std::string base_rate_text(const Config& config, int world_size) {
    const double base = scaled_rates(config, world_size).base;
    if (config.train.scale_lr_by_world_size)
        return fmt::format("optim.lr x {} = {:.4g}", counted(world_size, "rank"), base);
    if (config.train.scale_lr_by_batch)
        return fmt::format("optim.lr x {} / {} = {:.4g}", samples_per_update(config, world_size),
                           counted(*config.train.scale_lr_by_batch, "sample"), base);
    return fmt::format("optim.lr, {:.4g}", base);
}

}  // namespace

std::string doubt_about_rates(const Config& config, int world_size) {
    const auto [base, schedule] = scaled_rates(config, world_size);
    const std::string rate = base_rate_text(config, world_size);
    if ((schedule.name == "cosine" || schedule.name == "linear") && schedule.min_lr > base)
        return fmt::format(
            "schedule.min_lr is {}, more than {}: the learning rate rises to it; set schedule.min_lr to less",
            schedule.min_lr, rate);
    if (schedule.warmup_epochs > 0 && schedule.warmup_lr > base)
        return fmt::format(
            "schedule.warmup_lr is {}, more than {}: the warm-up falls; set schedule.warmup_lr to less",
            schedule.warmup_lr, rate);
    if (schedule.name == "multi_step" && schedule.milestones.back() >= config.train.epochs)
        return fmt::format(
            "schedule.milestones has {}, but the run ends after {} (train.epochs): no update comes behind "
            "that "
            "step; train longer, or leave it out",
            schedule.milestones.back(), counted(config.train.epochs, "epoch"));
    return {};
}

double updates_of_run(const TrainConfig& train, std::int64_t updates_per_epoch, const DoneBefore& done) {
    // In floating point: the product of what people type may not fit an integer.
    const double of_epochs =
        static_cast<double>(done.updates) +
        (static_cast<double>(train.epochs) - done.epochs) * static_cast<double>(updates_per_epoch);
    return train.max_steps ? std::min(static_cast<double>(*train.max_steps), of_epochs) : of_epochs;
}

std::string doubt_about_warmup(const Config& config, int world_size, std::int64_t updates_per_epoch,
                               const DoneBefore& done) {
    const ScheduleConfig& schedule = config.schedule;
    const TrainConfig& train = config.train;
    const auto per_epoch = static_cast<double>(updates_per_epoch);
    const auto before = static_cast<double>(done.updates);
    TrainConfig whole = train;
    whole.max_steps.reset();
    const double updates = updates_of_run(train, updates_per_epoch, done);
    const bool cut_off = updates < updates_of_run(whole, updates_per_epoch, done);
    const double epochs = done.epochs + (updates - before) / per_epoch;
    if (updates - before < 1 || schedule.warmup_epochs <= epochs) return {};
    const auto [base, scaled] = scaled_rates(config, world_size);
    const double last = learning_rate(scaled, base, epochs - 1 / per_epoch, train.epochs);
    if (last == base) return {};  // the warm-up begins with it
    const std::string end =
        cut_off ? fmt::format("after {} {}, {:.3g} epochs (train.max_steps)", updates,
                              updates > 1 ? "updates" : "update", epochs)
                : fmt::format("after {} {} (train.epochs)", epochs, train.epochs == 1 ? "epoch" : "epochs");
    return fmt::format(
        "schedule.warmup_epochs is {}, but the run ends {}: the learning rate never reaches {}, its last "
        "update has {:.4g}; set schedule.warmup_epochs to at most {}, or train longer",
        schedule.warmup_epochs, end, base_rate_text(config, world_size), last,
        std::floor(epochs * 1000) / 1000);
}

}  // namespace tutti
