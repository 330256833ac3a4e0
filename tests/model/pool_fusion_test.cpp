#include "pool_fusion.hpp"

#include <gtest/gtest.h>

#include "graph_fixture.hpp"
#include "relu_fusion.hpp"
#include "tutti/model/layers.hpp"
#include "tutti/model/zoo.hpp"

namespace tutti {
namespace {

using test::fill_random;

// The names of the poolings that the layer before them does.
std::vector<std::string> fused_poolings(GraphSpec spec, DType type = DType::f32) {
    const auto device = make_cpu_device(1);
    fuse_relus(spec.nodes(), device->ops({type}));
    fuse_poolings(spec.nodes(), device->ops({type}));
    std::vector<std::string> names;
    for (const auto& node : spec.nodes())
        if (node.layer && node.layer->kind() == "max_pool2d" && node.layer->is_view())
            names.push_back(node.name);
    return names;
}

std::unique_ptr<Layer> make_conv(const Shape& input) {
    Conv2dOptions conv;
    conv.out = 16;
    conv.kernel_h = conv.kernel_w = 3;
    return make_conv2d(input, conv);
}

TEST(PoolFusion, LayersTakeTheirPooling) {
    EXPECT_EQ(fused_poolings(build_lenet({12, 12, 1}, 4)), (std::vector<std::string>{"pool1", "pool2"}));
    EXPECT_TRUE(fused_poolings(build_lenet({12, 12, 1}, 4), DType::f64).empty());
    EXPECT_EQ(fused_poolings(build_mnist({12, 12, 1}, 4)), std::vector<std::string>{"pool"});
    GraphSpec without_relu({8, 8, 1});
    const NodeId conv = without_relu.add("conv", make_conv({8, 8, 1}), {0});
    without_relu.add("pool", make_max_pool2d({6, 6, 16}, {}), {conv});
    EXPECT_EQ(fused_poolings(std::move(without_relu)), std::vector<std::string>{"pool"});
}

TEST(PoolFusion, ValuesThatOthersReadOrThatAreKeptStay) {
    for (const NodeId kept : {NodeId{1}, NodeId{2}}) {
        GraphSpec spec = build_lenet({12, 12, 1}, 4);
        spec.keep(kept);
        EXPECT_EQ(fused_poolings(std::move(spec)), std::vector<std::string>{"pool2"});
    }
    GraphSpec spec({8, 8, 1});
    const NodeId conv = spec.add("conv", make_conv({8, 8, 1}), {0});
    const NodeId pool = spec.add("pool", make_max_pool2d({6, 6, 16}, {}), {conv});
    const NodeId other = spec.add("other", make_max_pool2d({6, 6, 16}, {}), {conv});
    spec.add("add", make_add({3, 3, 16}), {pool, other});
    EXPECT_TRUE(fused_poolings(std::move(spec)).empty());
}

// A pooling that is kept may be fused: its value is the layer's.
TEST(PoolFusion, AKeptPoolingHasItsValue) {
    std::vector<double> values[2];
    for (const DType type : {DType::f32, DType::f64}) {
        GraphSpec spec = build_lenet({12, 12, 1}, 4);
        spec.keep(3);
        const auto device = make_cpu_device(1);
        Graph graph(std::move(spec), *device, type, 3);
        graph.initialize(1);
        fill_random(graph.input(3), 2);
        graph.forward(3, {});
        const TensorView value = graph.value(3, 3);
        for (std::int64_t i = 0; i < value.count(); ++i)
            values[type == DType::f64].push_back(
                type == DType::f64 ? value.as<double>()[i] : static_cast<double>(value.as<float>()[i]));
    }
    ASSERT_EQ(values[0].size(), values[1].size());
    for (std::size_t i = 0; i < values[0].size(); ++i) ASSERT_NEAR(values[0][i], values[1][i], 1e-5);
}

// The output and all gradients of some steps, with other batch sizes in between.
std::vector<double> results(DType type, bool recompute, bool fuse) {
    GraphSpec spec = build_lenet({13, 12, 2}, 4);
    if (!fuse) {
        spec.keep(1);
        spec.keep(4);
    }
    const auto device = make_cpu_device(2);
    Graph graph(std::move(spec), *device, type, 5, recompute);
    graph.initialize(4);
    std::vector<double> all;
    const auto append = [&](const TensorView& view, std::int64_t begin, std::int64_t count) {
        for (std::int64_t i = begin; i < begin + count; ++i)
            all.push_back(type == DType::f64 ? view.as<double>()[i]
                                             : static_cast<double>(view.as<float>()[i]));
    };
    for (const std::int64_t batch : {5, 1, 0, 3}) {
        fill_random(graph.input(batch), 7);
        const TensorView output = graph.forward(batch, {});
        append(output, 0, output.count());
        fill_random(graph.output_gradient(batch), 8);
        graph.backward(batch, {}, {});
        for (const Parameter& one : graph.parameters()) append(graph.gradient_arena(), one.offset, one.count);
    }
    return all;
}

TEST(PoolFusion, AgreesWithEachLayerByItself) {
    const std::vector<double> fused = results(DType::f32, false, true);
    EXPECT_EQ(fused, results(DType::f32, true, true)) << "computed again";
    for (const auto& plain : {results(DType::f32, false, false), results(DType::f64, false, true)}) {
        ASSERT_EQ(fused.size(), plain.size());
        for (std::size_t i = 0; i < fused.size(); ++i)
            ASSERT_NEAR(fused[i], plain[i], 2e-5 * std::max(1.0, std::abs(plain[i]))) << i;
    }
}

TEST(PoolFusion, TakesLessMemory) {
    const auto device = make_cpu_device(1);
    GraphSpec plain = build_lenet({28, 28, 1}, 10);
    plain.keep(1);
    const Graph with(build_lenet({28, 28, 1}, 10), *device, DType::f32, 16);
    const Graph without(std::move(plain), *device, DType::f32, 16);
    EXPECT_LT(4 * with.memory().activations, 3 * without.memory().activations);
}

}  // namespace
}  // namespace tutti
