#include <gtest/gtest.h>

#include <functional>

#include "activation_plan.hpp"
#include "graph_fixture.hpp"
#include "sample_runs.hpp"
#include "sum_layer.hpp"
#include "support/bf16_refusal.hpp"
#include "tutti/base/error.hpp"
#include "tutti/model/layers.hpp"
#include "tutti/model/zoo.hpp"

namespace tutti {
namespace {

using test::fill_random;
using test::Sum;

GraphSpec deep_mlp(std::size_t depth) {
    const std::vector<std::int64_t> hidden(depth, 16);
    return build_mlp({9}, hidden, 4);
}

// Convolutions with ReLU in place and pools with state.
GraphSpec deep_convnet() {
    GraphSpec spec({16, 16, 2});
    NodeId last = 0;
    for (int i = 0; i < 12; ++i) {
        Conv2dOptions conv;
        conv.out = 4;
        conv.kernel_h = conv.kernel_w = 3;
        conv.padding_h = conv.padding_w = 1;
        const std::string number = std::to_string(i);
        last = spec.add("conv" + number, make_conv2d(spec.shape(last), conv), {last});
        last = spec.add("relu" + number, make_relu(spec.shape(last)), {last});
        if (i % 6 == 5) last = spec.add("pool" + number, make_max_pool2d(spec.shape(last), {}), {last});
    }
    const Shape image = spec.shape(last);
    last = spec.add("flat", make_flatten(image), {last});
    spec.add("fc", make_linear(spec.shape(last), 4, true, image), {last});
    return spec;
}

GraphSpec residual_stack() {
    GraphSpec spec({8});
    NodeId last = 0;
    for (int i = 0; i < 8; ++i) {
        const std::string number = std::to_string(i);
        const NodeId skip = last;
        last = spec.add("a" + number, make_linear({8}, 8, true), {last});
        last = spec.add("r" + number, make_relu({8}), {last});
        last = spec.add("b" + number, make_linear({8}, 8, true), {last});
        if (i > 0) last = spec.add("s" + number, std::make_unique<Sum>(Shape{8}), {last, skip});
    }
    spec.add("fc", make_linear({8}, 4, true), {last});
    return spec;
}

// How often its forward runs, and as what.
struct Calls {
    int forward = 0, again = 0, backward = 0;
};
class Counting final : public Layer {
  public:
    Counting(const Shape& shape, Calls& calls) : Layer(shape), calls_(calls) {}
    std::string kind() const override { return "counting"; }
    void forward(const LayerCall& call) override {
        ++(call.step->recomputing ? calls_.again : calls_.forward);
        ops().fill(call.output, 0.0);
        ops().add(call.inputs[0], call.output);
    }
    void backward(const LayerCall& call) override {
        ++calls_.backward;
        if (!call.input_gradients[0].defined()) return;
        ops().fill(call.input_gradients[0], 0.0);
        ops().add(call.output_gradient, call.input_gradients[0]);
    }

  private:
    Calls& calls_;
};

// Output and gradients of two steps, as bytes.
std::string bits_of(const std::function<GraphSpec()>& make, DType type, bool recompute) {
    const auto device = make_cpu_device(1);
    Graph graph(make(), *device, type, 5, recompute);
    graph.initialize(4);
    std::string bits;
    const auto append = [&](const TensorView& view) {
        bits.append(reinterpret_cast<const char*>(view.data), view.bytes());
    };
    for (const std::int64_t batch : {5, 1, 0, 3}) {
        fill_random(graph.input(batch), 7);
        append(graph.forward(batch, {}));
        fill_random(graph.output_gradient(batch), 8);
        std::vector<std::size_t> ready;
        graph.backward(batch, {}, [&](std::size_t parameter) { ready.push_back(parameter); });
        EXPECT_EQ(ready.size(), graph.parameters().size());
        append(graph.gradient_arena());
    }
    return bits;
}

TEST(Recompute, GivesTheSameBits) {
    const std::vector<std::function<GraphSpec()>> models = {[] { return deep_mlp(12); }, deep_convnet,
                                                            residual_stack,
                                                            [] {
                                                                return build_lenet({12, 12, 1}, 4);
                                                            },
                                                            [] { return deep_mlp(0); }};
    for (const auto& make : models)
        for (const DType type : {DType::f64, DType::f32})
            EXPECT_EQ(bits_of(make, type, true), bits_of(make, type, false));
}

// So wide that products in bf16 are our own where the processor has the instructions, and of more samples
// than go forward together where nothing is computed again: what one sample's rows become must not depend on
// how many rows a call has.
GraphSpec wide_vit() {
    VitOptions options;
    options.depth = 2;
    return build_vit({28, 28, 1}, options, 10);
}

TEST(Recompute, GivesTheSameBitsInBf16WhateverGoesForwardTogether) {
    constexpr std::int64_t batch = 12;
    for (const int threads : {1, 2}) {
        const auto device = make_cpu_device(threads);
        const Arithmetic bf16{DType::f32, DType::bf16};
        try {
            const GraphSpec spec = wide_vit();
            const auto runs =
                find_sample_runs(spec.nodes(), sizeof(float), batch, device->ops(bf16).cache_bytes());
            ASSERT_FALSE(runs.empty()) << "all samples go forward together in both";
        } catch (const UsageError& error) {
            return test::refused_bf16(test::Bf16Need::products, error.what());
        }
        std::string bits[2];
        for (const bool recompute : {false, true}) {
            Graph graph(wide_vit(), *device, bf16, batch, recompute);
            graph.initialize(4);
            // With biases: where they enter the sums decides bits, and they begin as zeros.
            for (const Parameter& parameter : graph.parameters())
                for (std::int64_t i = 0; parameter.spec.file_shape.rank() == 1 && i < parameter.count; ++i)
                    graph.parameter_arena().span<float>()[static_cast<std::size_t>(parameter.offset + i)] +=
                        0.01F * static_cast<float>(i % 17 - 8);
            fill_random(graph.input(batch), 7);
            const auto append = [&](const TensorView& view) {
                bits[recompute].append(reinterpret_cast<const char*>(view.data), view.bytes());
            };
            append(graph.forward(batch, {}));
            fill_random(graph.output_gradient(batch), 8);
            graph.backward(batch, {}, {});
            append(graph.gradient_arena());
        }
        EXPECT_TRUE(bits[0] == bits[1]) << threads << " threads";
    }
}

// Else the comparison of the bits would compare nothing.
TEST(Recompute, TheSmallestPlanOfTheseModelsComputesAgain) {
    for (const auto& make : {deep_convnet, residual_stack}) {
        const GraphSpec spec = make();
        const ActivationPlan plan = plan_recomputation(spec.nodes(), test::of_f64(spec), 4);
        EXPECT_GT(std::count_if(plan.again_from.begin(), plan.again_from.end(),
                                [](std::size_t from) { return from > 0; }),
                  0);
    }
}

TEST(Recompute, ADeepStackTakesFarLessMemory) {
    const GraphSpec mlp = deep_mlp(64), convnet = deep_convnet();
    const auto ratio = [](const GraphSpec& spec) {
        return static_cast<double>(plan_recomputation(spec.nodes(), test::of_f32(spec), 256).bytes) /
               static_cast<double>(plan_activations(spec.nodes(), test::of_f32(spec), 256).bytes);
    };
    EXPECT_LT(ratio(mlp), 0.4);
    EXPECT_LT(ratio(convnet), 0.75);

    const auto device = make_cpu_device(1);
    const Graph plain(deep_mlp(64), *device, DType::f32, 256),
        again(deep_mlp(64), *device, DType::f32, 256, true);
    EXPECT_LT(again.memory().activations, plain.memory().activations * 4 / 10);
}

TEST(Recompute, NeverTakesMoreMemory) {
    for (const std::size_t depth : {0U, 1U, 2U, 3U, 5U}) {
        const GraphSpec spec = deep_mlp(depth);
        EXPECT_LE(plan_recomputation(spec.nodes(), test::of_f32(spec), 8).bytes,
                  plan_activations(spec.nodes(), test::of_f32(spec), 8).bytes);
    }
}

TEST(Recompute, LayersLearnThatTheyRunAgain) {
    std::vector<Calls> calls(12);
    GraphSpec spec({32});
    NodeId last = 0;
    for (std::size_t i = 0; i < calls.size(); ++i) {
        last = spec.add("c" + std::to_string(i), std::make_unique<Counting>(Shape{32}, calls[i]), {last});
        last = spec.add("fc" + std::to_string(i), make_linear({32}, 32, true), {last});
    }
    const auto device = make_cpu_device(1);
    Graph graph(std::move(spec), *device, DType::f64, 2, true);
    graph.forward(2, {});
    graph.backward(2, {}, {});
    int again = 0;
    for (const Calls& one : calls) {
        EXPECT_EQ(one.forward, 1);
        EXPECT_EQ(one.backward, &one == &calls.front() ? 0 : 1) << "no parameters come before the first";
        EXPECT_LE(one.again, 1);
        again += one.again;
    }
    EXPECT_GT(again, 0);
    EXPECT_EQ(calls.back().again, 0) << "the last segment is still there";
}

}  // namespace
}  // namespace tutti
