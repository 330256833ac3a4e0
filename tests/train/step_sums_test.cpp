#include "step_sums.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "support/thread_communicator.hpp"

namespace tutti {
namespace {

/// What a rank says in a step.
struct Said {
    LossSums loss{0.5, 4, 3};
    bool failed = false, stops = false;
    ClockDecisions clock;
    bool graph_wanted = false, graph_impossible = false;
    std::int64_t skipped = 0;
};

StepSums sums_of(const Said& said) {
    StepSums sums;
    sums.set(said.loss, said.failed, said.stops, said.clock);
    sums.set_skipped(said.skipped);
    sums.set_graph(said.graph_wanted, said.graph_impossible);
    return sums;
}

std::vector<std::string> flags_of(const StepSums& sums) {
    std::vector<std::string> flags;
    const auto note = [&](bool is_set, const char* name) {
        if (is_set) flags.emplace_back(name);
    };
    note(sums.failed(), "failed");
    note(sums.non_finite(), "non_finite");
    note(sums.stop(), "stop");
    note(sums.time_is_over(), "time_is_over");
    note(sums.checkpoint_due(), "checkpoint_due");
    note(sums.graph_wanted(), "graph_wanted");
    note(sums.graph_impossible(), "graph_impossible");
    return flags;
}

/// Calls `check` on each of four ranks with what they know in common, summed in both ways, where rank 1 says
/// something of its own.
void expect_on_all_ranks(const std::function<void(Said&)>& say,
                         const std::function<void(const StepSums&)>& check) {
    test::run_on_threads(4, [&](Communicator& world) {
        Said said;
        if (world.rank() == 1) say(said);
        StepSums sums = sums_of(said), along_tree = sums;
        sums.all_reduce(world).wait();
        along_tree.sum_along_tree(world);
        check(sums);
        check(along_tree);
    });
}

TEST(StepSumsOfRanks, show_all_ranks_the_flag_that_one_has_set_and_no_other) {
    using Flags = std::vector<std::string>;
    const std::vector<std::pair<std::function<void(Said&)>, Flags>> table{
        {[](Said&) {}, {}},
        {[](Said& said) { said.failed = true; }, {"failed"}},
        {[](Said& said) { said.loss.loss = std::numeric_limits<double>::quiet_NaN(); }, {"non_finite"}},
        {[](Said& said) { said.loss.loss = -std::numeric_limits<double>::infinity(); }, {"non_finite"}},
        {[](Said& said) { said.stops = true; }, {"stop"}},
        {[](Said& said) { said.clock.is_over = true; }, {"stop", "time_is_over"}},
        {[](Said& said) { said.clock.checkpoint_due = true; }, {"checkpoint_due"}},
        {[](Said& said) { said.graph_wanted = true; }, {"graph_wanted"}},
        {[](Said& said) { said.graph_impossible = true; }, {"graph_impossible"}},
        {[](Said& said) { said.skipped = 2; }, {}}};
    for (const auto& [say, flags] : table)
        expect_on_all_ranks(say,
                            [&, &flags = flags](const StepSums& sums) { EXPECT_EQ(flags_of(sums), flags); });
}

TEST(StepSumsOfRanks, add_up_losses_and_samples) {
    expect_on_all_ranks(
        [](Said& said) {
            said.loss = {8, 16, 10};
            said.skipped = 2;
        },
        [](const StepSums& sums) {
            EXPECT_EQ(sums.loss().loss, 9.5);
            EXPECT_EQ(sums.loss().weight, 28);
            EXPECT_EQ(sums.loss().correct, 19);
            EXPECT_EQ(sums.skipped(), 2);
        });
}

}  // namespace
}  // namespace tutti
