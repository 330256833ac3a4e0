// The counts that benchmarks divide by, against counts by hand.
#include <gtest/gtest.h>

#include <functional>

#include "tutti/device/device.hpp"
#include "tutti/model/graph.hpp"
#include "tutti/model/layers.hpp"
#include "tutti/model/layers_transformer.hpp"
#include "tutti/model/zoo.hpp"

namespace tutti {
namespace {

struct FlopsCase {
    std::string name;
    std::function<std::unique_ptr<Layer>()> make;
    double forward;
    double backward;      // with the gradient of the input
    double first_layers;  // without it
};

class LayerFlops : public ::testing::TestWithParam<FlopsCase> {};

TEST_P(LayerFlops, AreThoseCountedByHand) {
    const auto layer = GetParam().make();
    EXPECT_EQ(layer->forward_flops(), GetParam().forward);
    EXPECT_EQ(layer->backward_flops(true), GetParam().backward);
    EXPECT_EQ(layer->backward_flops(false), GetParam().first_layers);
}

Conv2dOptions three_by_three(std::int64_t out, std::int64_t groups) {
    Conv2dOptions options;
    options.out = out;
    options.kernel_h = options.kernel_w = 3;
    options.padding_h = options.padding_w = 1;
    options.groups = groups;
    return options;
}

ConvTranspose2dOptions doubling() {
    ConvTranspose2dOptions options;
    options.out = options.kernel_h = options.kernel_w = options.stride_h = options.stride_w = 2;
    return options;
}

INSTANTIATE_TEST_SUITE_P(
    Table, LayerFlops,
    ::testing::Values(
        // 4 outputs of 3 products and sums each; both gradients are products of the same size.
        FlopsCase{"Linear", [] { return make_linear({3}, 4, true); }, 24, 48, 24},
        FlopsCase{"LinearOnTokens",
                  [] {
                      return make_linear({5, 3}, 4, false);
                  },
                  120, 240, 120},
        // 48 outputs of 18 products and sums; in two groups, 64 outputs of 9.
        FlopsCase{"Conv2d",
                  [] {
                      return make_conv2d({4, 4, 2}, three_by_three(3, 1));
                  },
                  1728, 3456, 1728},
        FlopsCase{"GroupedConv2d",
                  [] {
                      return make_conv2d({4, 4, 2}, three_by_three(4, 2));
                  },
                  1152, 2304, 1152},
        // 12 inputs, each into 2 channels of 2 x 2 pixels.
        FlopsCase{"ConvTranspose2d",
                  [] {
                      return make_conv_transpose2d({2, 2, 3}, doubling());
                  },
                  192, 384, 192},
        // 24 elements of 6, 9 and 5 operations; 12 of 8, 13 and 5.
        FlopsCase{"BatchNorm",
                  [] {
                      return make_batch_norm2d({2, 3, 4}, {});
                  },
                  144, 216, 120},
        FlopsCase{"LayerNorm",
                  [] {
                      return make_layer_norm({3, 4}, 1e-5);
                  },
                  96, 156, 60},
        FlopsCase{"Add",
                  [] {
                      return make_add({2, 3, 4});
                  },
                  24, 0, 0},
        // 2 heads of width 2: 16 scores of 2 products and sums, and as many for the output; twice that back.
        FlopsCase{"Attention",
                  [] {
                      return make_attention({4, 12}, 2);
                  },
                  256, 512, 0},
        FlopsCase{"AveragePool",
                  [] {
                      return make_avg_pool2d({4, 4, 1}, {});
                  },
                  16, 16, 0},
        FlopsCase{"AdaptiveAveragePool",
                  [] {
                      return make_adaptive_avg_pool2d({4, 4, 3}, 1, 1);
                  },
                  48, 48, 0},
        FlopsCase{"EmbedTokens",
                  [] {
                      return make_embed_tokens({4, 3}, true);
                  },
                  15, 15, 15},
        FlopsCase{"MeanOfTokens",
                  [] {
                      return make_pool_tokens({4, 3}, TokenPooling::mean);
                  },
                  12, 12, 0},
        FlopsCase{"FirstToken",
                  [] {
                      return make_pool_tokens({4, 3}, TokenPooling::first);
                  },
                  0, 0, 0},
        FlopsCase{"Relu", [] { return make_relu({4}); }, 0, 0, 0},
        FlopsCase{"Gelu", [] { return make_gelu({4}); }, 0, 0, 0},
        FlopsCase{"MaxPool",
                  [] {
                      return make_max_pool2d({4, 4, 1}, {});
                  },
                  0, 0, 0},
        FlopsCase{"Dropout", [] { return make_dropout({4}, 0.5); }, 0, 0, 0},
        FlopsCase{"DropPath", [] { return make_drop_path({4}, 0.5, 0); }, 0, 0, 0},
        FlopsCase{"Flatten",
                  [] {
                      return make_flatten({2, 2, 2});
                  },
                  0, 0, 0},
        FlopsCase{"Tokens",
                  [] {
                      return make_tokens({2, 2, 2});
                  },
                  0, 0, 0}),
    [](const auto& one) { return one.param.name; });

TEST(GraphFlops, OfLenetHaveNoGradientOfTheImages) {
    const auto device = make_cpu_device(1);
    const Graph graph(build_lenet({28, 28, 1}, 10), *device, DType::f32, 2);
    double forward = 0, backward = 0;
    for (const auto& row : graph.report()) {
        forward += row.forward_flops;
        backward += row.backward_flops;
    }
    const double conv1 = 2.0 * 28 * 28 * 32 * 9, conv2 = 2.0 * 14 * 14 * 64 * 288;
    const double fc1 = 2.0 * 3136 * 128, fc2 = 2.0 * 128 * 10;
    EXPECT_EQ(forward, conv1 + conv2 + fc1 + fc2);
    EXPECT_EQ(backward, conv1 + 2 * (conv2 + fc1 + fc2));
}

TEST(GraphFlops, AFlattenBeforeTheFirstProductAsksForNoGradient) {
    const auto device = make_cpu_device(1);
    const std::int64_t hidden[] = {8};
    const Graph graph(build_mlp({4, 4, 1}, hidden, 3), *device, DType::f32, 2);
    double backward = 0;
    for (const auto& row : graph.report()) backward += row.backward_flops;
    EXPECT_EQ(backward, 2.0 * 16 * 8 + 2 * (2.0 * 8 * 3));
}

}  // namespace
}  // namespace tutti
