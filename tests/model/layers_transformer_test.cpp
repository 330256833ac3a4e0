#include "tutti/model/layers_transformer.hpp"

#include <array>
#include <cmath>
#include <numeric>

#include "graph_fixture.hpp"
#include "tutti/base/error.hpp"
#include "tutti/model/layers.hpp"

namespace tutti {
namespace {

using test::fill_random;
using test::GradientCheck;

// A linear layer on tokens before the layer under test: its gradients check the input gradient of the one
// behind it.
GraphSpec behind_linear(const Shape& input, std::int64_t width,
                        const std::function<std::unique_ptr<Layer>(const Shape&)>& make) {
    GraphSpec graph(input);
    const NodeId before = graph.add("before", make_linear(input, width, true), {0});
    graph.add("layer", make(graph.shape(before)), {before});
    return graph;
}

TEST(LinearLayer, OnTokensActsOnEachOfThem) {
    const auto layer = make_linear({5, 3}, 4, true);
    EXPECT_EQ(layer->output_shape(), (Shape{5, 4}));
    EXPECT_EQ(layer->parameters()[0].file_shape, (Shape{4, 3}));
    GraphSpec graph({5, 3});
    const NodeId a = graph.add("a", make_linear({5, 3}, 4, true), {0});
    graph.add("b", make_linear(graph.shape(a), 2, true), {a});
    GradientCheck(std::move(graph), 2).expect_gradients(1e-7);
}

TEST(LinearLayer, TakesOtherInitialValues) {
    const auto layer =
        make_linear({3}, 4, true, {}, {Initializer::truncated_normal(0.02), Initializer::constant(0)});
    EXPECT_EQ(layer->parameters()[0].initial.kind, Initializer::Kind::truncated_normal);
    EXPECT_EQ(layer->parameters()[1].initial.kind, Initializer::Kind::constant);
}

TEST(LayerNormLayer, GradientsAgreeWithFiniteDifferences) {
    GradientCheck(behind_linear({3, 4}, 5, [](const Shape& s) { return make_layer_norm(s, 1e-5); }), 2)
        .expect_gradients(1e-7);
    GradientCheck(behind_linear({4}, 5, [](const Shape& s) { return make_layer_norm(s, 1e-5); }), 3)
        .expect_gradients(1e-7);
}

TEST(LayerNormLayer, BehindAnImageTheFileHasChannelsFirst) {
    const auto layer = make_layer_norm({24}, 1e-5, {2, 3, 4});
    for (const ParameterSpec& parameter : layer->parameters()) {
        EXPECT_EQ(parameter.file_shape, (Shape{24}));
        EXPECT_EQ(parameter.view, (Shape{4, 2, 3}));
        EXPECT_EQ(parameter.arena_shape(), (Shape{2, 3, 4}));
    }
}

TEST(LayerNormLayer, RefusesAnEpsThatIsNotPositive) {
    EXPECT_THROW(make_layer_norm({3}, 0), UsageError);
}

TEST(GeluLayer, GradientsAgreeWithFiniteDifferences) {
    GradientCheck(behind_linear({6}, 7, [](const Shape& s) { return make_gelu(s); }), 3)
        .expect_gradients(1e-7);
}

TEST(AttentionLayer, GradientsAgreeWithFiniteDifferences) {
    GradientCheck(behind_linear({4, 3}, 18, [](const Shape& s) { return make_attention(s, 3); }), 2)
        .expect_gradients(1e-7);
}

/// A token exists where it and all before it have a fourth feature above 0.
class MaskedAttention : public testing::Test {
  protected:
    static GraphSpec spec() {
        GraphSpec graph({4, 4});
        const NodeId features = graph.add("features", make_columns({4, 4}, 0, 3), {0});
        const NodeId fourth = graph.add("fourth", make_columns({4, 4}, 3, 1), {0});
        const NodeId mask = graph.add("mask", make_relu({4, 1}), {fourth});
        const NodeId mixed = graph.add("mix", make_linear({4, 3}, 12, true), {features});
        const NodeId attended = graph.add("attention", make_masked_attention({4, 12}, 2), {mixed, mask});
        const std::vector<Shape> shapes{{4, 4}, {4, 3}, {4, 12}};
        graph.add("all", make_concatenation(shapes), {attended, features, mixed});
        return graph;
    }
};

TEST_F(MaskedAttention, GradientsAgreeWithFiniteDifferences) {
    GradientCheck check(spec(), 8);
    check.expect_gradients(1e-7);
    std::size_t padded = 0;
    for (std::size_t token = 0; token < 32; ++token)
        if (check.graph().input(8).span<double>()[4 * token + 3] <= 0) ++padded;
    EXPECT_GT(padded, 0u);
    EXPECT_LT(padded, 32u);
}

TEST_F(MaskedAttention, WhatIsPaddedChangesNothingElse) {
    const auto device = make_cpu_device(1);
    Graph graph(spec(), *device, DType::f64, 2);
    graph.initialize(3);
    const auto outputs_with = [&](bool other) {
        const std::span<double> input = graph.input(2).span<double>();
        fill_random(graph.input(2), 4);
        for (std::size_t token = 0; token < 8; ++token) input[4 * token + 3] = token < 7 ? 1 : 0;
        // Of the second sample's last token.
        for (std::size_t feature = 0; other && feature < 3; ++feature) input[4 * 7 + feature] = 100;
        const auto values = graph.forward(2, {}).span<double>();
        return std::vector<double>(values.begin(), values.end());
    };
    const std::vector<double> before = outputs_with(false), after = outputs_with(true);
    constexpr std::size_t width = 4 + 3 + 12;
    for (std::size_t i = 0; i < 7 * width; ++i) EXPECT_EQ(before[i], after[i]) << i;
    for (std::size_t i = 7 * width; i < 7 * width + 4; ++i) EXPECT_EQ(after[i], 0) << i;
    EXPECT_EQ(after[7 * width + 4], 100);
}

TEST(ColumnLayers, RefuseWhatDoesNotFit) {
    EXPECT_THROW(make_columns({4, 3}, 1, 3), UsageError);
    EXPECT_THROW(make_columns({4, 3}, 0, 0), UsageError);
    EXPECT_THROW(make_columns({4}, 0, 1), UsageError);
    const std::vector<Shape> shapes{{4, 3}, {5, 3}};
    EXPECT_THROW(make_concatenation(shapes), UsageError);
}

TEST(ColumnLayers, GradientsAgreeWithFiniteDifferences) {
    GraphSpec graph({3, 2});
    const NodeId a = graph.add("a", make_linear({3, 2}, 5, true), {0});
    const NodeId first = graph.add("first", make_columns({3, 5}, 0, 2), {a});
    const NodeId last = graph.add("last", make_columns({3, 5}, 1, 4), {a});
    const std::vector<Shape> shapes{{3, 4}, {3, 2}, {3, 4}};
    graph.add("all", make_concatenation(shapes), {last, first, last});
    GradientCheck(std::move(graph), 2).expect_gradients(1e-7);
}

TEST(SequencePositions, AreSinesAndCosinesOfThePlace) {
    const auto device = make_cpu_device(1);
    GraphSpec spec({3, 4});
    spec.add("", make_sequence_positions({3, 4}), {0});
    Graph graph(std::move(spec), *device, DType::f64, 1);
    graph.initialize(1);
    const TensorView outputs = graph.forward(1, {});
    for (std::size_t t = 0; t < 3; ++t) {
        const auto place = static_cast<double>(t);
        const std::array<double, 4> expected{std::sin(place), std::cos(place), std::sin(place / 100),
                                             std::cos(place / 100)};
        for (std::size_t i = 0; i < 4; ++i)
            EXPECT_DOUBLE_EQ(outputs.span<double>()[4 * t + i], expected[i]) << t << ", " << i;
    }
}

TEST(AttentionLayer, RefusesHeadsThatDoNotDivide) {
    EXPECT_THROW(make_attention({4, 18}, 4), UsageError);
    EXPECT_THROW(make_attention({4, 18}, 0), UsageError);
    EXPECT_THROW(make_attention({18}, 3), UsageError);
}

TEST(TokenLayers, GradientsAgreeWithFiniteDifferences) {
    for (const bool class_token : {true, false})
        for (const TokenPooling pooling : {TokenPooling::first, TokenPooling::mean}) {
            GraphSpec graph({4, 2, 1});
            Conv2dOptions conv;
            conv.out = 3;
            conv.kernel_h = conv.kernel_w = conv.stride_h = conv.stride_w = 2;
            const NodeId patches = graph.add("patches", make_conv2d({4, 2, 1}, conv), {0});
            const NodeId tokens = graph.add("tokens", make_tokens(graph.shape(patches)), {patches});
            const NodeId embedded =
                graph.add("", make_embed_tokens(graph.shape(tokens), class_token), {tokens});
            const NodeId mixed = graph.add("mix", make_linear(graph.shape(embedded), 6, true), {embedded});
            const NodeId attended = graph.add("attention", make_attention(graph.shape(mixed), 1), {mixed});
            graph.add("pool", make_pool_tokens(graph.shape(attended), pooling), {attended});
            GradientCheck(std::move(graph), 2).expect_gradients(1e-7);
        }
}

TEST(TokenLayers, WithoutANameKeepTheBareNamesOfTheirParameters) {
    GraphSpec graph({4, 3});
    graph.add("", make_embed_tokens({4, 3}, true), {0});
    const auto device = make_cpu_device(1);
    const Graph model(std::move(graph), *device, DType::f32, 1);
    std::vector<std::string> names;
    for (const NamedTensor& tensor : model.save())
        names.push_back(tensor.name + " " + to_string(tensor.shape));
    EXPECT_EQ(names, (std::vector<std::string>{"cls_token [1, 1, 3]", "pos_embed [1, 5, 3]"}));
}

TEST(TokenLayers, RefuseOtherShapes) {
    EXPECT_THROW(make_tokens({16}), UsageError);
    EXPECT_THROW(make_embed_tokens({4, 4, 2}, true), UsageError);
    EXPECT_THROW(make_pool_tokens({16}, TokenPooling::mean), UsageError);
}

TEST(AddLayer, GradientsAgreeWithFiniteDifferences) {
    // The shortcut has another reader, as in a transformer block; then the same value twice.
    GraphSpec graph({3, 4});
    const NodeId a = graph.add("a", make_linear({3, 4}, 4, true), {0});
    const NodeId n = graph.add("n", make_layer_norm({3, 4}, 1e-5), {a});
    const NodeId b = graph.add("b", make_linear({3, 4}, 4, true), {n});
    const NodeId sum = graph.add("sum", make_add({3, 4}), {b, a});
    graph.add("twice", make_add({3, 4}), {sum, sum});
    GradientCheck(std::move(graph), 2).expect_gradients(1e-7);
}

// One layer of stochastic depth alone.
class DropPathLayer : public ::testing::Test {
  protected:
    static constexpr double probability = 0.3;
    static constexpr std::int64_t batch = 2000;

    /// The factors that the layer gives to samples at `positions`.
    std::vector<double> factors(std::span<const std::int64_t> positions, std::uint64_t number = 0,
                                std::int64_t epoch = 0, Phase phase = Phase::train) {
        GraphSpec graph({2});
        graph.add("drop", make_drop_path({2}, probability, number), {0});
        Graph model(std::move(graph), *device_, DType::f64, batch);
        const auto n = static_cast<std::int64_t>(positions.size());
        model.initialize(0);
        const auto input = model.input(n).span<double>();
        std::fill(input.begin(), input.end(), 3.0);
        const auto output = model.forward(n, {phase, 7, epoch, positions}).span<double>();
        std::vector<double> result;
        for (std::size_t i = 0; i < output.size(); i += 2) {
            EXPECT_EQ(output[i], output[i + 1]) << "a sample is dropped as a whole";
            result.push_back(output[i] / 3.0);
        }
        return result;
    }
    static std::vector<std::int64_t> first(std::int64_t count) {
        std::vector<std::int64_t> positions(static_cast<std::size_t>(count));
        std::iota(positions.begin(), positions.end(), 0);
        return positions;
    }

    std::unique_ptr<Device> device_ = make_cpu_device(1);
};

TEST_F(DropPathLayer, KeepsTheExpectation) {
    const auto all = factors(first(batch));
    double sum = 0;
    for (const double factor : all) {
        ASSERT_TRUE(factor == 0 || std::abs(factor - 1 / 0.7) < 1e-15);
        sum += factor;
    }
    // Variance of a factor: p/(1 − p); four standard deviations of the mean.
    EXPECT_NEAR(sum / batch, 1, 4 * std::sqrt(0.3 / 0.7 / batch));
}

TEST_F(DropPathLayer, DecidesByThePositionOfTheSampleAlone) {
    const auto all = factors(first(100));
    const std::vector<std::int64_t> some = {98, 2, 41};
    EXPECT_EQ(factors(some), (std::vector<double>{all[98], all[2], all[41]}));
    for (const std::int64_t one : {0, 57})
        EXPECT_EQ(factors(std::span(&one, 1)), (std::vector<double>{all[static_cast<std::size_t>(one)]}));
}

TEST_F(DropPathLayer, DecidesAnewForEachLayerAndEpoch) {
    const auto positions = first(100);
    EXPECT_NE(factors(positions, 0), factors(positions, 1));
    EXPECT_NE(factors(positions, 0, 0), factors(positions, 0, 1));
}

TEST_F(DropPathLayer, ChangesNothingInEvaluation) {
    EXPECT_EQ(factors(first(50), 0, 0, Phase::evaluate), std::vector<double>(50, 1.0));
    EXPECT_EQ(factors({}, 0, 0, Phase::evaluate), std::vector<double>());
}

TEST_F(DropPathLayer, BackwardScalesAsForwardDid) {
    const auto positions = first(8);
    GraphSpec graph({1});
    const NodeId a = graph.add("a", make_linear({1}, 1, false), {0});
    graph.add("drop", make_drop_path({1}, probability, 0), {a});
    Graph model(std::move(graph), *device_, DType::f64, 8);
    model.initialize(0);
    const auto expected = factors(positions);
    const StepContext step{Phase::train, 7, 0, positions};
    const auto input = model.input(8).span<double>();
    std::iota(input.begin(), input.end(), 1.0);
    model.forward(8, step);
    const auto gradient = model.output_gradient(8).span<double>();
    std::fill(gradient.begin(), gradient.end(), 1.0);
    model.backward(8, step, {});
    double sum = 0;
    for (std::size_t n = 0; n < 8; ++n) sum += expected[n] * static_cast<double>(n + 1);
    EXPECT_NEAR(model.gradient_arena().span<double>()[0], sum, 1e-12);
    EXPECT_NE(sum, 0);
}

TEST_F(DropPathLayer, RefusesAProbabilityOfOne) {
    EXPECT_THROW(make_drop_path({2}, 1, 0), UsageError);
    EXPECT_THROW(make_drop_path({2}, -0.1, 0), UsageError);
}

// A layer whose only parameter begins as `initial` says.
class Initialized final : public Layer {
  public:
    explicit Initialized(const Initializer& initial) : Layer({1}) {
        add_parameter({"x", {20000}, {20000}, {}, initial});
    }
    std::string kind() const override { return "initialized"; }
    void forward(const LayerCall&) override {}
    void backward(const LayerCall&) override {}
};

struct Moments {
    double mean = 0, variance = 0, largest = 0;
};
Moments moments(const Initializer& initial) {
    GraphSpec graph({1});
    graph.add("layer", std::make_unique<Initialized>(initial), {0});
    const auto device = make_cpu_device(1);
    Graph model(std::move(graph), *device, DType::f64, 1);
    model.initialize(3);
    const auto values = model.parameter_arena().span<double>().first(20000);
    Moments result;
    for (const double x : values) {
        result.mean += x / 20000;
        result.variance += x * x / 20000;
        result.largest = std::max(result.largest, std::abs(x));
    }
    return result;
}

TEST(Initializers, NormalHasItsStandardDeviation) {
    const Moments m = moments(Initializer::normal(0.5));
    EXPECT_NEAR(m.mean, 0, 4 * 0.5 / std::sqrt(20000.0));
    EXPECT_NEAR(m.variance, 0.25, 0.01);
    EXPECT_GT(m.largest, 1.5);
}

TEST(Initializers, TruncatedNormalStaysInsideAndKeepsTheShape) {
    // Standard normal cut at ±1: variance 1 − 2φ(1)/(2Φ(1) − 1) = 0.29112.
    const Moments m = moments(Initializer::truncated_normal(1, 1));
    EXPECT_LE(m.largest, 1);
    EXPECT_GT(m.largest, 0.99);
    EXPECT_NEAR(m.mean, 0, 0.02);
    EXPECT_NEAR(m.variance, 0.29112, 0.01);
    // PyTorch's bounds are absolute: at ±2 nothing is cut from std 0.02.
    EXPECT_NEAR(moments(Initializer::truncated_normal(0.02)).variance, 0.0004, 0.00002);
}

}  // namespace
}  // namespace tutti
