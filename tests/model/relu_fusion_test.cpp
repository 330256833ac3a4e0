#include "relu_fusion.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>

#include "graph_fixture.hpp"
#include "tutti/model/layers.hpp"
#include "tutti/model/zoo.hpp"

namespace tutti {
namespace {

using test::fill_random;
using test::GradientCheck;

// The names of the ReLUs that a neighbour applies.
std::vector<std::string> fused_relus(GraphSpec spec, DType type = DType::f64) {
    const auto device = make_cpu_device(1);
    fuse_relus(spec.nodes(), device->ops({type}));
    std::vector<std::string> names;
    for (const auto& node : spec.nodes())
        if (node.layer && node.layer->kind() == "relu" && node.layer->is_view()) names.push_back(node.name);
    return names;
}

Conv2dOptions three_by_three(std::int64_t out) {
    Conv2dOptions conv;
    conv.out = out;
    conv.kernel_h = conv.kernel_w = 3;
    conv.padding_h = conv.padding_w = 1;
    return conv;
}

TEST(ReluFusion, PoolingAndNormsAndSumsTakeTheirRelus) {
    EXPECT_EQ(fused_relus(build_lenet({12, 12, 1}, 4)), (std::vector<std::string>{"relu1", "relu2"}));
    const auto resnet = fused_relus(build_resnet("resnet18", {32, 32, 3}, "imagenet", 4));
    EXPECT_EQ(resnet.size(), 17u) << "one behind the stem, two in each block";
    EXPECT_EQ(resnet.front(), "relu");
    EXPECT_EQ(resnet[2], "layer1.0.relu");
}

TEST(SumFusion, NormsTakeTheSumsOfAResnetAndTheirRelus) {
    GraphSpec spec = build_resnet("resnet18", {32, 32, 3}, "cifar", 4);
    fuse_sums(spec.nodes());
    std::size_t sums = 0, norms_with_residual = 0;
    for (const auto& node : spec.nodes()) {
        if (!node.layer) continue;
        sums += node.layer->kind() == "add" && node.layer->is_view();
        norms_with_residual += node.layer->kind() == "batch_norm2d" && node.inputs.size() == 2;
    }
    EXPECT_EQ(sums, 8u) << "one in each block";
    EXPECT_EQ(norms_with_residual, 8u);
    EXPECT_EQ(fused_relus(std::move(spec)).size(), 17u) << "one behind the stem, two in each block";
}

TEST(SumFusion, LinearLayersTakeTheSumsOfATransformer) {
    GraphSpec spec = build_vit({8, 8, 1}, {.patch = 4, .dim = 8, .depth = 2, .heads = 2}, 4);
    fuse_sums(spec.nodes());
    std::vector<std::string> takers;
    for (const auto& node : spec.nodes())
        if (node.layer && node.layer->kind() == "linear" && node.inputs.size() == 2)
            takers.push_back(node.name);
    EXPECT_EQ(takers, (std::vector<std::string>{"blocks.0.attn.proj", "blocks.0.mlp.fc2",
                                                "blocks.1.attn.proj", "blocks.1.mlp.fc2"}));
}

TEST(SumFusion, ANormThatOthersReadKeepsItsOutput) {
    GraphSpec spec({4, 4, 2});
    const NodeId norm = spec.add("bn", make_batch_norm2d({4, 4, 2}, {}), {0});
    const NodeId pool = spec.add("pool", make_max_pool2d({4, 4, 2}, {}), {norm});
    spec.add("add", make_add({4, 4, 2}), {norm, 0});
    fuse_sums(spec.nodes());
    EXPECT_EQ(spec.nodes()[norm].inputs.size(), 1u);
    EXPECT_NE(pool, norm);
}

TEST(ReluFusion, ALayerThatOthersReadKeepsItsOutput) {
    GraphSpec spec({4, 4, 2});
    const NodeId norm = spec.add("bn", make_batch_norm2d({4, 4, 2}, {}), {0});
    const NodeId relu = spec.add("relu", make_relu({4, 4, 2}), {norm});
    spec.add("add", make_add({4, 4, 2}), {relu, norm});
    EXPECT_TRUE(fused_relus(std::move(spec)).empty());
}

TEST(ReluFusion, AReluThatOthersReadIsNotThePoolings) {
    GraphSpec spec({4, 4, 2});
    const NodeId conv = spec.add("conv", make_conv2d({4, 4, 2}, three_by_three(2)), {0});
    const NodeId relu = spec.add("relu", make_relu({4, 4, 2}), {conv});
    const NodeId pool = spec.add("pool", make_max_pool2d({4, 4, 2}, {}), {relu});
    const NodeId other = spec.add("other", make_max_pool2d({4, 4, 2}, {}), {relu});
    spec.add("add", make_add({2, 2, 2}), {pool, other});
    EXPECT_TRUE(fused_relus(std::move(spec)).empty());
}

TEST(ReluFusion, KeptValuesStayWhatTheyAre) {
    for (const NodeId kept : {NodeId{1}, NodeId{2}}) {
        GraphSpec spec({4, 4, 2});
        const NodeId norm = spec.add("bn", make_batch_norm2d({4, 4, 2}, {}), {0});
        const NodeId relu = spec.add("relu", make_relu({4, 4, 2}), {norm});
        spec.add("pool", make_max_pool2d({4, 4, 2}, {}), {relu});
        spec.keep(kept);
        const auto device = make_cpu_device(1);
        Graph graph(std::move(spec), *device, DType::f64, 3);
        graph.initialize(1);
        fill_random(graph.input(3), 2);
        graph.forward(3, {});
        const auto values = graph.value(kept, 3).span<double>();
        const bool has_negative = std::ranges::any_of(values, [](double x) { return x < 0; });
        EXPECT_EQ(has_negative, kept == norm);
    }
}

TEST(ReluFusion, LinearLayersTakeTheirRelusWhereTheOperationsHaveBothInOne) {
    const std::vector<std::int64_t> hidden = {6, 5};
    const auto device = make_cpu_device(1);
    const bool takes = device->ops({DType::f32}).relu_linear({.in = 7, .out = 6}) != nullptr;
    EXPECT_EQ(fused_relus(build_mlp({7}, hidden, 3), DType::f32).size(), takes ? 2u : 0u);
    EXPECT_TRUE(fused_relus(build_mlp({7}, hidden, 3), DType::f64).empty());
}

// Behind the input: nothing to fuse, and nothing that breaks.
TEST(ReluFusion, OtherNeighboursAreLeftAlone) {
    GraphSpec spec({4});
    spec.add("relu", make_relu({4}), {0});
    EXPECT_TRUE(fused_relus(std::move(spec)).empty());
}

// A residual block between a stem with overlapping windows and a pool: everything that fuses.
GraphSpec residual_network(const Shape& image) {
    GraphSpec spec(image);
    NodeId last = spec.input();
    const auto append = [&](const char* name, std::unique_ptr<Layer> layer) {
        return last = spec.add(name, std::move(layer), {last});
    };
    append("conv1", make_conv2d(image, three_by_three(3)));
    append("bn1", make_batch_norm2d(spec.shape(last), {}));
    append("relu1", make_relu(spec.shape(last)));
    Pool2dOptions overlapping;
    overlapping.kernel_h = overlapping.kernel_w = 3;
    overlapping.stride_h = overlapping.stride_w = 1;
    overlapping.padding_h = overlapping.padding_w = 1;
    const NodeId shortcut = append("pool1", make_max_pool2d(spec.shape(last), overlapping));
    append("conv2", make_conv2d(spec.shape(last), three_by_three(3)));
    append("bn2", make_batch_norm2d(spec.shape(last), {}));
    append("relu2", make_relu(spec.shape(last)));
    append("conv3", make_conv2d(spec.shape(last), three_by_three(3)));
    const NodeId branch = append("bn3", make_batch_norm2d(spec.shape(last), {}));
    last = spec.add("add", make_add(spec.shape(last)), {branch, shortcut});
    append("relu3", make_relu(spec.shape(last)));
    append("conv4", make_conv2d(spec.shape(last), three_by_three(2)));
    append("relu4", make_relu(spec.shape(last)));
    append("pool4", make_max_pool2d(spec.shape(last), {}));
    return spec;
}

// What a training step and an evaluation leave, as bytes; keeping every value prevents all fusion.
std::string bits_of(GraphSpec spec, DType type, bool fuse, bool recompute, double special, int threads = 1) {
    if (!fuse)
        for (NodeId node = 0; node < spec.nodes().size(); ++node) spec.keep(node);
    // Pooling is left alone: convolution and pooling in one have other bits.
    for (NodeId node = 1; node < spec.nodes().size(); ++node)
        if (spec.nodes()[node].layer->kind() == "conv2d") spec.keep(node);
    const auto device = make_cpu_device(threads);
    Graph graph(std::move(spec), *device, type, 5, recompute);
    graph.initialize(4);
    std::string bits;
    const auto append = [&](const TensorView& view) {
        bits.append(reinterpret_cast<const char*>(view.data), view.bytes());
    };
    for (const std::int64_t batch : {5, 1, 0, 3}) {
        const std::vector<std::int64_t> positions(static_cast<std::size_t>(batch), 6);
        StepContext step;
        step.positions = positions;
        fill_random(graph.input(batch), 7);
        if (batch == 3 && type == DType::f32)
            graph.input(batch).span<float>()[5] = static_cast<float>(special);
        append(graph.forward(batch, step));
        fill_random(graph.output_gradient(batch), 8);
        graph.backward(batch, step, {});
        append(graph.gradient_arena());
    }
    append(graph.buffer_arena());
    StepContext evaluation;
    evaluation.phase = Phase::evaluate;
    fill_random(graph.input(2), 9);
    append(graph.forward(2, evaluation));
    return bits;
}

TEST(ReluFusion, GivesTheSameBits) {
    const std::vector<std::function<GraphSpec()>> models = {[] {
                                                                return build_lenet({12, 12, 1}, 4);
                                                            },
                                                            [] {
                                                                return build_mnist({12, 12, 1}, 4);
                                                            },
                                                            [] {
                                                                return residual_network({8, 8, 3});
                                                            }};
    constexpr double infinity = std::numeric_limits<double>::infinity();
    for (const auto& make : models)
        for (const DType type : {DType::f64, DType::f32})
            for (const bool recompute : {false, true})
                for (const double special : {0.5, infinity}) {
                    // Not EXPECT_EQ, which would print megabytes.
                    EXPECT_TRUE(bits_of(make(), type, true, recompute, special) ==
                                bits_of(make(), type, false, recompute, special));
                }
}

// Of linear layers, with widths that threads deal among each other and others.
TEST(ReluFusion, OfLinearLayersGivesTheSameBitsWithAnyNumberOfThreads) {
    const std::vector<std::int64_t> hidden = {512, 288, 9};
    for (const int threads : {1, 2, 3})
        for (const bool recompute : {false, true})
            for (const double special : {0.5, std::numeric_limits<double>::infinity()})
                EXPECT_TRUE(
                    bits_of(build_mlp({520}, hidden, 3), DType::f32, true, recompute, special, threads) ==
                    bits_of(build_mlp({520}, hidden, 3), DType::f32, false, recompute, special, threads));
    make_cpu_device(1);
}

TEST(ReluFusion, GradientsAgreeWithFiniteDifferences) {
    GradientCheck(residual_network({4, 4, 2}), 3).expect_gradients(1e-6);
}

// The convolutions' outputs are not kept for backward.
TEST(ReluFusion, PooledRelusTakeLessMemory) {
    const auto device = make_cpu_device(1);
    GraphSpec plain = build_lenet({28, 28, 1}, 10);
    plain.keep(2);
    const Graph with(build_lenet({28, 28, 1}, 10), *device, DType::f32, 16);
    const Graph without(std::move(plain), *device, DType::f32, 16);
    EXPECT_LT(with.memory().activations, without.memory().activations);
}

}  // namespace
}  // namespace tutti
