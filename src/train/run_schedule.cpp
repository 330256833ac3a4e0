#include "run_schedule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace tutti {

std::int64_t RunSchedule::total_steps(std::int64_t epochs, std::int64_t steps, std::int64_t begun,
                                      std::int64_t per_epoch) const {
    // In floating point: the product of what people type may not fit an integer.
    const double left = static_cast<double>(train_.epochs - epochs) * static_cast<double>(per_epoch) -
                        static_cast<double>(begun);
    constexpr double most = 9e15;  // exact so far
    const auto all = static_cast<std::int64_t>(std::min(static_cast<double>(steps) + left, most));
    return train_.max_steps ? std::min(all, *train_.max_steps) : all;
}

bool RunSchedule::is_due(const Interval& every, Interval::Unit unit, std::int64_t count) {
    return every.count > 0 && every.unit == unit &&
           count % std::max<std::int64_t>(std::llround(every.count), 1) == 0;
}

RunSchedule::Next RunSchedule::next(std::int64_t epochs, std::int64_t steps, bool ends_epoch) const {
    const std::int64_t step = steps + 1, epoch = epochs + 1, ended = ends_epoch ? epoch : epochs;
    Next next;
    next.is_last = is_over(ended, step);
    next.evaluates =
        validates_ && (next.is_last || (ends_epoch && evaluates_after(epoch)) || evaluates_after_step(step));
    next.saves = (next.evaluates && best_counts_after(ended)) || saves_after_step(step) ||
                 (ends_epoch && saves_after_epoch(epoch)) || minutes_between_saves();
    return next;
}

std::string doubt_about_evaluations(const TrainConfig& train, bool validates) {
    constexpr double many = 10;
    const double every = train.eval_every.count;
    if (!validates || train.eval_every.unit != Interval::Unit::epochs ||
        every <= many * static_cast<double>(std::max<std::int64_t>(train.epochs, 1)))
        return {};
    return fmt::format(
        "train.eval_every is {} epochs, and the run ends after {}: it is evaluated at its end alone; for "
        "every {} updates write train.eval_every=\"{} steps\", for the end alone 0",
        every, train.epochs, every, every);
}

}  // namespace tutti
