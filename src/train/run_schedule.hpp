#pragma once
// Private to train: when a run ends, evaluates and saves, by its settings. Early stopping, signals and limits
// of time come on top. Epochs and updates ("steps") count from 1, as those that have been made.

#include <cstdint>
#include <optional>
#include <string>

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

    /// By train.eval_every in epochs, or in steps.
    bool evaluates_after(std::int64_t epoch) const {
        return validates_ && epoch > 0 && is_due(train_.eval_every, Interval::Unit::epochs, epoch);
    }
    bool evaluates_after_step(std::int64_t step) const {
        return validates_ && step > 0 && is_due(train_.eval_every, Interval::Unit::steps, step);
    }
    bool evaluates_by_steps() const { return train_.eval_every.unit == Interval::Unit::steps; }
    /// Also where it is the last.
    bool evaluates_at_end_of(std::int64_t epoch) const {
        return evaluates_after(epoch) || (validates_ && epoch >= train_.epochs);
    }

    /// By train.checkpoint.every.
    bool saves_after_epoch(std::int64_t epoch) const {
        return is_due(train_.checkpoint.every, Interval::Unit::epochs, epoch);
    }
    bool saves_after_step(std::int64_t step) const {
        return is_due(train_.checkpoint.every, Interval::Unit::steps, step);
    }
    /// Between two checkpoints, where the clock decides.
    std::optional<double> minutes_between_saves() const {
        const Interval& every = train_.checkpoint.every;
        if (every.count <= 0 || every.unit != Interval::Unit::minutes) return {};
        return every.count;
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
    /// Of what counts whole units: whether it happens after `count` of them.
    static bool is_due(const Interval& every, Interval::Unit unit, std::int64_t count);

    const TrainConfig& train_;
    const bool validates_;
};

/// Where train.eval_every is many times train.epochs, as who counts updates may have meant it: a warning with
/// the remedy; else nothing. Pure.
std::string doubt_about_evaluations(const TrainConfig& train, bool validates);

}  // namespace tutti
