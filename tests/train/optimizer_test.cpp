#include "tutti/train/optimizer.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "optimizers/segments.hpp"
#include "tutti/base/error.hpp"
#include "tutti/model/zoo.hpp"

namespace tutti {
namespace {

Parameter parameter(const std::string& name, const Shape& shape, std::int64_t offset) {
    return {name, {name, shape, shape, {}, {}}, offset, shape.count(), 0};
}

TEST(DecaySegments, WithDecayForAllIsOneSegment) {
    const auto segments = decay_segments({parameter("b", {5}, 0), parameter("w", {4, 5}, 16)}, 0.1, true);
    ASSERT_EQ(segments.size(), 1u);
    EXPECT_EQ(segments[0].offset, 0);
    EXPECT_EQ(segments[0].count, 36);
    EXPECT_EQ(segments[0].weight_decay, 0.1);
}

TEST(DecaySegments, WithoutDecayOfVectorsAlternates) {
    const auto segments = decay_segments({parameter("b2", {5}, 0), parameter("w2", {4, 5}, 16),
                                          parameter("b1", {4}, 48), parameter("g1", {4}, 64)},
                                         0.1, false);
    ASSERT_EQ(segments.size(), 3u);
    EXPECT_EQ(segments[0].weight_decay, 0.0);
    EXPECT_EQ(segments[1].weight_decay, 0.1);
    EXPECT_EQ(segments[2].weight_decay, 0.0);
    EXPECT_EQ(segments[2].count, 20);
}

class OptimizerArena : public ::testing::Test {
  protected:
    OptimizerArena() {
        graph_.initialize(1);
        std::fill(gradients().begin(), gradients().end(), 1.0);
    }
    std::span<double> parameters() { return graph_.parameter_arena().span<double>(); }
    std::span<double> gradients() { return graph_.gradient_arena().span<double>(); }

    static GraphSpec spec() {
        const std::vector<std::int64_t> hidden = {3};
        return build_mlp({4}, hidden, 2);
    }
    std::unique_ptr<Device> device_ = make_cpu_device(1);
    Graph graph_{spec(), *device_, DType::f64, 1};
};

TEST_F(OptimizerArena, SgdWithMomentumFollowsTheFormula) {
    OptimConfig config;
    config.momentum = 0.5;
    const auto optimizer = make_sgd(config, graph_, *device_);
    const double before = parameters()[0];
    optimizer->step(0.1, 1);
    EXPECT_NEAR(parameters()[0], before - 0.1, 1e-15);
    optimizer->step(0.1, 2);
    EXPECT_NEAR(parameters()[0], before - 0.1 - 0.15, 1e-15);
    ASSERT_EQ(optimizer->state().size(), 1u);
    EXPECT_EQ(optimizer->state()[0].name, "momentum_buffer");
    EXPECT_NEAR(optimizer->state()[0].arena.span<double>()[0], 1.5, 1e-15);
}

TEST_F(OptimizerArena, SgdWithoutMomentumHasNoState) {
    EXPECT_TRUE(make_sgd(OptimConfig{}, graph_, *device_)->state().empty());
}

TEST_F(OptimizerArena, AdamWsFirstStepIsTheLearningRate) {
    OptimConfig config;
    config.name = "adamw";
    config.weight_decay = 0;
    const double before = parameters()[0];
    const auto optimizer = make_adamw(config, graph_, *device_);
    optimizer->step(0.01, 1);
    EXPECT_NEAR(parameters()[0], before - 0.01, 1e-9);
    ASSERT_EQ(optimizer->state().size(), 2u);
}

TEST_F(OptimizerArena, VectorsAreNotDecayedWhenAsked) {
    std::fill(gradients().begin(), gradients().end(), 0.0);
    OptimConfig config;
    config.weight_decay = 0.5;
    config.decay_1d = false;
    const auto before = graph_.save();
    make_sgd(config, graph_, *device_)->step(1.0, 1);
    const auto after = graph_.save();
    for (std::size_t t = 0; t < before.size(); ++t) {
        const double was = reinterpret_cast<const double*>(before[t].bytes.data())[0];
        const double is = reinterpret_cast<const double*>(after[t].bytes.data())[0];
        EXPECT_NEAR(is, before[t].shape.rank() > 1 ? was / 2 : was, 1e-15) << before[t].name;
    }
}

TEST_F(OptimizerArena, GapsStayZero) {
    OptimConfig config;
    config.name = "adamw";
    graph_.forward(0, {});
    graph_.backward(0, {}, {});  // zeroes the gradients, gaps included
    const auto optimizer = make_adamw(config, graph_, *device_);
    for (int step = 1; step <= 3; ++step) optimizer->step(0.1, step);
    std::int64_t covered = 0;
    for (const Parameter& p : graph_.parameters()) {
        for (std::int64_t i = covered; i < p.offset; ++i)
            EXPECT_EQ(parameters()[static_cast<std::size_t>(i)], 0.0);
        covered = p.offset + p.count;
    }
}

TEST_F(OptimizerArena, PartsMakeUpAnUpdateToTheBit) {
    for (const std::string name : {"sgd", "adam", "adamw", "adadelta", "lamb"}) {
        OptimConfig config;
        config.name = name;
        config.momentum = 0.9;
        config.weight_decay = 0.1;
        config.decay_1d = false;
        const auto updated = [&](const std::vector<std::int64_t>& cuts) {
            graph_.initialize(1);
            const auto optimizer = make_optimizer(config, graph_, *device_);
            for (int step = 1; step <= 2; ++step) {
                for (std::size_t i = 0; i < gradients().size(); ++i)
                    gradients()[i] = 1.0 / static_cast<double>(i + 3);
                for (std::size_t c = 0; c + 1 < cuts.size(); ++c)
                    optimizer->step(0.1, step, {cuts[c], cuts[c + 1] - cuts[c]});
                optimizer->step(0.1, step, {.offset = cuts.back()});
            }
            return std::vector<double>(parameters().begin(), parameters().end());
        };
        const auto& all = graph_.parameters();
        const std::vector<double> whole = updated({0});
        EXPECT_EQ(updated({0, all[1].offset, all[3].offset}), whole) << name;
        EXPECT_EQ(updated({0, all[2].offset}), whole) << name;
        if (name == "lamb") continue;  // it needs whole parameters
        EXPECT_EQ(updated({0, all[1].offset + 1, all[3].offset + 2}), whole) << name;
    }
}

// Also where the ranges that are owned begin and end inside parameters.
TEST_F(OptimizerArena, EachParameterByItselfIsUpdatedLikeNeighboursTogether) {
    const auto& all = graph_.parameters();
    const std::int64_t count = graph_.parameter_arena().count();
    const OwnedRanges cut = {{1, all[1].offset + 1}, {all[3].offset + 5, count - all[3].offset - 6}};
    Ops& ops = device_->ops(DType::f64);
    std::vector<double> given(gradients().size());
    for (const Parameter& one : all)
        for (std::int64_t i = one.offset; i < one.offset + one.count; ++i)
            given[static_cast<std::size_t>(i)] = 1.0 / static_cast<double>(i + 3);
    std::copy(given.begin(), given.end(), gradients().begin());
    for (const OwnedRanges& owned : {OwnedRanges{{0, count}}, cut}) {
        OptimConfig config;
        config.momentum = 0.9;
        config.weight_decay = 0.1;
        config.decay_1d = true;
        const auto apart = owned_segments(update_segments(config, graph_, ops), owned);
        const auto together = owned_segments(decay_segments(all, config.weight_decay, true), owned);
        ASSERT_GT(apart.size(), together.size()) << "the same segments";

        const auto size = static_cast<std::size_t>(total_count(owned));
        const auto view = [](std::vector<double>& values) {
            return TensorView{reinterpret_cast<std::byte*>(values.data()),
                              DType::f64,
                              {static_cast<std::int64_t>(values.size())}};
        };
        const auto expect_same = [&](Optimizer& optimizer, const auto& update,
                                     std::vector<std::vector<double>> states) {
            graph_.initialize(1);
            for (int step = 1; step <= 3; ++step) optimizer.step(0.1, step);
            const std::vector<double> result(parameters().begin(), parameters().end());
            graph_.initialize(1);
            for (int step = 1; step <= 3; ++step)
                for (const OwnedSegment& one : together)
                    update(step, one, slice(graph_.gradient_arena(), one),
                           slice(graph_.parameter_arena(), one), states);
            EXPECT_EQ(result, std::vector<double>(parameters().begin(), parameters().end()));
            ASSERT_EQ(optimizer.state().size(), states.size());
            for (std::size_t s = 0; s < states.size(); ++s) {
                const auto state = optimizer.state()[s].arena.template span<double>();
                EXPECT_EQ(std::vector<double>(state.begin(), state.end()), states[s]);
            }
        };
        expect_same(*make_sgd(config, graph_, *device_, owned),
                    [&](int step, const OwnedSegment& one, const TensorView& gradient,
                        const TensorView& parameter, auto& states) {
                        SgdStep sgd;
                        sgd.lr = 0.1;
                        sgd.momentum = 0.9;
                        sgd.weight_decay = one.weight_decay;
                        sgd.first_step = step == 1;
                        ops.sgd(sgd, gradient, parameter, one.state(view(states[0])));
                    },
                    {std::vector<double>(size)});
        expect_same(*make_adamw(config, graph_, *device_, owned),
                    [&](int step, const OwnedSegment& one, const TensorView& gradient,
                        const TensorView& parameter, auto& states) {
                        AdamStep adam;
                        adam.lr = 0.1;
                        adam.beta1 = config.betas[0];
                        adam.beta2 = config.betas[1];
                        adam.eps = config.eps;
                        adam.weight_decay = one.weight_decay;
                        adam.decoupled = true;
                        adam.step = step;
                        ops.adam(adam, gradient, parameter, one.state(view(states[0])),
                                 one.state(view(states[1])));
                    },
                    {std::vector<double>(size), std::vector<double>(size)});
    }
}

TEST_F(OptimizerArena, AnUnknownNameIsRefused) {
    OptimConfig config;
    config.name = "lion";
    EXPECT_THROW(make_optimizer(config, graph_, *device_), UsageError);
}

}  // namespace
}  // namespace tutti
