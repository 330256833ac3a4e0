#pragma once
// The learning rate as a pure function of progress.

#include <cstdint>
#include <string>

#include "tutti/base/config.hpp"

namespace tutti {

/// The rates of a run on so many ranks.
struct ScaledRates {
    double base;
    ScheduleConfig schedule;
};
/// The base rate is optim.lr, times the number of ranks with train.scale_lr_by_world_size (warmup_lr and
/// min_lr are then rates as given, on any number of ranks). With train.scale_lr_by_batch: N all three are
/// multiplied by samples_per_update() / N (P. Goyal et al. 2017, "Accurate, Large Minibatch SGD",
/// section 2.1).
ScaledRates scaled_rates(const Config& config, int world_size);

/// Where an update stands: e = epoch + (position / global_batch) / updates_per_epoch, with the positions of
/// the epoch that were consumed before it. So update k of an epoch, counted from 0, has e = epoch + k / K,
/// and every update knows its e without having seen the ones before.
double epoch_of_update(std::int64_t epoch, std::int64_t position, std::int64_t global_batch,
                       std::int64_t updates_per_epoch);

/// The rate of the update at `epoch` = e of a run of `epochs` = E. With W = warmup_epochs:
///   e < W: warmup_lr + (base − warmup_lr) · (e/W)^q, q = 1 (linear) or warmup_power (power).
///          Linear is torch.optim.lr_scheduler.LinearLR stepped per update, start_factor = warmup_lr/base,
///          total_iters = W · updates per epoch.
///   constant: base.
///   step: base · gamma^⌊⌊e⌋ / step_size⌋: torch's StepLR stepped per epoch; epochs count from the beginning
///          of the run, with a warm-up too.
///   multi_step: base · gamma^n, n milestones at ⌊e⌋ or before: torch's MultiStepLR stepped per epoch.
///   linear: min_lr + (base − min_lr) · (1 − t), t = (e − W) / (E − W): torch's LinearLR from 1 to
///          min_lr/base (PolynomialLR of power 1 where min_lr is 0) stepped per update, total_iters =
///          (E − W) · updates per epoch.
///   cosine: min_lr + (base − min_lr) · (1 + cos(π·t)) / 2, t as above: torch's CosineAnnealingLR stepped
///          per update, T_max = (E − W) · updates per epoch. E is train.epochs,
///          whatever train.max_steps: a run that is cut off goes on where it was. From E on: min_lr.
double learning_rate(const ScheduleConfig& schedule, double base, double epoch, std::int64_t epochs);

/// Where the rate rises where it should fall, as schedule.min_lr or warmup_lr is more than the base rate, or
/// the last of schedule.milestones is not before the end: a warning; else nothing. Pure.
std::string doubt_about_rates(const Config& config, int world_size);

/// What a resumed run has behind it.
struct DoneBefore {
    std::int64_t updates = 0;
    double epochs = 0;
};

/// The updates behind the run at its end, which train.epochs or train.max_steps gives, whichever comes first.
/// updates_per_epoch: 1 or more, of now; `done`: what a resumed run has behind it, perhaps with other
/// batches. Pure.
double updates_of_run(const TrainConfig& train, std::int64_t updates_per_epoch, const DoneBefore& done = {});

/// Where a warm-up is longer than the run, train.epochs or train.max_steps, whichever ends it first, and its
/// last update therefore has another rate than the base rate: a warning that says so, with the remedy; else
/// nothing. updates_per_epoch and `done`: as of updates_of_run. Pure.
std::string doubt_about_warmup(const Config& config, int world_size, std::int64_t updates_per_epoch,
                               const DoneBefore& done = {});

}  // namespace tutti
