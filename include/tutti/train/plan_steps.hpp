#pragma once
// Measured steps of several bucket plans, in turn.

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "tutti/train/bench_plans.hpp"
#include "tutti/train/step_timeline.hpp"

namespace tutti {

struct BenchRounds {
    std::size_t steps = 20;   ///< measured of each plan
    std::size_t warmup = 3;   ///< before them, of each plan
    std::size_t in_turn = 2;  ///< steps of a plan before the next one's
};

/// Steps of all plans in turn, some of each per round, forwards and backwards through the list by turns, so
/// that a machine that becomes slower or faster does it to all alike.
class PlanSteps {
  public:
    /// Runs steps.size() steps under this plan.
    using Run = std::function<void(const BenchPlan& plan, std::span<StepTimeline> steps)>;
    /// Told before each round; what it throws ends the measurement.
    using BeforeRound = std::function<void(std::size_t round, std::size_t rounds)>;

    /// Collective through `run`. empty: a timeline of the bench's kind.
    PlanSteps(std::span<const BenchPlan> plans, const BenchRounds& rounds, const StepTimeline& empty,
              const Run& run, const BeforeRound& before_round);

    /// This rank's steps of a plan, in their order.
    std::span<const StepTimeline> steps(std::size_t plan) const { return steps_[plan]; }

  private:
    std::vector<std::vector<StepTimeline>> steps_;
};

}  // namespace tutti
