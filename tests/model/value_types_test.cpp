#include "value_types.hpp"

#include <gtest/gtest.h>

#include "relu_fusion.hpp"
#include "tutti/model/layers.hpp"
#include "tutti/model/layers_transformer.hpp"
#include "tutti/model/zoo.hpp"

namespace tutti {
namespace {

constexpr DType f32 = DType::f32, bf16 = DType::bf16;

std::vector<DType> types_of(const GraphSpec& spec) {
    return value_types(spec.nodes(), {f32, bf16, bf16});
}

TEST(ValueTypes, AreAllTheSameWhereThereIsOneType) {
    GraphSpec spec({8, 8, 1});
    spec.add("flatten", make_flatten({8, 8, 1}), {0});
    spec.add("fc", make_linear({64}, 10, true), {1});
    EXPECT_EQ(value_types(spec.nodes(), {f32, f32, f32}), (std::vector<DType>{f32, f32, f32}));
}

TEST(ValueTypes, TheOutputIsComputedInFull) {
    GraphSpec spec({8, 8, 1});
    spec.add("flatten", make_flatten({8, 8, 1}), {0});
    spec.add("fc1", make_linear({64}, 32, true), {1});
    spec.add("relu", make_relu({32}), {2});
    spec.add("fc2", make_linear({32}, 10, true), {3});
    EXPECT_EQ(types_of(spec), (std::vector<DType>{bf16, bf16, bf16, bf16, f32}));
}

TEST(ValueTypes, WhatIsOfTheOutputsTypeByItsLayersFollowsIt) {
    // The last product's output reaches the loss through layers that take and give one type, and a sum that
    // ties another branch to it.
    GraphSpec spec({16});
    spec.add("a", make_linear({16}, 10, true), {0});
    spec.add("branch", make_linear({16}, 10, true), {0});
    spec.add("branch_relu", make_relu({10}), {2});
    spec.add("sum", make_add({10}), {1, 3});
    spec.add("relu", make_relu({10}), {4});
    EXPECT_EQ(types_of(spec), (std::vector<DType>{bf16, f32, f32, f32, f32, f32}));
}

TEST(ValueTypes, AResidualIsOfTheTypeOfTheLayerThatAddsIt) {
    GraphSpec spec({16});
    spec.add("a", make_linear({16}, 10, true), {0});
    spec.add("branch", make_linear({10}, 10, true), {1});
    spec.add("sum", make_add({10}), {2, 1});
    fuse_sums(spec.nodes());
    ASSERT_EQ(spec.nodes()[2].inputs, (std::vector<NodeId>{1, 1}));
    EXPECT_EQ(types_of(spec), (std::vector<DType>{bf16, f32, f32, f32}));
}

TEST(ValueTypes, OutputsSideBySideAreComputedInFullWhatTheyCopyIsNot) {
    TemporalTransformerOptions options;
    options.dim = 16;
    options.depth = 1;
    options.heads = 2;
    const GraphSpec spec = build_temporal_transformer({5, 9}, options);
    const std::vector<DType> types = types_of(spec);
    for (std::size_t i = 0; i < types.size(); ++i) {
        const std::string& name = spec.nodes()[i].name;
        const bool full =
            name == "classification" || name.starts_with("offsets") || name == "exists" || name == "outputs";
        EXPECT_EQ(types[i], full ? f32 : bf16) << name;
    }
}

Conv2dOptions of_3x3() {
    Conv2dOptions options;
    options.out = 16;
    options.kernel_h = options.kernel_w = 3;
    return options;
}

/// Where images alone are kept in the shorter type.
std::vector<DType> types_of_images(const GraphSpec& spec) {
    return value_types(spec.nodes(), {f32, f32, bf16});
}

TEST(ValueTypes, ImagesAreShortBetweenLayersThatTakeThem) {
    GraphSpec spec({8, 8, 1});
    spec.add("conv1", make_conv2d({8, 8, 1}, of_3x3()), {0});
    spec.add("bn", make_batch_norm2d({6, 6, 16}, {}), {1});
    spec.add("relu", make_relu({6, 6, 16}), {2});
    spec.add("conv2", make_conv2d({6, 6, 16}, of_3x3()), {3});
    spec.add("pool", make_adaptive_avg_pool2d({4, 4, 16}, 1, 1), {4});
    spec.add("flatten", make_flatten({1, 1, 16}), {5});
    spec.add("fc", make_linear({16}, 10, true), {6});
    // The input comes as it is, and the output goes to the loss.
    EXPECT_EQ(types_of_images(spec), (std::vector<DType>{f32, bf16, bf16, bf16, bf16, bf16, bf16, f32}));
}

TEST(ValueTypes, OneLayerThatTakesNoImagesKeepsAllThatIsTiedToIt) {
    GraphSpec spec({8, 8, 1});
    spec.add("conv", make_conv2d({8, 8, 1}, of_3x3()), {0});
    spec.add("relu", make_relu({6, 6, 16}), {1});
    spec.add("dropout", make_dropout({6, 6, 16}, 0.1), {2});
    spec.add("conv2", make_conv2d({6, 6, 16}, of_3x3()), {3});
    spec.add("relu2", make_relu({4, 4, 16}), {4});
    spec.add("fc1", make_linear({4 * 4 * 16}, 16, true), {5});
    spec.add("gelu", make_gelu({16}, GeluForm::exact), {6});
    spec.add("fc2", make_linear({16}, 10, true), {7});
    EXPECT_EQ(types_of_images(spec), (std::vector<DType>{f32, f32, f32, f32, bf16, bf16, f32, f32, f32}));
}

}  // namespace
}  // namespace tutti
