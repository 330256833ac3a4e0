#include "tutti/train/ranking_metrics.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "training_fixture.hpp"
#include "value_gathering.hpp"

namespace tutti {
namespace {

constexpr double endless = std::numeric_limits<double>::infinity();

TEST(RankedScores, HaveTheMetricsOfCasesByHand) {
    struct Case {
        const char* name;
        std::vector<double> negative, positive;
        double average_precision, roc_auc;
    };
    const std::vector<Case> cases{
        {"perfect", {-2, -1, 0}, {1, 2}, 1, 1},
        {"worst", {1, 2}, {-1, 0}, (1.0 / 3 + 2.0 / 4) / 2, 0},
        {"all equal", {0.5, 0.5, 0.5}, {0.5}, 0.25, 0.5},
        // scikit-learn's own example: 0.1, 0.35 | 0.4, 0.8
        {"of the manual", {0.1, 0.4}, {0.35, 0.8}, 0.5 * 1 + 0.5 * (2.0 / 3), 0.75},
        // 3: one of class 1; 2: one of each; 1: two of class 0 and one of class 1.
        {"ties", {2, 1, 1}, {3, 2, 1}, (1.0 + 2.0 / 3 + 3.0 / 6) / 3, (3 + 2.5 + 1) / 9},
        {"zeros of both signs", {0.0}, {-0.0}, 0.5, 0.5},
        {"infinities", {-endless, 4}, {endless, -endless}, (1.0 + 2.0 / 4) / 2, (2 + 0.5) / 4},
        {"one of each", {-1}, {1}, 1, 1},
    };
    for (const Case& one : cases) {
        const RankedScores scores(one.negative, one.positive);
        EXPECT_TRUE(scores.defined()) << one.name;
        EXPECT_NEAR(scores.average_precision(), one.average_precision, 1e-15) << one.name;
        EXPECT_EQ(scores.roc_auc(), one.roc_auc) << one.name;
    }
}

TEST(RankedScores, OfOneClassOrOfNanHaveNone) {
    const double nan = std::nan("");
    using Scores = std::vector<double>;
    for (const auto& [negative, positive] : std::vector<std::pair<Scores, Scores>>{
             {{}, {}}, {{1, 2}, {}}, {{}, {1}}, {{1, nan}, {2}}, {{1}, {nan, 2}}}) {
        const RankedScores scores(negative, positive);
        EXPECT_FALSE(scores.defined());
        EXPECT_TRUE(std::isnan(scores.average_precision()));
        EXPECT_TRUE(std::isnan(scores.roc_auc()));
    }
}

/// Few enough different ones that many are equal.
std::pair<std::vector<double>, std::vector<double>> random_scores(std::size_t count, int distinct) {
    std::mt19937 random(7);
    std::pair<std::vector<double>, std::vector<double>> scores;
    for (std::size_t i = 0; i < count; ++i) {
        const bool positive = random() % 5 == 0;
        const auto step =
            static_cast<int>(random() % static_cast<unsigned>(distinct)) + (positive ? distinct / 4 : 0);
        (positive ? scores.second : scores.first).push_back(0.01 * step);
    }
    return scores;
}

TEST(RankedScores, AgreeWithCountingEveryPair) {
    const auto [negative, positive] = random_scores(3000, 500);
    double higher = 0, precisions = 0;
    for (const double score : positive) {
        double negatives = 0, positives = 0;
        for (const double other : negative) {
            higher += score > other ? 1 : score == other ? 0.5 : 0;
            negatives += other >= score ? 1 : 0;
        }
        for (const double other : positive) positives += other >= score ? 1 : 0;
        precisions += positives / (positives + negatives);
    }
    const auto n1 = static_cast<double>(positive.size()), n0 = static_cast<double>(negative.size());
    const RankedScores scores(negative, positive);
    EXPECT_EQ(scores.roc_auc(), higher / (n1 * n0));
    EXPECT_NEAR(scores.average_precision(), precisions / n1, 1e-12);
}

TEST(RankedScores, AgreeWithMidranksOfVeryMany) {
    const int distinct = 20000;
    const auto [negative, positive] = random_scores(100000, distinct);
    // By a histogram, from the lowest score on: Mann and Whitney's U from the sum of the ranks.
    std::vector<std::int64_t> of_0(2 * distinct), of_1(2 * distinct);
    for (const double score : negative) ++of_0[static_cast<std::size_t>(std::lround(score * 100))];
    for (const double score : positive) ++of_1[static_cast<std::size_t>(std::lround(score * 100))];
    double below = 0, rank_sum = 0;
    for (std::size_t i = 0; i < of_0.size(); ++i) {
        const auto here = static_cast<double>(of_0[i] + of_1[i]);
        rank_sum += static_cast<double>(of_1[i]) * (below + (here + 1) / 2);
        below += here;
    }
    const auto n1 = static_cast<double>(positive.size()), n0 = static_cast<double>(negative.size());
    EXPECT_EQ(RankedScores(negative, positive).roc_auc(), (rank_sum - n1 * (n1 + 1) / 2) / (n1 * n0));
}

TEST(RankedScores, HaveTheCurvesOfScikitLearn) {
    const double one = std::log(3.0), zero = 0, low = -std::log(3.0);
    const RankedScores scores({zero, low, low}, {one, zero});
    EXPECT_EQ(probability_of(0), 0.5);
    EXPECT_EQ(probability_of(1000), 1);
    EXPECT_EQ(probability_of(-1000), 0);
    EXPECT_EQ(scores.thresholds().size(), 3U);
    const std::string pr = precision_recall_csv(scores), roc = roc_csv(scores);
    EXPECT_EQ(pr.substr(0, 27), "threshold,precision,recall\n");
    EXPECT_NE(pr.find(",0.4,1\n0.5,0.6666666666666666,1\n"), std::string::npos) << pr;
    EXPECT_NE(pr.find(",1,0.5\ninf,1,0\n"), std::string::npos) << pr;
    EXPECT_EQ(roc.substr(0, 26), "threshold,fpr,tpr\ninf,0,0\n");
    EXPECT_NE(roc.find(",0,0.5\n0.5,0.3333333333333333,1\n"), std::string::npos) << roc;
    EXPECT_EQ(roc.substr(roc.size() - 5), ",1,1\n");
}

TEST(Curves, HaveScoresThemselvesWhereTheyAreNoLogits) {
    const RankedScores scores({0.25}, {0.75});
    EXPECT_EQ(precision_recall_csv(scores, ScoreScale::itself),
              "threshold,precision,recall\n0.25,0.5,1\n0.75,1,1\ninf,1,0\n");
    EXPECT_EQ(roc_csv(scores, ScoreScale::itself), "threshold,fpr,tpr\ninf,0,0\n0.75,0,1\n0.25,1,1\n");
}

TEST(GatheredValues, AreTheSameOnAnyNumberOfRanks) {
    const auto [negative, positive] = random_scores(1001, 5000);
    const RankedScores expected(negative, positive);
    for (const int ranks : {1, 2, 3, 4})
        test::run_on_threads(ranks, [&](Communicator& world) {
            const auto rank = static_cast<std::size_t>(world.rank());
            std::vector<double> mine;
            for (std::size_t i = rank; i < negative.size(); i += static_cast<std::size_t>(ranks))
                mine.push_back(negative[i]);
            // Of very different counts: the last rank has all of class 1.
            std::vector<double> of_class_0 = gather_values(world, std::move(mine));
            EXPECT_EQ(of_class_0.size(), negative.size());
            const RankedScores all(
                std::move(of_class_0),
                gather_values(world, world.rank() == ranks - 1 ? positive : std::vector<double>()));
            EXPECT_EQ(all.average_precision(), expected.average_precision());
            EXPECT_EQ(all.roc_auc(), expected.roc_auc());
            EXPECT_EQ(roc_csv(all), roc_csv(expected));
            EXPECT_TRUE(gather_values(world, {}).empty());
        });
}

}  // namespace
}  // namespace tutti
