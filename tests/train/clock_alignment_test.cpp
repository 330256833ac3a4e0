#include "clock_alignment.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "support/thread_communicator.hpp"
#include "tutti/base/steady_seconds.hpp"

namespace tutti {
namespace {

class ClockRanks : public ::testing::TestWithParam<int> {};

TEST_P(ClockRanks, OneClockIsFoundToBeOneWithinTheRoundTrip) {
    test::run_on_threads(GetParam(), [](Communicator& communicator) {
        const double before = steady_seconds();
        const ClockEstimate estimate = estimate_clock(communicator);
        EXPECT_LE(before, estimate.local);
        EXPECT_LE(estimate.local, steady_seconds());
        EXPECT_LE(std::abs(estimate.offset), estimate.round_trip / 2 + 1e-9);
        EXPECT_EQ(estimate.round_trip > 0, communicator.rank() > 0);
    });
}

INSTANTIATE_TEST_SUITE_P(Ranks, ClockRanks, ::testing::Values(1, 2, 3, 4));

TEST(AlignedClock, FollowsALinearDrift) {
    // This clock began 5 s behind and loses a tenth of a second in a hundred.
    const AlignedClock clock({100, 5, 0}, {200, 5.1, 0});
    EXPECT_DOUBLE_EQ(clock.to_rank0(100), 105);
    EXPECT_DOUBLE_EQ(clock.to_rank0(150), 155.05);
    EXPECT_DOUBLE_EQ(clock.to_rank0(200), 205.1);
}

TEST(AlignedClock, TakesTheBetterEstimateWhereTheyAreTooCloseForADrift) {
    EXPECT_DOUBLE_EQ(AlignedClock({10, 5, 0.2}, {10.5, 6, 0.1}).to_rank0(10), 16);
    EXPECT_DOUBLE_EQ(AlignedClock({10, 5, 0.1}, {10.5, 6, 0.2}).to_rank0(10.5), 15.5);
}

}  // namespace
}  // namespace tutti
