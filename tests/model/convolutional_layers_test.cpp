// Residual sum, average pooling, transposed convolution, dropout.
#include <cmath>

#include "graph_fixture.hpp"
#include "tutti/base/error.hpp"
#include "tutti/model/layers.hpp"
#include "tutti/model/zoo.hpp"

namespace tutti {
namespace {

using test::fill_random;
using test::GradientCheck;

// Behind a convolution whose gradients check the input gradient of the layer under test.
GraphSpec behind_convolution(const Shape& shape,
                             const std::function<std::unique_ptr<Layer>(const Shape&)>& make) {
    GraphSpec graph(shape);
    Conv2dOptions one;
    one.out = shape[2];
    graph.add("before", make_conv2d(shape, one), {0});
    graph.add("layer", make(shape), {1});
    return graph;
}

GraphSpec alone(std::unique_ptr<Layer> layer, const Shape& shape) {
    GraphSpec graph(shape);
    graph.add("layer", std::move(layer), {0});
    return graph;
}

// The outputs for the inputs 0, 1, 2, …
std::vector<double> outputs(std::unique_ptr<Layer> layer, const Shape& shape) {
    const auto device = make_cpu_device(1);
    Graph graph(alone(std::move(layer), shape), *device, DType::f64, 1);
    double next = 0;
    for (double& x : graph.input(1).span<double>()) x = next++;
    const TensorView y = graph.forward(1, {});
    return {y.span<double>().begin(), y.span<double>().end()};
}

TEST(AddLayer, GradientsReachBothInputs) {
    GraphSpec graph({4});
    const NodeId a = graph.add("a", make_linear({4}, 3, true), {0});
    const NodeId b = graph.add("b", make_linear({4}, 3, true), {0});
    const NodeId s = graph.add("s", make_add({3}), {a, b});
    graph.add("relu", make_relu({3}), {s});
    GradientCheck(std::move(graph), 3).expect_gradients(1e-7);
}

TEST(AddLayer, GradientsPassAroundABlock) {
    GraphSpec graph({4});
    const NodeId a = graph.add("a", make_linear({4}, 3, true), {0});
    const NodeId b = graph.add("b", make_linear({3}, 3, true), {a});
    const NodeId n = graph.add("n", make_batch_norm2d({3}, {}), {b});
    const NodeId s = graph.add("s", make_add({3}), {n, a});
    const NodeId r = graph.add("r", make_relu({3}), {s});
    const NodeId c = graph.add("c", make_linear({3}, 3, true), {r});
    graph.add("t", make_add({3}), {c, r});
    GradientCheck(std::move(graph), 5).expect_gradients(1e-7);
}

TEST(AvgPool2dLayer, CountsThePaddingUnlessToldOtherwise) {
    Pool2dOptions o;
    o.kernel_h = o.kernel_w = 2;
    o.stride_h = o.stride_w = 2;
    o.padding_h = o.padding_w = 1;
    // torch.nn.functional.avg_pool2d(torch.arange(9.).view(1, 1, 3, 3), 2, 2, 1)
    EXPECT_EQ(outputs(make_avg_pool2d({3, 3, 1}, o), {3, 3, 1}), (std::vector<double>{0, 0.75, 2.25, 6}));
    EXPECT_EQ(outputs(make_avg_pool2d({3, 3, 1}, o, false), {3, 3, 1}),
              (std::vector<double>{0, 1.5, 4.5, 6}));
}

TEST(AvgPool2dLayer, GradientsAgreeWithFiniteDifferences) {
    Pool2dOptions o;
    o.kernel_h = 3;
    o.kernel_w = 2;
    o.stride_w = 1;
    o.padding_h = 1;
    GradientCheck(behind_convolution({5, 4, 3}, [&](const Shape& s) { return make_avg_pool2d(s, o); }), 2)
        .expect_gradients(1e-7);
}

TEST(AdaptiveAvgPool2dLayer, CutsTheImageAsPyTorchDoes) {
    // torch.nn.functional.adaptive_avg_pool2d(torch.arange(10.).view(1, 1, 5, 2), (3, 1)): rows 0-1, 1-3,
    // 3-4.
    EXPECT_EQ(outputs(make_adaptive_avg_pool2d({5, 2, 1}, 3, 1), {5, 2, 1}),
              (std::vector<double>{1.5, 4.5, 7.5}));
    // More outputs than inputs repeat them.
    EXPECT_EQ(outputs(make_adaptive_avg_pool2d({2, 1, 1}, 3, 1), {2, 1, 1}),
              (std::vector<double>{0, 0.5, 1}));
    EXPECT_EQ(outputs(make_adaptive_avg_pool2d({2, 2, 2}, 1, 1), {2, 2, 2}), (std::vector<double>{3, 4}));
}

TEST(AdaptiveAvgPool2dLayer, GradientsAgreeWithFiniteDifferences) {
    GradientCheck(
        behind_convolution({5, 4, 3}, [&](const Shape& s) { return make_adaptive_avg_pool2d(s, 3, 2); }), 2)
        .expect_gradients(1e-7);
}

TEST(AveragePooling, RefusesWhatMakesNoSense) {
    Pool2dOptions o;
    o.kernel_h = 9;
    EXPECT_THROW(make_avg_pool2d({4, 4, 1}, o), UsageError);
    EXPECT_THROW(make_avg_pool2d({4}, {}), UsageError);
    EXPECT_THROW(make_adaptive_avg_pool2d({4, 4, 1}, 0, 1), UsageError);
}

ConvTranspose2dOptions upsampling() {
    ConvTranspose2dOptions o;
    o.out = 2;
    o.kernel_h = o.kernel_w = 3;
    o.stride_h = o.stride_w = 2;
    o.padding_h = o.padding_w = 1;
    o.output_padding_h = 1;
    return o;
}

TEST(ConvTranspose2dLayer, GradientsAgreeWithFiniteDifferences) {
    GradientCheck(
        behind_convolution({3, 4, 3}, [](const Shape& s) { return make_conv_transpose2d(s, upsampling()); }),
        2)
        .expect_gradients(1e-7);
}

TEST(ConvTranspose2dLayer, HasPyTorchsShapesAndInitialBound) {
    const auto layer = make_conv_transpose2d({3, 4, 5}, upsampling());
    EXPECT_EQ(layer->output_shape(), (Shape{6, 7, 2}));
    EXPECT_EQ(layer->parameters()[0].file_shape, (Shape{5, 2, 3, 3}));
    EXPECT_DOUBLE_EQ(layer->parameters()[0].initial.value, 1 / std::sqrt(2 * 9.0));
    EXPECT_DOUBLE_EQ(layer->parameters()[1].initial.value, 1 / std::sqrt(2 * 9.0));
}

// torch.nn.functional.conv_transpose2d(arange(4).view(1, 2, 1, 2), arange(8).view(2, 2, 1, 2)): with two
// input and two output channels the file's order {I, O, KH, KW} shows.
TEST(ConvTranspose2dLayer, ReadsPyTorchsOrderOfWeights) {
    ConvTranspose2dOptions o;
    o.out = 2;
    o.kernel_w = 2;
    o.bias = false;
    const auto device = make_cpu_device(1);
    Graph graph(alone(make_conv_transpose2d({1, 2, 2}, o), {1, 2, 2}), *device, DType::f64, 1);
    NamedTensor weight{"layer.weight", DType::f64, {2, 2, 1, 2}, std::vector<std::byte>(8 * sizeof(double))};
    for (std::size_t i = 0; i < 8; ++i)
        reinterpret_cast<double*>(weight.bytes.data())[i] = static_cast<double>(i);
    graph.load(std::span(&weight, 1), "memory");
    // Channel 0 is 0, 1, channel 1 is 2, 3.
    const std::vector<double> pixels = {0, 2, 1, 3};
    std::copy(pixels.begin(), pixels.end(), graph.input(1).span<double>().begin());
    const TensorView y = graph.forward(1, {});
    const std::vector<double> channel0 = {8, 22, 16}, channel1 = {12, 34, 24};
    for (std::size_t i = 0; i < 3; ++i) {
        EXPECT_EQ(y.span<double>()[2 * i], channel0[i]);
        EXPECT_EQ(y.span<double>()[2 * i + 1], channel1[i]);
    }
}

TEST(ConvTranspose2dLayer, RefusesWhatMakesNoSense) {
    ConvTranspose2dOptions o = upsampling();
    o.output_padding_h = 2;
    EXPECT_THROW(make_conv_transpose2d({3, 4, 3}, o), UsageError);
    o = upsampling();
    o.padding_h = 5;
    EXPECT_THROW(make_conv_transpose2d({3, 4, 3}, o), UsageError);
    EXPECT_THROW(make_conv_transpose2d({12}, upsampling()), UsageError);
}

TEST(DropoutLayer, GradientsAgreeWithFiniteDifferences) {
    GradientCheck(behind_convolution({3, 4, 2}, [](const Shape& s) { return make_dropout(s, 0.4); }), 3)
        .expect_gradients(1e-7);
}

TEST(DropoutLayer, ChangesNothingInEvaluation) {
    const auto device = make_cpu_device(1);
    Graph graph(alone(make_dropout({20}, 0.5), {20}), *device, DType::f64, 2);
    fill_random(graph.input(2), 1);
    const TensorView y = graph.forward(2, {.phase = Phase::evaluate, .positions = {}});
    for (std::size_t i = 0; i < 40; ++i) EXPECT_EQ(y.span<double>()[i], graph.input(2).span<double>()[i]);
}

TEST(DropoutLayer, TwoLayersDrawDifferentNumbers) {
    GraphSpec spec({200});
    spec.add("one", make_dropout({200}, 0.5), {0});
    spec.add("two", make_dropout({200}, 0.5), {0});
    spec.add("sum", make_add({200}), {1, 2});
    const auto device = make_cpu_device(1);
    Graph graph(std::move(spec), *device, DType::f64, 1);
    graph.input(1);
    for (double& x : graph.input(1).span<double>()) x = 1;
    const std::vector<std::int64_t> positions = {3};
    const TensorView y = graph.forward(1, {.positions = positions});
    EXPECT_NE(std::count(y.span<double>().begin(), y.span<double>().end(), 2.0), 0) << "kept by one of them";
}

TEST(DropoutLayer, RefusesAProbabilityAboveOne) {
    EXPECT_THROW(make_dropout({3}, 1.5), UsageError);
}

TEST(ConvolutionalNetworks, GiveTheSameOutputsInASmallerBatchInEvaluation) {
    const auto device = make_cpu_device(1);
    Graph graph(build_resnet("resnet18", {8, 8, 1}, "cifar", 3), *device, DType::f64, 3);
    graph.initialize(1);
    const StepContext step{.phase = Phase::evaluate, .positions = {}};
    fill_random(graph.input(3), 2);
    const TensorView all = graph.forward(3, step);
    const std::vector<double> expected(all.span<double>().begin(), all.span<double>().begin() + 3);
    fill_random(graph.input(3), 2);
    const TensorView one = graph.forward(1, step);
    for (std::size_t i = 0; i < 3; ++i)
        EXPECT_NEAR(one.span<double>()[i], expected[i], 1e-12 * std::abs(expected[i]));
}

}  // namespace
}  // namespace tutti
