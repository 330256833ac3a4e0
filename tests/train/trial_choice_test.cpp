#include "trial_choice.hpp"

#include <gtest/gtest.h>

namespace tutti {
namespace {

std::size_t choose(const std::vector<TrialSeconds>& trials) {
    return choice_of(standing_of(trials));
}

TEST(OutsideOfInterval, FollowsTheBinomialDistribution) {
    // By hand: 2 · P(Binomial(n, 1/2) < k) is 6.25 % for (5, 1), 2.1 % for (10, 2), 3.5 % for (15, 4).
    EXPECT_EQ(outside_of_interval(0), 0u);
    EXPECT_EQ(outside_of_interval(4), 0u);
    EXPECT_EQ(outside_of_interval(5), 1u);
    EXPECT_EQ(outside_of_interval(10), 2u);
    EXPECT_EQ(outside_of_interval(15), 4u);
}

TEST(TrialChoice, ASlowerTrialIsNoContender) {
    const std::vector<TrialSeconds> trials{{5, 5, 5, 5, 5}, {4, 4, 4, 4, 4}, {4.5, 4.5, 4.5, 4.5, 4.5}};
    const TrialStanding standing = standing_of(trials);
    EXPECT_EQ(standing.median, (std::vector<double>{5, 4, 4.5}));
    EXPECT_EQ(standing.fastest, 1u);
    EXPECT_EQ(standing.contender, (std::vector<bool>{false, true, false}));
    EXPECT_EQ(choice_of(standing), 1u);
}

TEST(TrialChoice, SteadyDifferencesShowThroughAMachineThatBecomesSlower) {
    // Each alone varies by a factor of two; within every round the second is faster.
    const std::vector<TrialSeconds> trials{{4.1, 5.1, 6.1, 7.1, 8.1}, {4, 5, 6, 7, 8}};
    EXPECT_EQ(standing_of(trials).contender, (std::vector<bool>{false, true}));
}

TEST(TrialChoice, NoiseKeepsContenders) {
    const std::vector<TrialSeconds> trials{{4.1, 5.1, 6.1, 7.1, 7.9}, {4, 5, 6, 7, 8}};
    const TrialStanding standing = standing_of(trials);
    EXPECT_EQ(standing.contenders(), 2u);
    EXPECT_EQ(choice_of(standing), 0u);  // 6.1 against 6: the same within 2 %, so the first
}

TEST(TrialChoice, OfContendersThatDifferTheFastestIsTaken) {
    const std::vector<TrialSeconds> trials{{4.5, 5.5, 6.5, 7.5, 7.9}, {4, 5, 6, 7, 8}};
    EXPECT_EQ(standing_of(trials).contenders(), 2u);
    EXPECT_EQ(choose(trials), 1u);
}

TEST(TrialChoice, WhoWasGivenUpStaysSo) {
    const std::vector<TrialSeconds> trials{
        {3, 3, 3, 3, 3}, {4, 4, 4, 4, 4, 5, 5, 5, 5, 5}, {6, 6, 6, 6, 6, 4, 4, 4, 4, 4}};
    const TrialStanding standing = standing_of(trials);
    EXPECT_EQ(standing.contender, (std::vector<bool>{false, true, true}));
    EXPECT_EQ(standing.median.front(), 3);
    EXPECT_EQ(choice_of(standing), 1u);
}

TEST(TrialChoice, FewRoundsGiveNobodyUp) {
    EXPECT_EQ(standing_of(std::vector<TrialSeconds>{{1, 1}, {9, 9}}).contenders(), 2u);
    EXPECT_EQ(choose({{9, 9}, {1, 1}}), 1u);
    EXPECT_EQ(choose({{}}), 0u);
}

}  // namespace
}  // namespace tutti
