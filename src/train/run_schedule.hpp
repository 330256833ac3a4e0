#pragma once
// Private to train: when a run ends, evaluates and saves, by its settings. Early stopping, signals and limits
// of time come on top. Epochs and updates ("steps") count from 1, as those that have been made.

#include <cstdint>
#include <optional>

#include "tutti/base/config.hpp"

namespace tutti {

class RunSchedule {
  public:
    /// `train` stays; `validates`: there are data to evaluate on.
    RunSchedule(const TrainConfig& train, bool validates) : train_(train), validates_(validates) {}

    /// No update follows.
    bool is_over(std::int64_t epochs, std::int64_t step) const {
        return epochs >= train_.epochs || reaches_max_steps(step);
    }
    bool reaches_max_steps(std::int64_t step) const { return train_.max_steps && step >= *train_.max_steps; }

    /// Updates of the whole run. Done are `epochs`, `steps` in all, and `begun` of the next epoch, which has
    /// `per_epoch` of them.
    std::int64_t total_steps(std::int64_t epochs, std::int64_t steps, std::int64_t begun,
                             std::int64_t per_epoch) const;

    /// By train.eval_every.
    bool evaluates_after(std::int64_t epoch) const {
        return validates_ && train_.eval_every > 0 && epoch > 0 && epoch % train_.eval_every == 0;
    }
    /// Also where it is the last.
    bool evaluates_at_end_of(std::int64_t epoch) const {
        return evaluates_after(epoch) || (validates_ && epoch >= train_.epochs);
    }

    /// By train.checkpoint.every.
    bool saves_after_epoch(std::int64_t epoch) const {
        return saves_every(Interval::Unit::epochs) && epoch % saves_in_units() == 0;
    }
    bool saves_after_step(std::int64_t step) const {
        return saves_every(Interval::Unit::steps) && step % saves_in_units() == 0;
    }
    /// Between two checkpoints, where the clock decides.
    std::optional<double> minutes_between_saves() const {
        if (!saves_every(Interval::Unit::minutes)) return {};
        return train_.checkpoint.every.count;
    }

    /// Whether an evaluation after so many epochs may be the best, which is then saved.
    bool best_counts_after(std::int64_t epochs) const {
        return !train_.checkpoint.best.empty() && epochs >= train_.checkpoint.best_from;
    }

    /// What the next update brings with it.
    struct Next {
        bool is_last = false, evaluates = false, saves = false;
    };
    /// Of the update after `steps`, in the epoch after `epochs`, which it may end. A checkpoint that may
    /// follow, of the best or by the clock, counts.
    Next next(std::int64_t epochs, std::int64_t steps, bool ends_epoch) const;

  private:
    bool saves_every(Interval::Unit unit) const {
        return train_.checkpoint.every.count > 0 && train_.checkpoint.every.unit == unit;
    }
    /// Of epochs or steps.
    std::int64_t saves_in_units() const;

    const TrainConfig& train_;
    const bool validates_;
};

}  // namespace tutti
