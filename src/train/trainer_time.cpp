// What rank 0's clock decides, for all ranks: checkpoints every so many minutes, and the end by run.walltime.

#include <cmath>

#include "trainer_impl.hpp"
#include "tutti/base/program_time.hpp"

namespace tutti {

bool Trainer::Impl::minutes_passed() const {
    const Interval& every = config.train.checkpoint.every;
    return every.unit == Interval::Unit::minutes && every.count > 0 &&
           std::chrono::steady_clock::now() - last_save_time >=
               std::chrono::duration<double>(every.count * 60);
}

WallTime::Ahead Trainer::Impl::ahead() const {
    const std::int64_t step = progress.step + 1, epoch = progress.epoch + 1;
    const bool epoch_ends = training.epoch_ends_with_next();
    const std::int64_t eval_every = config.train.eval_every;
    const Interval& save_every = config.train.checkpoint.every;
    const std::int64_t saves = std::max<std::int64_t>(std::llround(save_every.count), 1);

    WallTime::Ahead ahead;
    ahead.last = (epoch_ends && epoch >= config.train.epochs) ||
                 (config.train.max_steps && step >= *config.train.max_steps);
    ahead.evaluates = job.val && (ahead.last || (epoch_ends && eval_every > 0 && epoch % eval_every == 0));
    const CheckpointConfig& checkpoint = config.train.checkpoint;
    const bool best_may_come = ahead.evaluates && !checkpoint.best.empty() &&
                               (epoch_ends ? epoch : progress.epoch) >= checkpoint.best_from;
    ahead.saves = best_may_come;
    if (save_every.count > 0) switch (save_every.unit) {
            case Interval::Unit::epochs:
                ahead.saves = ahead.saves || (epoch_ends && epoch % saves == 0);
                break;
            case Interval::Unit::steps:
                ahead.saves = ahead.saves || step % saves == 0;
                break;
            case Interval::Unit::minutes:
                ahead.saves = true;
                break;
        }
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
