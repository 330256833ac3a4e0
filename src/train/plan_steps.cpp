#include "tutti/train/plan_steps.hpp"

#include <algorithm>

namespace tutti {

PlanSteps::PlanSteps(std::span<const BenchPlan> plans, const BenchRounds& rounds, const StepTimeline& empty,
                     const Run& run, const BeforeRound& before_round)
    : steps_(plans.size(), std::vector<StepTimeline>(rounds.steps, empty)) {
    const std::size_t turns = (rounds.steps + rounds.in_turn - 1) / rounds.in_turn;
    const std::size_t all = turns + (rounds.warmup > 0 ? 1 : 0);
    if (rounds.warmup > 0) {
        before_round(0, all);
        std::vector<StepTimeline> forgotten(rounds.warmup, empty);
        for (const BenchPlan& plan : plans) run(plan, forgotten);
    }
    for (std::size_t turn = 0; turn < turns; ++turn) {
        before_round(all - turns + turn, all);
        const std::size_t begin = turn * rounds.in_turn;
        const std::size_t count = std::min(rounds.in_turn, rounds.steps - begin);
        for (std::size_t i = 0; i < plans.size(); ++i) {
            const std::size_t plan = turn % 2 == 0 ? i : plans.size() - 1 - i;
            run(plans[plan], std::span(steps_[plan]).subspan(begin, count));
        }
    }
}

}  // namespace tutti
