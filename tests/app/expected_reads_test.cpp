#include "expected_reads.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace tutti::test {
namespace {

Config config(std::int64_t epochs, std::optional<std::int64_t> max_steps = {}) {
    Config config;
    config.train.batch_size = 10;
    config.train.epochs = epochs;
    config.train.max_steps = max_steps;
    return config;
}

TEST(TrainingReads, AreThoseOfAllEpochs) {
    EXPECT_EQ(training_reads(config(3), 1005, 2), 3015);
    EXPECT_EQ(training_reads(config(0), 1005, 2), 0);
    EXPECT_EQ(training_reads(config(3), 0, 2), 0);
}

TEST(TrainingReads, EndWithTheLastStep) {
    Config few = config(3, 7);
    EXPECT_EQ(training_reads(few, 1005, 2), 7 * 10 * 2);
    few.train.accumulate = 4;
    EXPECT_EQ(training_reads(few, 1005, 2), 7 * 10 * 2 * 4);
    EXPECT_EQ(training_reads(config(3, 1000), 1005, 2), 3015) << "the epochs end before";
}

TEST(TrainingReads, HaveNoLargestNumber) {
    constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
    EXPECT_GT(training_reads(config(most, most), most, 1000), 9e18);
}

TEST(ValidationReads, AreOfEveryEvaluation) {
    Config every_second = config(7);
    every_second.train.eval_every.count = 2;
    EXPECT_EQ(validation_reads(every_second, 1000, 50, 1), 150);
    every_second.train.max_steps = 410;  // 4.1 epochs
    EXPECT_EQ(validation_reads(every_second, 1000, 50, 1), 100);
}

TEST(ValidationReads, AreAtLeastThoseOfTheOneAtTheEnd) {
    EXPECT_EQ(validation_reads(config(7, 3), 1000, 50, 1), 50);
    EXPECT_EQ(validation_reads(config(7), 0, 50, 1), 50);
    Config at_end = config(7);
    at_end.train.eval_every.count = 0;
    EXPECT_EQ(validation_reads(at_end, 1000, 50, 1), 50);
}

TEST(ValidationReads, FollowUpdatesWhereTheseAreCounted) {
    Config by_steps = config(7);  // 7000 samples
    by_steps.train.batch_size = 25;
    by_steps.train.accumulate = 2;
    by_steps.train.eval_every = {10, Interval::Unit::steps};
    EXPECT_EQ(validation_reads(by_steps, 1000, 50, 2), 7 * 50);
    by_steps.train.max_steps = 39;
    EXPECT_EQ(validation_reads(by_steps, 1000, 50, 2), 3 * 50);
}

TEST(ReadsOnHost, FollowTheRanksOfTheHost) {
    const std::vector<std::string> hosts{"a", "b", "b", "b"};
    std::vector<RankPlace> places(4);
    for (std::size_t i = 0; i < 4; ++i) places[i].host = hosts[i];
    EXPECT_EQ(reads_on_host(1000, places, 0), 250);
    EXPECT_EQ(reads_on_host(1000, places, 2), 750);
    EXPECT_EQ(reads_on_host(1001, std::span(places).first(1), 0), 1001) << "a host alone reads all";
    EXPECT_EQ(reads_on_host(1001, std::span(places).subspan(1), 2), 1001);
}

}  // namespace
}  // namespace tutti::test
