#include "tutti/model/embedding.hpp"

#include <gtest/gtest.h>

#include "activation_plan.hpp"
#include "graph_fixture.hpp"
#include "tutti/base/error.hpp"
#include "tutti/model/layers.hpp"
#include "tutti/model/zoo.hpp"

namespace tutti {
namespace {

TEST(Embedding, IsTheInputOfTheLastLinearLayer) {
    GraphSpec spec = build_lenet({28, 28, 1}, 10);
    EXPECT_TRUE(has_embedding(spec));
    const Embedding embedding = keep_embedding(spec);
    EXPECT_EQ(spec.nodes()[embedding.node].name, "relu3");
    EXPECT_EQ(embedding.width, 128);
    EXPECT_EQ(embedding.row.arena_shape(), (Shape{1, 128}));
}

TEST(Embedding, BehindAnImageARowIsInPyTorchsOrder) {
    GraphSpec spec({1, 2, 3});  // H, W, C
    const NodeId flat = spec.add("flat", make_flatten({1, 2, 3}), {0});
    spec.add("fc", make_linear({6}, 2, true, {1, 2, 3}), {flat});
    const Embedding embedding = keep_embedding(spec);
    const std::vector<double> arena = {10, 11, 12, 20, 21, 22};  // pixel (0, 0), pixel (0, 1)
    std::vector<double> file(6);
    reorder_to_file(embedding.row, sizeof(double), reinterpret_cast<const std::byte*>(arena.data()),
                    reinterpret_cast<std::byte*>(file.data()));
    EXPECT_EQ(file, (std::vector<double>{10, 20, 11, 21, 12, 22}));
}

TEST(Embedding, AModelWithoutALinearLayerHasNone) {
    GraphSpec spec({4});
    spec.add("relu", make_relu({4}), {0});
    EXPECT_FALSE(has_embedding(spec));
    EXPECT_THROW(keep_embedding(spec), UsageError);
}

// y = relu(relu(x·1 + b)) in place: what the first linear layer gave would be overwritten.
TEST(Embedding, AKeptValueIsNotOverwrittenInPlaceNorUsedAgain) {
    GraphSpec spec({2});
    const NodeId fc1 = spec.add("fc1", make_linear({2}, 2, true), {0});
    NodeId last = spec.add("relu1", make_relu({2}), {fc1});
    for (const char* name : {"fc2", "fc3", "fc4"}) {
        last = spec.add(name, make_linear({2}, 2, true), {last});
        last = spec.add(std::string(name) + "r", make_relu({2}), {last});
    }
    spec.keep(fc1);
    const ActivationPlan plan = plan_activations(spec.nodes(), test::of_f64(spec), 4);
    for (std::size_t node = 2; node < spec.nodes().size(); ++node)
        EXPECT_NE(plan.value[node], plan.value[fc1]);

    const auto device = make_cpu_device(1);
    Graph graph(std::move(spec), *device, DType::f64, 4);
    graph.initialize(5);
    for (double& value : graph.parameter_arena().span<double>())
        if (value > 0) value = -value;
    test::fill_random(graph.input(4), 1);
    std::vector<double> input(graph.input(4).span<double>().begin(), graph.input(4).span<double>().end());
    graph.forward(4, {});
    const auto value = graph.value(fc1, 4).span<double>();
    const auto parameters = graph.parameter_arena().span<double>();
    const auto at = [&](const char* name) {
        for (const Parameter& parameter : graph.parameters())
            if (parameter.name == name) return parameters.subspan(static_cast<std::size_t>(parameter.offset));
        return parameters;
    };
    const auto weight = at("fc1.weight"), bias = at("fc1.bias");
    bool any_negative = false;
    for (std::size_t n = 0; n < 4; ++n)
        for (std::size_t o = 0; o < 2; ++o) {
            const double expected =
                input[2 * n] * weight[2 * o] + input[2 * n + 1] * weight[2 * o + 1] + bias[o];
            EXPECT_NEAR(value[2 * n + o], expected, 1e-14);
            any_negative = any_negative || expected < 0;
        }
    EXPECT_TRUE(any_negative) << "else ReLU would have changed nothing";
}

}  // namespace
}  // namespace tutti
