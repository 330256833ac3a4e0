#pragma once
// What the ranks tell each other once a step, in one small all-reduce of doubles.

#include <array>
#include <cmath>

#include "tutti/comm/butterfly.hpp"
#include "tutti/comm/communicator.hpp"
#include "tutti/model/loss.hpp"

namespace tutti {

/// What rank 0's clock decides; the clocks of others differ.
struct ClockDecisions {
    bool checkpoint_due = false;
    bool is_over = false;  ///< run.walltime leaves no time for another update
};

/// Filled by each rank, summed over all. Doubles, so that a NaN loss arrives as a NaN.
class StepSums {
  public:
    void set(const LossSums& mine, bool has_failed, bool stops, const ClockDecisions& clock) {
        values_ = {};
        values_[loss_sum] = mine.loss;
        values_[loss_weight] = mine.weight;
        values_[correct] = static_cast<double>(mine.correct);
        set_flag(failures, has_failed);
        set_flag(non_finite_losses, !std::isfinite(mine.loss));
        set_flag(stops_asked, stops);
        set_flag(checkpoints_due, clock.checkpoint_due);
        set_flag(times_over, clock.is_over);
    }
    /// Samples that this rank could not read; after set().
    void set_skipped(std::int64_t samples) { values_[skipped_samples] = static_cast<double>(samples); }
    /// What this rank says of recorded steps (StepGraph); after set().
    void set_graph(bool wanted, bool impossible) {
        set_flag(graphs_wanted, wanted);
        set_flag(graphs_impossible, impossible);
    }
    /// The values must stay where they are until the Work is done.
    Work all_reduce(Communicator& communicator) {
        return communicator.all_reduce(view_of(std::span(values_)), ReduceOp::sum);
    }

    /// The same at once, with the loss along the tree of the virtual shards (butterfly_sum).
    void sum_along_tree(Communicator& communicator) {
        butterfly_sum(communicator, view_of(std::span(values_)));
    }

    LossSums loss() const {
        return {values_[loss_sum], values_[loss_weight], static_cast<std::int64_t>(values_[correct])};
    }
    bool failed() const { return any(failures); }
    bool non_finite() const { return any(non_finite_losses) || !std::isfinite(values_[loss_sum]); }
    bool stop() const { return any(stops_asked) || time_is_over(); }
    /// run.walltime is why.
    bool time_is_over() const { return any(times_over); }
    bool checkpoint_due() const { return any(checkpoints_due); }

    std::int64_t skipped() const { return static_cast<std::int64_t>(values_[skipped_samples]); }
    bool graph_wanted() const { return any(graphs_wanted); }
    bool graph_impossible() const { return any(graphs_impossible); }

  private:
    /// From `failures` on each rank says 1 or 0, but for skipped_samples.
    enum Slot : std::size_t {
        loss_sum,
        loss_weight,
        correct,
        failures,
        non_finite_losses,
        stops_asked,
        checkpoints_due,
        times_over,
        graphs_wanted,
        graphs_impossible,
        skipped_samples,
        slots
    };
    void set_flag(Slot slot, bool is_set) { values_[slot] = is_set ? 1.0 : 0.0; }
    bool any(Slot slot) const { return values_[slot] > 0; }

    std::array<double, slots> values_{};
};

}  // namespace tutti
