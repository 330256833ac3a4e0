#include "tutti/model/layers.hpp"

#include "graph_fixture.hpp"
#include "tutti/base/error.hpp"

namespace tutti {
namespace {

using test::GradientCheck;

// A layer with parameters before the layer under test: its gradients check the input gradient of the one
// behind it.
GraphSpec behind_another(const Shape& shape,
                         const std::function<std::unique_ptr<Layer>(const Shape&)>& make) {
    GraphSpec graph(shape);
    Conv2dOptions one;
    one.out = shape[shape.rank() - 1];
    const NodeId before = graph.add(
        "before", shape.rank() == 3 ? make_conv2d(shape, one) : make_linear(shape, shape[0], true), {0});
    graph.add("layer", make(shape), {before});
    return graph;
}

TEST(LinearLayer, GradientsAgreeWithFiniteDifferences) {
    GradientCheck(behind_another({5}, [](const Shape& s) { return make_linear(s, 4, true); }), 3)
        .expect_gradients(1e-7);
}

TEST(LinearLayer, WithoutBiasHasOneParameter) {
    EXPECT_EQ(make_linear({5}, 4, false)->parameters().size(), 1u);
}

TEST(LinearLayer, BehindAnImageGradientsAgreeWithFiniteDifferences) {
    GradientCheck(behind_another({2, 3, 4}, [](const Shape& s) { return make_linear(s, 4, true); }), 2)
        .expect_gradients(1e-7);
}

TEST(LinearLayer, BehindAnImageTheFileHasChannelsFirst) {
    const auto layer = make_linear({2, 3, 4}, 5, true);
    const ParameterSpec& weight = layer->parameters().front();
    EXPECT_EQ(weight.file_shape, (Shape{5, 24}));
    EXPECT_EQ(weight.view, (Shape{5, 4, 2, 3}));
    EXPECT_EQ(weight.arena_shape(), (Shape{5, 2, 3, 4}));
}

TEST(LinearLayer, InitialBoundIsPyTorchs) {
    const auto layer = make_linear({25}, 4, true);
    EXPECT_DOUBLE_EQ(layer->parameters()[0].initial.value, 0.2);
    EXPECT_DOUBLE_EQ(layer->parameters()[1].initial.value, 0.2);
}

TEST(Conv2dLayer, GradientsAgreeWithFiniteDifferences) {
    Conv2dOptions o;
    o.out = 4;
    o.kernel_h = 3;
    o.kernel_w = 2;
    o.stride_h = 2;
    o.padding_h = 1;
    o.groups = 2;
    GradientCheck(behind_another({5, 4, 2}, [&](const Shape& s) { return make_conv2d(s, o); }), 2)
        .expect_gradients(1e-7);
}

TEST(Conv2dLayer, InitialBoundCountsTheGroupsInputs) {
    Conv2dOptions o;
    o.out = 4;
    o.kernel_h = o.kernel_w = 3;
    o.groups = 2;
    const auto layer = make_conv2d({8, 8, 8}, o);
    EXPECT_DOUBLE_EQ(layer->parameters()[0].initial.value, 1.0 / std::sqrt(4 * 9.0));
}

TEST(Conv2dLayer, RefusesAKernelThatDoesNotFit) {
    Conv2dOptions o;
    o.out = 1;
    o.kernel_h = o.kernel_w = 5;
    EXPECT_THROW(make_conv2d({4, 4, 1}, o), UsageError);
}

TEST(Conv2dLayer, RefusesGroupsThatDoNotDivide) {
    Conv2dOptions o;
    o.out = 4;
    o.groups = 3;
    EXPECT_THROW(make_conv2d({4, 4, 4}, o), UsageError);
}

TEST(Conv2dLayer, RefusesAVector) {
    Conv2dOptions o;
    o.out = 4;
    EXPECT_THROW(make_conv2d({16}, o), UsageError);
}

TEST(ReluLayer, GradientsAgreeWithFiniteDifferences) {
    GradientCheck(behind_another({7}, [](const Shape& s) { return make_relu(s); }), 3).expect_gradients(1e-7);
}

TEST(MaxPool2dLayer, GradientsAgreeWithFiniteDifferences) {
    Pool2dOptions o;
    o.kernel_h = 3;
    o.kernel_w = 2;
    o.stride_h = 2;
    o.stride_w = 1;
    o.padding_h = 1;
    GradientCheck(behind_another({5, 4, 3}, [&](const Shape& s) { return make_max_pool2d(s, o); }), 2)
        .expect_gradients(1e-7);
}

TEST(MaxPool2dLayer, RefusesPaddingOverHalfOfTheKernel) {
    Pool2dOptions o;
    o.padding_h = 2;
    EXPECT_THROW(make_max_pool2d({8, 8, 1}, o), UsageError);
}

TEST(FlattenLayer, GradientsPassThrough) {
    GraphSpec graph({3, 2, 2});
    Conv2dOptions conv;
    conv.out = 3;
    const NodeId a = graph.add("conv", make_conv2d({3, 2, 2}, conv), {0});
    const NodeId b = graph.add("flatten", make_flatten(graph.shape(a)), {a});
    graph.add("fc", make_linear(graph.shape(b), 2, true, graph.shape(a)), {b});
    GradientCheck(std::move(graph), 2).expect_gradients(1e-7);
}

}  // namespace
}  // namespace tutti
