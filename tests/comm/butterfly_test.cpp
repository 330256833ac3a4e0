#include "butterfly_check.hpp"

#include <cmath>

#include "thread_communicator.hpp"

namespace tutti::test {
namespace {

TEST(ButterflySum, HasTheBitsOfTheTreeOnRanksThatAreThreads) {
    for (const int ranks : {1, 2, 3, 4, 8}) run_on_threads(ranks, expect_butterfly);
}

TEST(ButterflySum, OfOneRankIsWhatItHas) {
    std::vector<float> values{0.1F, -0.0F};
    butterfly_sum(*make_single_communicator(), view_of(std::span(values)));
    EXPECT_EQ(values[0], 0.1F);
    EXPECT_TRUE(std::signbit(values[1]));
}

TEST(Exchange, RefusesPeersAndBuffersThatDoNotFit) {
    run_on_threads(2, [](Communicator& world) {
        std::vector<float> two(2), three(3);
        EXPECT_THROW(world.exchange(view_of(std::span(two)), view_of(std::span(three)), 1 - world.rank()),
                     UsageError);
        EXPECT_THROW(world.exchange(view_of(std::span(two)), view_of(std::span(two)), world.rank()),
                     UsageError);
        EXPECT_THROW(world.exchange(view_of(std::span(two)), view_of(std::span(two)), 2), UsageError);
    });
}

}  // namespace
}  // namespace tutti::test
