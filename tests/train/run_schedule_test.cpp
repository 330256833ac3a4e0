#include "run_schedule.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace tutti::test {
namespace {

class RunScheduleTest : public testing::Test {
  protected:
    RunScheduleTest() {
        train_.epochs = 6;
        train_.eval_every = {2, Interval::Unit::epochs};
        train_.checkpoint.every = {0, Interval::Unit::epochs};
        train_.checkpoint.best.clear();
    }
    RunSchedule schedule(bool validates = true) const { return {train_, validates}; }
    /// Those of 1 to 7 for which this holds.
    template <class Holds>
    static std::vector<std::int64_t> where(const Holds& holds) {
        std::vector<std::int64_t> found;
        for (std::int64_t i = 1; i <= 7; ++i)
            if (holds(i)) found.push_back(i);
        return found;
    }
    using Numbers = std::vector<std::int64_t>;
    TrainConfig train_;
};

TEST_F(RunScheduleTest, EndsByEpochsOrUpdates) {
    EXPECT_FALSE(schedule().is_over(5, 1'000'000));
    EXPECT_TRUE(schedule().is_over(6, 0));
    train_.max_steps = 10;
    EXPECT_FALSE(schedule().is_over(5, 9));
    EXPECT_TRUE(schedule().is_over(0, 10));
    EXPECT_TRUE(schedule().reaches_max_steps(11));
    EXPECT_FALSE(schedule().reaches_max_steps(9));
}

TEST_F(RunScheduleTest, KnowsHowManyUpdatesTheRunWillHave) {
    EXPECT_EQ(schedule().total_steps(0, 0, 0, 10), 60);
    EXPECT_EQ(schedule().total_steps(2, 25, 5, 10), 60);
    EXPECT_EQ(schedule().total_steps(6, 60, 0, 10), 60);
    EXPECT_EQ(schedule().total_steps(2, 43, 3, 20), 120) << "40 updates were made with other batches";
    train_.max_steps = 50;
    EXPECT_EQ(schedule().total_steps(2, 25, 5, 10), 50);
    train_.max_steps = 61;
    EXPECT_EQ(schedule().total_steps(2, 25, 5, 10), 60);
    train_.max_steps.reset();
    train_.epochs = std::numeric_limits<std::int64_t>::max();
    EXPECT_EQ(schedule().total_steps(0, 0, 0, 1000), 9'000'000'000'000'000) << "more than fits an integer";
}

TEST_F(RunScheduleTest, EvaluatesEverySoManyEpochs) {
    train_.epochs = 5;
    const auto every = [&] { return where([&](auto epoch) { return schedule().evaluates_after(epoch); }); };
    EXPECT_EQ(every(), (Numbers{2, 4, 6}));
    EXPECT_EQ(where([&](auto epoch) { return schedule().evaluates_at_end_of(epoch); }),
              (Numbers{2, 4, 5, 6, 7}));
    EXPECT_FALSE(schedule().evaluates_after(0)) << "nothing has been trained";
    EXPECT_FALSE(schedule(false).evaluates_after(2)) << "on nothing";
    EXPECT_FALSE(schedule(false).evaluates_at_end_of(5));
    train_.eval_every.count = 0;
    EXPECT_EQ(every(), Numbers());
}

TEST_F(RunScheduleTest, EvaluatesEverySoManyUpdates) {
    train_.eval_every = {3, Interval::Unit::steps};
    const auto steps = [&] { return where([&](auto n) { return schedule().evaluates_after_step(n); }); };
    EXPECT_EQ(steps(), (Numbers{3, 6}));
    EXPECT_FALSE(schedule().evaluates_after_step(0)) << "nothing has been trained";
    EXPECT_FALSE(schedule(false).evaluates_after_step(3)) << "on nothing";
    EXPECT_EQ(where([&](auto epoch) { return schedule().evaluates_after(epoch); }), Numbers());
    EXPECT_EQ(where([&](auto epoch) { return schedule().evaluates_at_end_of(epoch); }), (Numbers{6, 7}));
    EXPECT_TRUE(schedule().next(1, 5, false).evaluates);
    EXPECT_FALSE(schedule().next(1, 6, true).evaluates);
    train_.eval_every = {3, Interval::Unit::epochs};
    EXPECT_EQ(steps(), Numbers());
}

TEST_F(RunScheduleTest, SavesByEpochsUpdatesOrMinutes) {
    const auto epochs = [&] { return where([&](auto n) { return schedule().saves_after_epoch(n); }); };
    const auto steps = [&] { return where([&](auto n) { return schedule().saves_after_step(n); }); };
    EXPECT_EQ(epochs(), Numbers()) << "never";
    train_.checkpoint.every = {3, Interval::Unit::epochs};
    EXPECT_EQ(epochs(), (Numbers{3, 6}));
    EXPECT_EQ(steps(), Numbers());
    EXPECT_EQ(schedule().minutes_between_saves(), std::nullopt);
    train_.checkpoint.every = {2, Interval::Unit::steps};
    EXPECT_EQ(epochs(), Numbers());
    EXPECT_EQ(steps(), (Numbers{2, 4, 6}));
    train_.checkpoint.every = {0.5, Interval::Unit::minutes};
    EXPECT_EQ(epochs(), Numbers());
    EXPECT_EQ(steps(), Numbers());
    EXPECT_EQ(schedule().minutes_between_saves(), 0.5);
}

TEST_F(RunScheduleTest, KnowsWhatTheNextUpdateBrings) {
    struct Row {
        std::int64_t epochs, steps;
        bool ends_epoch, is_last, evaluates, saves;
    };
    const auto expect = [&](const std::vector<Row>& rows) {
        for (const Row& row : rows) {
            SCOPED_TRACE(testing::Message()
                         << row.epochs << " epochs, " << row.steps << " updates, ends " << row.ends_epoch);
            const auto next = schedule().next(row.epochs, row.steps, row.ends_epoch);
            EXPECT_EQ(next.is_last, row.is_last);
            EXPECT_EQ(next.evaluates, row.evaluates);
            EXPECT_EQ(next.saves, row.saves);
        }
    };
    train_.checkpoint.every = {3, Interval::Unit::epochs};
    train_.max_steps = 100;
    expect({{1, 20, false, false, false, false},
            {1, 20, true, false, true, false},
            {2, 20, true, false, false, true},
            {5, 20, true, true, true, true},
            {5, 20, false, false, false, false},
            {2, 99, false, true, true, false}});
    train_.checkpoint.every = {0, Interval::Unit::epochs};
    train_.checkpoint.best = "val/loss";
    train_.checkpoint.best_from = 4;
    expect({{1, 20, true, false, true, false},
            {3, 20, true, false, true, true},
            {3, 99, false, true, true, false},
            {4, 99, false, true, true, true}});
    train_.checkpoint.every = {5, Interval::Unit::minutes};
    expect({{1, 20, false, false, false, true}});
}

TEST(DoubtAboutEvaluations, IsOfManyTimesTheEpochsOfTheRun) {
    TrainConfig train;
    train.epochs = 3;
    train.eval_every = {500, Interval::Unit::epochs};
    EXPECT_EQ(doubt_about_evaluations(train, true),
              "train.eval_every is 500 epochs, and the run ends after 3: it is evaluated at its end alone; "
              "for every "
              "500 updates write train.eval_every=\"500 steps\", for the end alone 0");
    EXPECT_EQ(doubt_about_evaluations(train, false), "");
    for (const Interval every : {Interval{500, Interval::Unit::steps}, Interval{30, Interval::Unit::epochs},
                                 Interval{0, Interval::Unit::epochs}}) {
        train.eval_every = every;
        EXPECT_EQ(doubt_about_evaluations(train, true), "");
    }
    train.epochs = 0;
    train.eval_every = {10, Interval::Unit::epochs};
    EXPECT_EQ(doubt_about_evaluations(train, true), "");
}

}  // namespace
}  // namespace tutti::test
