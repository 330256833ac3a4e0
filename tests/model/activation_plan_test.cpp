#include "activation_plan.hpp"

#include <gtest/gtest.h>

#include "graph_fixture.hpp"
#include "relu_fusion.hpp"

#include "tutti/model/layers.hpp"
#include "tutti/model/zoo.hpp"

namespace tutti {
namespace {

constexpr std::size_t none = ActivationPlan::none;

TEST(ActivationPlan, ReluWorksInPlaceOnALinearLayersOutput) {
    const std::vector<std::int64_t> hidden = {16};
    const GraphSpec graph = build_mlp({8}, hidden, 4);  // input, fc1, relu1, fc2
    const ActivationPlan plan = plan_activations(graph.nodes(), test::of_f32(graph), 32);
    EXPECT_EQ(plan.value[2], plan.value[1]);
    EXPECT_EQ(plan.gradient[2], plan.gradient[1]);
}

TEST(ActivationPlan, ReluOnTheInputDoesNotOverwriteIt) {
    GraphSpec graph({8});
    const NodeId relu = graph.add("relu", make_relu({8}), {0});
    graph.add("fc", make_linear({8}, 2, true), {relu});
    const ActivationPlan plan = plan_activations(graph.nodes(), test::of_f32(graph), 32);
    EXPECT_NE(plan.value[1], plan.value[0]);
}

TEST(ActivationPlan, FlattenSharesTheMemoryOfItsInput) {
    GraphSpec graph({4, 4, 2});
    Conv2dOptions options;
    options.out = 2;
    const NodeId conv = graph.add("conv", make_conv2d({4, 4, 2}, options), {0});
    const NodeId flat = graph.add("flat", make_flatten(graph.shape(conv)), {conv});
    graph.add("fc", make_linear(graph.shape(flat), 3, true, graph.shape(conv)), {flat});
    const ActivationPlan plan = plan_activations(graph.nodes(), test::of_f32(graph), 8);
    EXPECT_EQ(plan.value[2], plan.value[1]);
    EXPECT_EQ(plan.gradient[2], plan.gradient[1]);
    EXPECT_NE(plan.gradient[2], none);
}

TEST(ActivationPlan, TheInputHasNoGradient) {
    const std::vector<std::int64_t> hidden = {16};
    const GraphSpec graph = build_mlp({8}, hidden, 4);
    EXPECT_EQ(plan_activations(graph.nodes(), test::of_f32(graph), 32).gradient[0], none);
}

/// x -> fc1 -> fc2 -> + x, with `last` between fc2 and the sum.
struct Block {
    explicit Block(std::unique_ptr<Layer> last = nullptr) : spec({8}) {
        x = spec.add("stem", make_linear({8}, 8, true), {0});
        fc1 = spec.add("fc1", make_linear({8}, 8, true), {x});
        branch = fc2 = spec.add("fc2", make_linear({8}, 8, true), {fc1});
        if (last) branch = spec.add("last", std::move(last), {fc2});
        sum = spec.add("add", make_add({8}), {branch, x});
    }
    ActivationPlan plan() const { return plan_activations(spec.nodes(), test::of_f32(spec), 8); }
    GraphSpec spec;
    NodeId x, fc1, fc2, branch, sum;
};

TEST(ActivationPlan, AResidualsGradientIsTheSums) {
    const Block block;
    const ActivationPlan plan = block.plan();
    EXPECT_EQ(plan.gradient[block.fc2], plan.gradient[block.sum]);
    EXPECT_EQ(plan.gradient[block.x], plan.gradient[block.sum]);
    EXPECT_NE(plan.gradient[block.fc1], plan.gradient[block.sum]);
    EXPECT_NE(plan.scratch[block.fc1][0], none) << "a linear layer's is added by a pass of its own";
}

TEST(ActivationPlan, ThatOfALayerThatAddsItIsTheLayersOwn) {
    Block block;
    fuse_sums(block.spec.nodes());
    ASSERT_EQ(block.spec.nodes()[block.fc2].inputs, (std::vector<NodeId>{block.fc1, block.x}));
    const ActivationPlan plan = block.plan();
    EXPECT_EQ(plan.gradient[block.fc2], plan.gradient[block.sum]);
    EXPECT_EQ(plan.gradient[block.x], plan.gradient[block.fc2]);
    EXPECT_NE(plan.gradient[block.fc1], plan.gradient[block.fc2]);
    EXPECT_EQ(plan.scratch[block.fc2], (std::vector<std::size_t>{none, none}));
    EXPECT_NE(plan.value[block.fc2], plan.value[block.x]) << "others may read x";
    EXPECT_EQ(plan.value[block.sum], plan.value[block.fc2]);
}

/// x is read again by a layer that comes after the branch, and so runs backward before it.
struct LateReader {
    LateReader() : spec({8}) {
        x = spec.add("stem", make_linear({8}, 8, true), {0});
        branch = spec.add("branch", make_linear({8}, 8, true), {x});
        const NodeId late = spec.add("late", make_linear({8}, 8, true), {x});
        sum = spec.add("add", make_add({8}), {branch, x});
        spec.add("add2", make_add({8}), {sum, late});
    }
    ActivationPlan plan() const { return plan_activations(spec.nodes(), test::of_f32(spec), 8); }
    GraphSpec spec;
    NodeId x, branch, sum;
};

TEST(ActivationPlan, UnlessAnotherHasWrittenIt) {
    LateReader late;
    fuse_sums(late.spec.nodes());
    ASSERT_EQ(late.spec.nodes()[late.branch].inputs.size(), 2u);
    const ActivationPlan plan = late.plan();
    EXPECT_NE(plan.gradient[late.x], plan.gradient[late.branch]);
    EXPECT_NE(plan.scratch[late.branch][1], none);
}

TEST(ActivationPlan, ALayerThatAddsToAGradientNeedsNoScratch) {
    Block block;
    block.spec.nodes()[block.fc1].adds_gradient = true;
    EXPECT_EQ(block.plan().scratch[block.fc1][0], none);
}

TEST(ActivationPlan, WhatTheResidualsGradientBeginsWithIsNotOverwritten) {
    const Block block(make_dropout({8}, 0.5));
    const ActivationPlan plan = block.plan();
    EXPECT_EQ(plan.gradient[block.branch], plan.gradient[block.sum]);
    EXPECT_EQ(plan.gradient[block.x], plan.gradient[block.sum]);
    EXPECT_NE(plan.gradient[block.fc2], plan.gradient[block.sum]) << "dropout would write it in place";
}

/// As a linear layer with a ReLU behind it, in backward.
class Overwriting final : public Layer {
  public:
    using Layer::Layer;
    std::string kind() const override { return "overwriting"; }
    bool overwrites_output_gradient() const override { return true; }
    double forward_flops() const override { return 0; }
    double backward_flops(bool) const override { return 0; }
    void forward(const LayerCall&) override {}
    void backward(const LayerCall&) override {}
};

TEST(ActivationPlan, AResidualsGradientIsApartFromOneThatALayerOverwrites) {
    const Block block(std::make_unique<Overwriting>(Shape{8}));
    const ActivationPlan plan = block.plan();
    EXPECT_EQ(plan.gradient[block.branch], plan.gradient[block.sum]);
    EXPECT_NE(plan.gradient[block.x], plan.gradient[block.sum]);
}

TEST(ActivationPlan, AGradientIsNotSharedWithOneThatIsWrittenBefore) {
    const LateReader late;
    const ActivationPlan plan = late.plan();
    EXPECT_EQ(plan.gradient[late.branch], plan.gradient[late.sum]);
    EXPECT_NE(plan.gradient[late.x], plan.gradient[late.sum]);
}

TEST(ActivationPlan, NorHasWhatFollowsFromItWithoutParameters) {
    GraphSpec graph({4, 4, 2});
    const NodeId pool = graph.add("pool", make_max_pool2d({4, 4, 2}, {}), {0});
    const NodeId flat = graph.add("flat", make_flatten(graph.shape(pool)), {pool});
    const NodeId fc = graph.add("fc", make_linear(graph.shape(flat), 8, true, graph.shape(pool)), {flat});
    graph.add("add", make_add({8}), {fc, flat});
    const ActivationPlan plan = plan_activations(graph.nodes(), test::of_f32(graph), 8);
    EXPECT_EQ(plan.gradient[pool], none);
    EXPECT_EQ(plan.gradient[flat], none);
    EXPECT_EQ(plan.scratch[fc][0], none);
    EXPECT_EQ(plan.scratch[4][1], none);
    EXPECT_NE(plan.gradient[fc], none);
}

TEST(ActivationPlan, AValueWithTwoReadersGetsScratchForOneOfThem) {
    GraphSpec graph({8});
    const NodeId a = graph.add("a", make_linear({8}, 8, true), {0});
    graph.add("b", make_linear({8}, 8, true), {a});
    graph.add("c", make_linear({8}, 8, true), {a});
    const ActivationPlan plan = plan_activations(graph.nodes(), test::of_f32(graph), 2);
    EXPECT_NE(plan.scratch[2][0], none);  // b runs second in backward, so it adds
    EXPECT_EQ(plan.scratch[3][0], none);
}

TEST(ActivationPlan, SmallerThanKeepingEverything) {
    const GraphSpec graph = build_lenet({28, 28, 1}, 10);
    const ActivationPlan plan = plan_activations(graph.nodes(), test::of_f32(graph), 64);
    std::size_t all = 0;
    for (const auto& node : graph.nodes()) all += static_cast<std::size_t>(node.shape.count()) * 64 * 4 * 2;
    EXPECT_LT(plan.bytes, all * 7 / 10);
}

}  // namespace
}  // namespace tutti
