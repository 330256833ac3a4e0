#include "run_schedule.hpp"

#include <algorithm>
#include <cmath>

namespace tutti {

std::int64_t RunSchedule::saves_in_units() const {
    return std::max<std::int64_t>(std::llround(train_.checkpoint.every.count), 1);
}

RunSchedule::Next RunSchedule::next(std::int64_t epochs, std::int64_t steps, bool ends_epoch) const {
    const std::int64_t step = steps + 1, epoch = epochs + 1, ended = ends_epoch ? epoch : epochs;
    Next next;
    next.is_last = is_over(ended, step);
    next.evaluates = validates_ && (next.is_last || (ends_epoch && evaluates_after(epoch)));
    next.saves = (next.evaluates && best_counts_after(ended)) || saves_after_step(step) ||
                 (ends_epoch && saves_after_epoch(epoch)) || minutes_between_saves();
    return next;
}

}  // namespace tutti
