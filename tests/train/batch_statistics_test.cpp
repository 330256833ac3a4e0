// Batch normalisation over ranks: the ranks are threads, each with its part of one global batch.
#include "batch_statistics.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "support/thread_communicator.hpp"
#include "tutti/model/graph.hpp"
#include "tutti/model/layers.hpp"

namespace tutti {
namespace {

const Shape image{3, 4, 2};
constexpr std::int64_t global_batch = 7;
constexpr int steps = 3;

// Batch-norm on images and on vectors, around a residual sum.
GraphSpec network() {
    GraphSpec graph(image);
    Conv2dOptions conv;
    conv.out = 3;
    const NodeId a = graph.add("conv", make_conv2d(image, conv), {0});
    const NodeId b = graph.add("bn1", make_batch_norm2d(graph.shape(a), {}), {a});
    const NodeId r = graph.add("relu", make_relu(graph.shape(b)), {b});
    const NodeId s = graph.add("add", make_add(graph.shape(r)), {r, a});
    const NodeId f = graph.add("fc", make_linear(graph.shape(s), 4, true), {s});
    graph.add("bn2", make_batch_norm2d({4}, {}), {f});
    return graph;
}

std::vector<double> numbers(std::size_t count, unsigned seed) {
    std::mt19937 random(seed);
    std::vector<double> result(count);
    for (double& x : result) x = static_cast<double>(random()) / 2147483648.0 - 1.0;
    return result;
}

struct SyncedOutcome {
    double loss = 0;  // Σ weights·output over all steps and ranks
    std::vector<double> gradients;
    std::vector<std::byte> buffers;
    std::vector<NamedTensor> model;
};

// `steps` forward and backward passes over the samples [begin, end) of each global batch.
SyncedOutcome train(std::int64_t begin, std::int64_t end, Communicator& communicator, bool sync) {
    const auto device = make_cpu_device(1);
    Graph graph(network(), *device, DType::f64, global_batch);
    graph.initialize(1);
    BatchStatistics statistics(communicator);
    StepContext step;
    step.statistics = &statistics;
    step.sync_batch_statistics = sync;
    SyncedOutcome outcome;
    const auto in = static_cast<std::size_t>(image.count());
    const auto out = static_cast<std::size_t>(graph.output_shape().count());
    const std::int64_t n = end - begin;
    for (unsigned number = 0; number < steps; ++number) {
        const std::vector<double> x = numbers(global_batch * in, 10 + number);
        const std::vector<double> weights = numbers(global_batch * out, 20 + number);
        const auto first = static_cast<std::size_t>(begin), count = static_cast<std::size_t>(n);
        std::copy_n(x.data() + first * in, count * in, graph.input(n).as<double>());
        const TensorView y = graph.forward(n, step);
        for (std::size_t i = 0; i < count * out; ++i)
            outcome.loss += weights[first * out + i] * y.as<double>()[i];
        std::copy_n(weights.data() + first * out, count * out, graph.output_gradient(n).as<double>());
        graph.backward(n, step, {});
    }
    communicator.all_reduce(graph.gradient_arena(), ReduceOp::sum).wait();
    communicator.all_reduce(view_of(std::span(&outcome.loss, 1)), ReduceOp::sum).wait();
    outcome.gradients.assign(graph.gradient_arena().span<double>().begin(),
                             graph.gradient_arena().span<double>().end());
    const TensorView buffers = graph.buffer_arena();
    outcome.buffers.assign(buffers.data, buffers.data + buffers.count());
    outcome.model = graph.save();
    return outcome;
}

void expect_near(const std::vector<double>& values, const std::vector<double>& expected, double tolerance) {
    ASSERT_EQ(values.size(), expected.size());
    for (std::size_t i = 0; i < values.size(); ++i)
        ASSERT_NEAR(values[i], expected[i], tolerance * std::max(1.0, std::abs(expected[i])))
            << "element " << i;
}

std::vector<double> doubles(const NamedTensor& tensor) {
    const auto* first = reinterpret_cast<const double*>(tensor.bytes.data());
    return {first, first + tensor.shape.count()};
}

/// Where each rank's samples end.
using Cuts = std::vector<std::int64_t>;
class BatchStatisticsRanks : public ::testing::TestWithParam<Cuts> {
  protected:
    int ranks() const { return static_cast<int>(GetParam().size()); }
    std::int64_t begin(int rank) const {
        return rank == 0 ? 0 : GetParam()[static_cast<std::size_t>(rank) - 1];
    }
    std::int64_t end(int rank) const { return GetParam()[static_cast<std::size_t>(rank)]; }

    std::vector<SyncedOutcome> run(bool sync) const {
        std::vector<SyncedOutcome> outcomes(GetParam().size());
        test::run_on_threads(ranks(), [&](Communicator& communicator) {
            const int rank = communicator.rank();
            outcomes[static_cast<std::size_t>(rank)] = train(begin(rank), end(rank), communicator, sync);
        });
        return outcomes;
    }
};

TEST_P(BatchStatisticsRanks, SynchronizedEqualsOneRankWithTheWholeBatch) {
    const auto alone = make_single_communicator();
    const SyncedOutcome expected = train(0, global_batch, *alone, false);
    for (const SyncedOutcome& outcome : run(true)) {
        EXPECT_NEAR(outcome.loss, expected.loss, 1e-12 * std::abs(expected.loss));
        expect_near(outcome.gradients, expected.gradients, 1e-12);
        for (std::size_t i = 0; i < expected.model.size(); ++i)
            if (expected.model[i].dtype == DType::f64)
                expect_near(doubles(outcome.model[i]), doubles(expected.model[i]), 1e-12);
            else
                EXPECT_EQ(outcome.model[i].bytes, expected.model[i].bytes) << expected.model[i].name;
    }
}

TEST_P(BatchStatisticsRanks, RunningStatisticsHaveTheSameBitsOnEveryRank) {
    for (const bool sync : {false, true}) {
        const auto outcomes = run(sync);
        for (const SyncedOutcome& outcome : outcomes) EXPECT_EQ(outcome.buffers, outcomes.front().buffers);
    }
}

// Without synchronisation, the mean of what each rank alone would hold, weighted by its samples. The weights
// of the first layers do not change, so this is linear over all steps.
TEST_P(BatchStatisticsRanks, UnsynchronizedAreTheMeanOverRanksWeightedBySamples) {
    const SyncedOutcome outcome = run(false).front();
    std::vector<double> mean(3), variance(3);
    for (int rank = 0; rank < ranks(); ++rank) {
        const auto alone = make_single_communicator();
        if (begin(rank) == end(rank)) continue;
        const SyncedOutcome one = train(begin(rank), end(rank), *alone, false);
        const double weight = static_cast<double>(end(rank) - begin(rank)) / global_batch;
        for (std::size_t c = 0; c < 3; ++c) {
            mean[c] += weight * doubles(one.model[4])[c];
            variance[c] += weight * doubles(one.model[5])[c];
        }
    }
    ASSERT_EQ(outcome.model[4].name, "bn1.running_mean");
    expect_near(doubles(outcome.model[4]), mean, 1e-12);
    expect_near(doubles(outcome.model[5]), variance, 1e-12);
}

INSTANTIATE_TEST_SUITE_P(Ranks, BatchStatisticsRanks,
                         ::testing::Values(Cuts{7}, Cuts{4, 7}, Cuts{7, 7}, Cuts{0, 7}, Cuts{3, 5, 7},
                                           Cuts{6, 6, 7}, Cuts{2, 4, 6, 7}, Cuts{3, 3, 3, 7}));

TEST(BatchStatistics, NamesItselfWhenAPeerIsGone) {
    std::string message;
    EXPECT_THROW(test::run_on_threads(2,
                                      [&](Communicator& communicator) {
                                          if (communicator.rank() == 1) return;
                                          try {
                                              train(0, 2, communicator, true);
                                          } catch (const PeerError& error) {
                                              message = error.what();
                                              throw;
                                          }
                                      }),
                 PeerError);
    EXPECT_EQ(message.find("batch statistics: "), 0u) << message;
}

}  // namespace
}  // namespace tutti
