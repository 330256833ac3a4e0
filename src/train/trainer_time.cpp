// What rank 0's clock decides, for all ranks: checkpoints every so many minutes, and the end by run.walltime.

#include <cmath>

#include "trainer_impl.hpp"
#include "tutti/base/program_time.hpp"

namespace tutti {

bool Trainer::Impl::minutes_passed() const {
    const std::optional<double> minutes = schedule.minutes_between_saves();
    return minutes &&
           std::chrono::steady_clock::now() - last_save_time >= std::chrono::duration<double>(*minutes * 60);
}

WallTime::Ahead Trainer::Impl::ahead() const {
    const RunSchedule::Next next =
        schedule.next(progress.epoch, progress.step, training.epoch_ends_with_next());
    WallTime::Ahead ahead{.evaluates = next.evaluates, .saves = next.saves, .last = next.is_last};
    // At most: an evaluation is forward alone.
    if (ahead.evaluates)
        ahead.updates_per_evaluation = std::ceil(static_cast<double>(job.val->info().samples) /
                                                 static_cast<double>(training.global_batch()));
    return ahead;
}

ClockDecisions Trainer::Impl::clock_decisions() {
    ClockDecisions news;
    if (rank != 0) return news;
    news.checkpoint_due = minutes_passed();
    if (!wall_time) return news;
    const double now = seconds_since_start();
    wall_time->before_update(now);
    news.is_over = wall_time->is_over(now, ahead());
    news.checkpoint_due = news.checkpoint_due || wall_time->wants_checkpoint(now);
    return news;
}

}  // namespace tutti
