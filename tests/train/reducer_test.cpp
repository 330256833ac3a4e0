#include "tutti/train/reducer.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <utility>

#include "support/thread_communicator.hpp"
#include "tutti/model/zoo.hpp"

namespace tutti {
namespace {

const std::vector<Bucket> three_buckets = {{0, 1, 0, 20}, {2, 2, 32, 5}, {3, 5, 48, 40}};
constexpr std::size_t parameter_count = 6;
constexpr std::size_t arena_size = 96;

class ReducerRanks : public ::testing::TestWithParam<int> {};

TEST_P(ReducerRanks, SumsEveryBucketAndTouchesNothingElse) {
    const int ranks = GetParam();
    test::run_on_threads(ranks, [&](Communicator& communicator) {
        std::vector<float> arena(arena_size);
        for (std::size_t i = 0; i < arena_size; ++i)
            arena[i] = static_cast<float>(i) + static_cast<float>(communicator.rank());
        const std::vector<float> before = arena;
        Reducer reducer(communicator, view_of(std::span(arena)), three_buckets);
        for (std::size_t p = 0; p < parameter_count; ++p) reducer.ready(p);
        reducer.finish();
        const float rank_sum = static_cast<float>(ranks * (ranks - 1) / 2);
        for (std::size_t i = 0; i < arena_size; ++i) {
            const bool covered =
                std::any_of(three_buckets.begin(), three_buckets.end(), [&](const Bucket& b) {
                    return i >= static_cast<std::size_t>(b.offset) &&
                           i < static_cast<std::size_t>(b.offset + b.count);
                });
            const float expected =
                covered ? static_cast<float>(ranks) * static_cast<float>(i) + rank_sum : before[i];
            EXPECT_EQ(arena[i], expected) << "element " << i;
        }
    });
}

TEST_P(ReducerRanks, RanksMayBecomeReadyInDifferentOrders) {
    test::run_on_threads(GetParam(), [&](Communicator& communicator) {
        std::mt19937 random(static_cast<unsigned>(communicator.rank()));
        std::vector<double> arena(arena_size);
        Reducer reducer(communicator, view_of(std::span(arena)), three_buckets);
        for (int step = 0; step < 20; ++step) {
            std::fill(arena.begin(), arena.end(), 1.0);
            std::vector<std::size_t> order = {0, 1, 2, 3, 4, 5};
            std::shuffle(order.begin(), order.end(), random);
            for (const std::size_t p : order) reducer.ready(p);
            reducer.finish();
            EXPECT_TRUE(std::ranges::equal(reducer.ready_order(), order));
            EXPECT_EQ(arena[0], communicator.size());
            EXPECT_EQ(arena[87], communicator.size());
            EXPECT_EQ(arena[31], 1.0);
        }
    });
}

TEST_P(ReducerRanks, TakesAnotherPlanBetweenSteps) {
    const std::vector<std::vector<Bucket>> plans = {
        {{0, 5, 0, 88}}, three_buckets, {{0, 0, 0, 10}, {1, 1, 16, 4}, {2, 5, 32, 56}}};
    test::run_on_threads(GetParam(), [&](Communicator& communicator) {
        std::vector<double> arena(arena_size);
        Reducer reducer(communicator, view_of(std::span(arena)), three_buckets);
        for (const auto& plan : plans) {
            reducer.replan(plan);
            EXPECT_EQ(reducer.buckets(), plan);
            std::fill(arena.begin(), arena.end(), 1.0);
            for (std::size_t p = 0; p < parameter_count; ++p) {
                reducer.ready(p);
                reducer.poll();
            }
            reducer.finish();
            for (const Bucket& bucket : plan) {
                EXPECT_EQ(arena[static_cast<std::size_t>(bucket.offset)], communicator.size());
                EXPECT_EQ(arena[static_cast<std::size_t>(bucket.offset + bucket.count - 1)],
                          communicator.size());
            }
        }
    });
}

TEST_P(ReducerRanks, TellsOfEachBucketOnceItIsSummed) {
    test::run_on_threads(GetParam(), [&](Communicator& communicator) {
        std::vector<double> arena(arena_size, 1.0);
        Reducer reducer(communicator, view_of(std::span(arena)), three_buckets);
        for (std::size_t p = 0; p < parameter_count; ++p) reducer.ready(p);
        std::vector<Bucket> told;
        reducer.finish([&](std::size_t number) {
            const Bucket& bucket = reducer.buckets()[number];
            told.push_back(bucket);
            for (std::int64_t i = bucket.offset; i < bucket.offset + bucket.count; ++i)
                EXPECT_EQ(std::exchange(arena[static_cast<std::size_t>(i)], 0.0), communicator.size());
            reducer.poll();
        });
        EXPECT_EQ(told, three_buckets);
        for (const Bucket& bucket : three_buckets)
            EXPECT_EQ(arena[static_cast<std::size_t>(bucket.offset)], 0.0);
    });
}

TEST_P(ReducerRanks, SumsAtTheEndAndUpdatesWhatItOwnsMeanwhile) {
    const std::vector<Bucket> buckets = {{0, 1, 0, 20}, {2, 2, 36, 5}, {3, 5, 48, 40}};
    test::run_on_threads(GetParam(), [&](Communicator& communicator) {
        const int ranks = communicator.size();
        std::vector<double> gradients(arena_size), parameters(arena_size, 100.0);
        const ShardPlan shards = plan_shards(buckets, arena_size, communicator.rank(), ranks);
        Reducer reducer(communicator, view_of(std::span(gradients)), buckets, shards);
        reducer.issue_at_end(true);
        for (int step = 1; step <= 3; ++step) {
            std::ranges::fill(gradients, 1.0);
            for (std::size_t p = 0; p < parameter_count; ++p) {
                reducer.ready(p);
                reducer.poll();
            }
            EXPECT_EQ(std::ranges::count(gradients, 1.0), std::ssize(gradients)) << "nothing is issued yet";
            EXPECT_TRUE(reducer.pending());
            std::vector<ArenaRange> ranges;
            reducer.update(view_of(std::span(parameters)), [&](const ArenaRange& range) {
                ranges.push_back(range);
                for (auto i = static_cast<std::size_t>(range.offset);
                     i < static_cast<std::size_t>(range.offset + range.count); ++i)
                    parameters[i] -= gradients[i];
                reducer.poll();
            });
            EXPECT_FALSE(reducer.pending());
            EXPECT_EQ(ranges, shards.owned);
            EXPECT_EQ(parameters, std::vector<double>(arena_size, 100.0 - step * ranks));
        }
        // A step without an update: sums of what is owned.
        std::ranges::fill(gradients, 2.0);
        for (std::size_t p = 0; p < parameter_count; ++p) reducer.ready(p);
        reducer.finish();
        EXPECT_FALSE(reducer.pending());
        for (const ArenaRange& range : shards.owned)
            EXPECT_EQ(gradients[static_cast<std::size_t>(range.offset)], 2.0 * ranks);
        EXPECT_EQ(parameters, std::vector<double>(arena_size, 100.0 - 3 * ranks));
    });
}

TEST_P(ReducerRanks, SendsABucketInAsManyPiecesAsTheOrderNamesIt) {
    const std::vector<std::size_t> order{0, 2, 0, 1, 2, 0, 2};
    test::run_on_threads(GetParam(), [&](Communicator& communicator) {
        std::vector<double> arena(arena_size);
        Reducer reducer(communicator, view_of(std::span(arena)), three_buckets);
        reducer.replan(three_buckets, order);
        for (int step = 0; step < 3; ++step) {
            std::fill(arena.begin(), arena.end(), 1.0);
            for (std::size_t p = 0; p < parameter_count; ++p) {
                reducer.ready(p);
                reducer.poll();
            }
            std::vector<std::size_t> told;
            const auto summed = [&](std::size_t number) {
                told.push_back(number);
                const Bucket& bucket = reducer.buckets()[number];
                for (std::int64_t i = bucket.offset; i < bucket.offset + bucket.count; ++i)
                    EXPECT_EQ(std::exchange(arena[static_cast<std::size_t>(i)], 0.0), communicator.size())
                        << i;
            };
            // What parameter 2 needs are bucket 1 and what was issued before it, of which none is whole.
            reducer.finish_for(2, 3, summed);
            EXPECT_EQ(told, (std::vector<std::size_t>{1}));
            EXPECT_TRUE(reducer.is_finished(2, 3));
            EXPECT_FALSE(reducer.is_finished(0, 1));
            reducer.finish(summed);
            EXPECT_EQ(told, (std::vector<std::size_t>{1, 0, 2}));
            EXPECT_FALSE(reducer.pending());
            EXPECT_EQ(std::ranges::count(arena, 1.0), 96 - 20 - 5 - 40) << "the gaps";
        }
    });
}

INSTANTIATE_TEST_SUITE_P(Ranks, ReducerRanks, ::testing::Values(1, 2, 3, 4));

TEST(Reducer, RecordsThePausesBetweenPiecesOfABucket) {
    const auto device = make_cpu_device(1);
    const std::vector<std::int64_t> hidden = {4, 3};
    const Graph graph(build_mlp({4}, hidden, 2), *device, DType::f32, 1);
    ASSERT_EQ(graph.parameters().size(), parameter_count);
    constexpr double waited = 1e-3, rounding = 1e-9;
    const auto step = [&](const std::vector<std::size_t>& order, Communicator& communicator) {
        std::vector<double> arena(arena_size);
        Reducer reducer(communicator, view_of(std::span(arena)), three_buckets);
        reducer.replan(three_buckets, order);
        StepRecorder recorder(graph, 1);
        reducer.record(&recorder);
        recorder.begin_step(three_buckets.size());
        for (std::size_t p = 0; p < parameter_count; ++p) {
            // Alone it is done at once. Then others take their time until they are ready.
            reducer.poll();
            const double began = recorder.now();
            while (recorder.now() - began < waited) {
            }
            reducer.ready(p);
        }
        reducer.finish();
        return recorder.timeline();
    };
    test::run_on_threads(1, [&](Communicator& communicator) {
        EXPECT_EQ(step({0, 1, 2}, communicator).pauses, 0) << "no bucket waits";
        // Bucket 2 waits for its three gradients, but no bucket is cut then.
        EXPECT_EQ(step({0, 0, 1, 2, 2}, communicator).pauses, 0);
        // A piece of bucket 0, then 1 waited for its gradient.
        const StepTimeline once = step({0, 1, 0, 2}, communicator);
        EXPECT_GE(once.pauses, waited - rounding);
        EXPECT_LE(once.pauses, once.buckets[0].done - once.buckets[0].issued);
        // Then 2 for its three.
        const StepTimeline twice = step({0, 1, 2, 0}, communicator);
        EXPECT_GE(twice.pauses, 4 * waited - rounding);
        EXPECT_LE(twice.pauses, twice.buckets[0].done - twice.buckets[0].issued);
    });
}

TEST(Reducer, NamesTheBucketWhenAPeerIsGone) {
    std::string message;
    EXPECT_THROW(test::run_on_threads(2,
                                      [&](Communicator& communicator) {
                                          if (communicator.rank() == 1) return;
                                          std::vector<float> arena(arena_size);
                                          Reducer reducer(communicator, view_of(std::span(arena)),
                                                          three_buckets);
                                          for (std::size_t p = 0; p < parameter_count; ++p) reducer.ready(p);
                                          try {
                                              reducer.finish();
                                          } catch (const PeerError& error) {
                                              message = error.what();
                                              throw;
                                          }
                                      }),
                 PeerError);
    EXPECT_NE(message.find("bucket 0 of 3"), std::string::npos) << message;
}

}  // namespace
}  // namespace tutti
