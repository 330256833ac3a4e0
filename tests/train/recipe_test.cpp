// Layer-wise rates, the optimizers on a graph's arenas, accumulation, the moving average.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tutti/model/zoo.hpp"
#include "tutti/train/gradient_accumulator.hpp"
#include "tutti/train/optimizer.hpp"
#include "tutti/train/weight_average.hpp"

namespace tutti {
namespace {

/// Parameters as a graph lays them out: the arena's order is the reverse of the registration.
std::vector<Parameter> registered(const std::vector<std::string>& names) {
    std::vector<Parameter> parameters;
    for (std::size_t number = names.size(); number-- > 0;) {
        const auto offset = static_cast<std::int64_t>(parameters.size()) * 8;
        parameters.push_back({names[number], {"weight", {2, 4}, {2, 4}, {}, {}}, offset, 8, number});
    }
    return parameters;
}

std::vector<double> scales(const std::vector<std::string>& names, double layer_decay) {
    std::vector<double> result;
    for (const DecaySegment& segment : parameter_segments(registered(names), 0, true, layer_decay))
        result.insert(result.begin(), segment.lr_scale);
    return result;
}

TEST(LayerDecay, OfPlainNetworksGroupsTheParametersOfAModule) {
    EXPECT_EQ(
        scales({"conv1.weight", "conv1.bias", "conv2.weight", "conv2.bias", "fc.weight", "fc.bias"}, 0.5),
        (std::vector<double>{0.25, 0.25, 0.5, 0.5, 1, 1}));
}

TEST(LayerDecay, OfTransformersGroupsByBlocks) {
    EXPECT_EQ(scales({"cls_token", "pos_embed", "patch_embed.proj.weight", "blocks.0.norm1.weight",
                      "blocks.0.attn.qkv.weight", "blocks.1.norm1.weight", "norm.weight", "head.weight"},
                     0.5),
              (std::vector<double>{0.125, 0.125, 0.125, 0.25, 0.25, 0.5, 1, 1}));
}

TEST(LayerDecay, CountsFrozenLayers) {
    const std::vector<std::string> names{"a.weight", "b.weight", "c.weight", "d.weight"};
    std::vector<Parameter> trained, frozen;
    for (const Parameter& parameter : registered(names))
        (parameter.name == "c.weight" ? frozen : trained).push_back(parameter);
    std::vector<double> result;
    for (const DecaySegment& segment : parameter_segments(trained, 0, true, 0.5, frozen))
        result.push_back(segment.lr_scale);
    EXPECT_EQ(result, (std::vector<double>{1, 0.25, 0.125}));
}

TEST(LayerDecay, KnowsBlocksInsideOtherModulesAndBeyondTheTenth) {
    EXPECT_EQ(scales({"encoder.blocks.9.fc.weight", "encoder.blocks.10.fc.weight",
                      "encoder.blocks.11.fc.weight", "myblocks.0.weight"},
                     0.5),
              (std::vector<double>{0.125, 0.25, 0.5, 1}));
}

TEST(LayerDecay, KnowsBlocksOfResidualNetworksAndOtherTransformers) {
    EXPECT_EQ(scales({"conv1.weight", "bn1.weight", "layer1.0.conv1.weight", "layer1.0.downsample.0.weight",
                      "layer1.1.conv1.weight", "layer2.0.bn1.weight", "fc.weight"},
                     0.5),
              (std::vector<double>{0.0625, 0.0625, 0.125, 0.125, 0.25, 0.5, 1}));
    EXPECT_EQ(scales({"embed.weight", "encoder.layers.0.norm1.weight", "encoder.layers.0.fc.weight",
                      "encoder.layers.1.fc.weight", "classification.weight", "offsets.weight"},
                     0.5),
              (std::vector<double>{0.125, 0.25, 0.25, 0.5, 1, 1}));
    EXPECT_EQ(scales({"layers.weight", "layer1.weight", "layer1.x.weight"}, 0.5),
              (std::vector<double>{0.25, 0.5, 1}))
        << "without numbers they are names as any other";
}

TEST(LayerDecay, Of0LeavesTheLastLayerAlone) {
    EXPECT_EQ(scales({"conv1.weight", "layer1.0.conv1.weight", "fc.weight", "fc.bias"}, 0),
              (std::vector<double>{0, 0, 1, 1}));
}

TEST(LayerDecay, Of1ChangesNothing) {
    EXPECT_EQ(scales({"a.weight", "b.weight"}, 1), (std::vector<double>{1, 1}));
    EXPECT_EQ(decay_segments(registered({"a.weight", "b.weight"}), 0.1, true, 1).size(), 1u);
    EXPECT_EQ(decay_segments(registered({"a.weight", "a.bias", "b.weight"}), 0.1, true, 0.5).size(), 2u);
}

class RecipeArena : public ::testing::Test {
  protected:
    RecipeArena() { graph_.initialize(1); }
    std::span<double> parameters() { return graph_.parameter_arena().span<double>(); }
    std::span<double> gradients() { return graph_.gradient_arena().span<double>(); }
    std::span<double> of(const TensorView& arena, std::size_t parameter) {
        const Parameter& p = graph_.parameters()[parameter];
        return arena.span<double>().subspan(static_cast<std::size_t>(p.offset),
                                            static_cast<std::size_t>(p.count));
    }
    void set_gradients(double value) {
        for (std::size_t p = 0; p < graph_.parameters().size(); ++p)
            std::ranges::fill(of(graph_.gradient_arena(), p), value);
    }
    std::vector<double> copy(std::span<const double> values) { return {values.begin(), values.end()}; }

    static GraphSpec spec() {
        const std::vector<std::int64_t> hidden = {3};
        return build_mlp({4}, hidden, 2);
    }
    std::unique_ptr<Device> device_ = make_cpu_device(1);
    Graph graph_{spec(), *device_, DType::f64, 1};
};

TEST_F(RecipeArena, EveryOptimizerHasPyTorchsStateNamesAndLeavesGapsZero) {
    const std::vector<std::pair<std::string, std::vector<std::string>>> table{
        {"sgd", {}},
        {"adam", {"exp_avg", "exp_avg_sq"}},
        {"adamw", {"exp_avg", "exp_avg_sq"}},
        {"adadelta", {"square_avg", "acc_delta"}},
        {"lamb", {"exp_avg", "exp_avg_sq"}}};
    for (const auto& [name, states] : table) {
        OptimConfig config;
        config.name = name;
        config.weight_decay = 0.1;
        const auto optimizer = make_optimizer(config, graph_, *device_);
        for (int step = 1; step <= 3; ++step) {
            set_gradients(0.5);
            optimizer->step(0.1, step);
        }
        std::vector<std::string> found;
        for (const Optimizer::State& state : optimizer->state()) found.push_back(state.name);
        EXPECT_EQ(found, states) << name;
        std::int64_t covered = 0;
        for (const Parameter& p : graph_.parameters()) {
            for (std::int64_t i = covered; i < p.offset; ++i)
                EXPECT_EQ(parameters()[static_cast<std::size_t>(i)], 0.0) << name;
            covered = p.offset + p.count;
        }
    }
}

TEST_F(RecipeArena, AdamDecaysThroughTheGradientAndAdamWBesideIt) {
    OptimConfig config;
    config.weight_decay = 0.5;
    for (const bool decoupled : {false, true}) {
        graph_.initialize(1);
        const double before = parameters()[0];
        set_gradients(0);
        (decoupled ? make_adamw(config, graph_, *device_) : make_adam(config, graph_, *device_))
            ->step(0.01, 1);
        // Through the moments the first step is ±lr, whatever the size of the gradient.
        const double expected = decoupled ? before * (1 - 0.01 * 0.5) : before - std::copysign(0.01, before);
        EXPECT_NEAR(parameters()[0], expected, 1e-8);  // eps
    }
}

TEST_F(RecipeArena, LambScalesEachParameterByItsOwnTrustRatio) {
    OptimConfig config;
    config.name = "lamb";
    const auto before = copy(parameters());
    set_gradients(2);
    make_lamb(config, graph_, *device_)->step(0.1, 1);
    for (std::size_t p = 0; p < graph_.parameters().size(); ++p) {
        const auto now = of(graph_.parameter_arena(), p);
        double squares = 0;
        for (std::size_t i = 0; i < now.size(); ++i) {
            const double was = before[static_cast<std::size_t>(graph_.parameters()[p].offset) + i];
            squares += was * was;
        }
        // Without decay all entries of the first update are equal, so each moves by lr·‖p‖/√n.
        const double step = 0.1 * std::sqrt(squares / static_cast<double>(now.size()));
        for (std::size_t i = 0; i < now.size(); ++i)
            EXPECT_NEAR(now[i], before[static_cast<std::size_t>(graph_.parameters()[p].offset) + i] - step,
                        1e-9);
    }
}

TEST_F(RecipeArena, LayerDecaySlowsTheFirstLayerInEveryOptimizer) {
    for (const char* name : {"sgd", "adam", "adamw", "adadelta", "lamb"}) {
        OptimConfig config;
        config.name = name;
        std::vector<double> moves[2];
        for (const double decay : {1.0, 0.25}) {
            config.layer_decay = decay;
            graph_.initialize(1);
            const auto before = copy(parameters());
            set_gradients(0.5);
            make_optimizer(config, graph_, *device_)->step(0.1, 1);
            for (std::size_t i = 0; i < before.size(); ++i)
                moves[decay == 1 ? 0 : 1].push_back(parameters()[i] - before[i]);
        }
        for (const Parameter& p : graph_.parameters()) {
            const double factor = p.name.starts_with("fc1.") ? 0.25 : 1.0;
            const auto at = static_cast<std::size_t>(p.offset);
            EXPECT_NEAR(moves[1][at], factor * moves[0][at], 1e-12) << name << " " << p.name;
        }
    }
}

TEST_F(RecipeArena, LayerDecayOf0LeavesTheFirstLayerToTheBitInEveryOptimizer) {
    for (const char* name : {"sgd", "adam", "adamw", "adadelta", "lamb"}) {
        OptimConfig config;
        config.name = name;
        config.layer_decay = 0;
        config.weight_decay = 0.1;
        graph_.initialize(1);
        const auto before = copy(parameters());
        const auto optimizer = make_optimizer(config, graph_, *device_);
        for (const int step : {1, 2}) {
            set_gradients(0.5);
            optimizer->step(0.1, step);
        }
        for (const Parameter& p : graph_.parameters())
            for (std::int64_t i = p.offset; i < p.offset + p.count; ++i) {
                const auto at = static_cast<std::size_t>(i);
                EXPECT_EQ(parameters()[at] == before[at], p.name.starts_with("fc1."))
                    << name << " " << p.name;
            }
    }
}

TEST_F(RecipeArena, AccumulatedGradientsAreTheSumOfAllMicroBatches) {
    GradientAccumulator accumulator(graph_, *device_, true);
    for (int update = 0; update < 2; ++update) {  // the second one finds the first one's rest
        for (const double value : {1.0, 20.0, 300.0}) {
            set_gradients(value);
            accumulator.take();
        }
        set_gradients(4000);
        for (std::size_t p = 0; p < graph_.parameters().size(); ++p) accumulator.add_to(p);
        accumulator.finish();
        for (std::size_t p = 0; p < graph_.parameters().size(); ++p)
            for (const double value : of(graph_.gradient_arena(), p)) EXPECT_EQ(value, 4321.0);
    }
}

TEST_F(RecipeArena, OneMicroBatchNeedsNoMemoryAndChangesNothing) {
    GradientAccumulator accumulator(graph_, *device_, false);
    EXPECT_EQ(accumulator.bytes(), 0u);
    set_gradients(3);
    accumulator.add_to(0);
    accumulator.finish();
    EXPECT_EQ(of(graph_.gradient_arena(), 0)[0], 3.0);
}

TEST(EmaDecay, BeginsWithTheFirstStepsWeights) {
    EXPECT_EQ(ema_decay({.decay = 0.9}, 1), 0.0);
    EXPECT_EQ(ema_decay({.decay = 0.9}, 2), 0.9);
    EXPECT_EQ(ema_decay({.decay = 0.9}, 1000), 0.9);
}

TEST(EmaDecay, WarmsUpAsTimmsModelEmaV3) {
    const EmaConfig config{.decay = 0.999, .warmup = true};
    EXPECT_EQ(ema_decay(config, 1), 0.0);
    EXPECT_NEAR(ema_decay(config, 2), 1 - std::pow(2.0, -2.0 / 3), 1e-15);  // step 1 after update 0
    EXPECT_NEAR(ema_decay(config, 8), 0.75, 1e-15);
    EXPECT_EQ(ema_decay(config, 1'000'000), 0.999);
}

TEST(WeightAverage, ThatWillMostlyBeTheFirstWeightsIsDoubted) {
    EXPECT_EQ(
        doubt_about_average({.decay = 0.9999}, 150),
        "train.ema with decay 0.9999: after the run's 150 updates 99 % of the averaged weights, which "
        "evaluations use, are still those after the first one; set its decay to 0.93, or its warmup to true, "
        "or train longer");
    EXPECT_NE(doubt_about_average({.decay = 0.99999}, 20000).find("set its decay to 0.9995,"),
              std::string::npos);
    EXPECT_NE(doubt_about_average({.decay = 0.999}, 10).find("; leave train.ema out"), std::string::npos);
    EXPECT_EQ(doubt_about_average({.decay = 0.93}, 150), "");
    EXPECT_EQ(doubt_about_average({.decay = 0.999}, 2400), "");
    EXPECT_EQ(doubt_about_average({.decay = 0.9999, .warmup = true}, 150), "");
    EXPECT_EQ(doubt_about_average({.decay = 0.9999}, 1), "") << "it begins with them";
    EXPECT_EQ(doubt_about_average({.decay = 0}, 1000), "");
}

TEST_F(RecipeArena, TheAverageFollowsTheWeights) {
    WeightAverage average({.decay = 0.75}, graph_, *device_);
    parameters()[0] = 8;
    average.restart();
    EXPECT_EQ(average.arena().span<double>()[0], 8.0);
    parameters()[0] = 4;
    average.update(1);
    EXPECT_EQ(average.arena().span<double>()[0], 4.0);
    parameters()[0] = 12;
    average.update(2);
    EXPECT_EQ(average.arena().span<double>()[0], 6.0);  // 0.75·4 + 0.25·12
}

TEST_F(RecipeArena, TheAverageIsInTheGraphOnlyWhileItIsInUse) {
    WeightAverage average({}, graph_, *device_);
    average.restart();
    parameters()[0] = 5;
    const auto weights = copy(parameters());
    const auto averaged = copy(average.arena().span<double>());
    {
        const WeightAverage::InUse in_use(average);
        EXPECT_EQ(copy(parameters()), averaged);
    }
    EXPECT_EQ(copy(parameters()), weights);
    EXPECT_EQ(copy(average.arena().span<double>()), averaged);
}

}  // namespace
}  // namespace tutti
