// An update whose loss or gradient is not finite: what becomes of it, and what is kept for `trainer replay`.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "train_step.hpp"

namespace tutti {
namespace {

/// The sign of a nan says nothing.
std::string shown(double value) {
    return std::isnan(value) ? "nan" : fmt::format("{}", value);
}

}  // namespace

bool TrainStep::squares_overflow(double gradient_norm) const {
    if (config.optim.name == "sgd" || graph.parameter_arena().dtype != DType::f32) return false;
    const double used = std::min(gradient_norm, config.optim.clip_norm.value_or(gradient_norm));
    return used * used > static_cast<double>(std::numeric_limits<float>::max());
}

std::string TrainStep::not_finite(const GlobalBatch& batch, const LossSums& mine, double gradient_norm) {
    const bool loss_is_finite = !sums.non_finite();
    if (loss_is_finite && std::isfinite(gradient_norm)) {
        if (config.train.nan_policy != NanPolicy::skip || !squares_overflow(gradient_norm)) return {};
        return fmt::format("the norm of the gradient is {:.6g}, and {} squares gradients in fp32",
                           gradient_norm, config.optim.name);
    }
    const std::string what = loss_is_finite ? "the norm of the gradient is " + shown(gradient_norm)
                                            : "the loss is " + shown(mine.loss);
    if (config.train.nan_policy == NanPolicy::skip)
        return loss_is_finite ? what : "the loss is " + shown(sums.loss().loss);
    keep_failed_step(batch, mine, gradient_norm);
    Failure failure;
    // The norm is the same on every rank; of the losses each rank knows its own.
    if (rank == 0 || loss_is_finite || !std::isfinite(mine.loss))
        failure = {ExitCode::failed,
                   fmt::format("step {} (epoch {}): {}; lower optim.lr or check the data; checkpoints "
                               "that were written before are good",
                               progress.step + 1, progress.epoch + 1, what)};
    agree(job.control, failure, "training");
    return what;
}

void TrainStep::keep_failed_step(const GlobalBatch& batch, const LossSums& mine, double gradient_norm) {
    std::array<double, 2> own{mine.loss, mine.weight};
    std::vector<double> all(2 * static_cast<std::size_t>(world));
    job.control.all_gather(view_of(std::span(own)), view_of(std::span(all))).wait();
    failed_step = {.step = progress.step + 1,
                   .epoch = progress.epoch,
                   .begin = batch.begin,
                   .end = batch.end,
                   .samples = job.train.info().samples,
                   .ranks = {},
                   .gradient_norm = gradient_norm};
    for (std::size_t r = 0; r < all.size(); r += 2)
        failed_step->ranks.push_back({.loss = all[r], .weight = all[r + 1], .correct = 0});
}

}  // namespace tutti
