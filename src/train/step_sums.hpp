#pragma once
// What the ranks tell each other once a step, in one small all-reduce of doubles.

#include <array>
#include <cmath>

#include "tutti/comm/butterfly.hpp"
#include "tutti/comm/communicator.hpp"
#include "tutti/model/loss.hpp"

namespace tutti {

/// What rank 0's clock says; the clocks of others differ.
struct TimeNews {
    bool checkpoint_due = false;
    bool is_over = false;  ///< run.walltime leaves no time for another update
};

/// Filled by each rank, summed over all. Doubles, so that a NaN loss arrives as a NaN.
class StepSums {
  public:
    void set(const LossSums& mine, bool failed, bool stop, const TimeNews& time) {
        values_ = {mine.loss,
                   mine.weight,
                   static_cast<double>(mine.correct),
                   failed ? 1.0 : 0.0,
                   std::isfinite(mine.loss) ? 0.0 : 1.0,
                   stop ? 1.0 : 0.0,
                   time.checkpoint_due ? 1.0 : 0.0,
                   0.0,
                   0.0,
                   0.0,
                   time.is_over ? 1.0 : 0.0};
    }
    /// Samples that this rank could not read; after set().
    void set_skipped(std::int64_t samples) { values_[9] = static_cast<double>(samples); }
    /// What this rank says of recorded steps (StepGraph); after set().
    void set_graph(bool wanted, bool impossible) {
        values_[7] = wanted ? 1.0 : 0.0;
        values_[8] = impossible ? 1.0 : 0.0;
    }
    /// The values must stay where they are until the Work is done.
    Work all_reduce(Communicator& communicator) {
        return communicator.all_reduce(view_of(std::span(values_)), ReduceOp::sum);
    }

    /// The same at once, with the loss along the tree of the virtual shards (butterfly_sum).
    void sum_along_tree(Communicator& communicator) {
        butterfly_sum(communicator, view_of(std::span(values_)));
    }

    LossSums loss() const { return {values_[0], values_[1], static_cast<std::int64_t>(values_[2])}; }
    bool failed() const { return values_[3] > 0; }
    bool non_finite() const { return values_[4] > 0 || !std::isfinite(values_[0]); }
    bool stop() const { return values_[5] > 0 || time_is_over(); }
    /// run.walltime is why.
    bool time_is_over() const { return values_[10] > 0; }
    bool checkpoint_due() const { return values_[6] > 0; }

    std::int64_t skipped() const { return static_cast<std::int64_t>(values_[9]); }
    bool graph_wanted() const { return values_[7] > 0; }
    bool graph_impossible() const { return values_[8] > 0; }

  private:
    std::array<double, 11> values_{};
};

}  // namespace tutti
