#include "onednn_convolution_ways.hpp"

#include <gtest/gtest.h>

namespace tutti {
namespace {

using Type = dnnl::memory::data_type;
using Tag = dnnl::memory::format_tag;
using Pass = ConvolutionPass;

constexpr auto direct = dnnl::algorithm::convolution_direct;
constexpr auto winograd = dnnl::algorithm::convolution_winograd;

Conv2dShape three_by_three(std::int64_t size, std::int64_t in, std::int64_t out, std::int64_t stride = 1) {
    return {.height = size,
            .width = size,
            .in = in,
            .out = out,
            .kernel_h = 3,
            .kernel_w = 3,
            .stride_h = stride,
            .stride_w = stride,
            .padding_h = 1,
            .padding_w = 1};
}

ConvolutionWay best(const Conv2dShape& shape, Pass pass, Type products = Type::f32) {
    return convolution_ways(shape, pass, products).front();
}

TEST(ConvolutionWays, EndWithDirectOnNhwcWhichEveryCpuHas) {
    for (const Type products : {Type::f32, Type::bf16})
        for (const Pass pass : {Pass::forward, Pass::backward_data, Pass::backward_weight})
            for (const Conv2dShape& shape : {three_by_three(28, 1, 32), three_by_three(4, 512, 512),
                                             Conv2dShape{.height = 7, .width = 7, .in = 3, .out = 5}})
                EXPECT_EQ(convolution_ways(shape, pass, products).back(),
                          (ConvolutionWay{direct, Tag::nhwc, products}));
}

TEST(ConvolutionWays, WinogradIsForWide3x3WindowsWithStride1) {
    EXPECT_EQ(best(three_by_three(28, 64, 64), Pass::forward).algorithm, winograd);
    EXPECT_EQ(best(three_by_three(28, 64, 64), Pass::backward_data).algorithm, winograd);
    EXPECT_EQ(best(three_by_three(28, 64, 64), Pass::backward_weight).algorithm, winograd);
    EXPECT_EQ(best(three_by_three(28, 64, 64, 2), Pass::forward).algorithm, direct);
    EXPECT_EQ(best(three_by_three(28, 1, 64), Pass::forward).algorithm, direct);
    EXPECT_EQ(best(three_by_three(28, 40, 64), Pass::forward).algorithm, direct);
    Conv2dShape grouped = three_by_three(28, 64, 64);
    grouped.groups = 2;
    EXPECT_EQ(best(grouped, Pass::forward).algorithm, direct);
    EXPECT_EQ(best({.height = 7, .width = 7, .in = 64, .out = 64}, Pass::forward).algorithm, direct);
}

TEST(ConvolutionWays, OfNarrowLayersTheWeightGradientStaysDirect) {
    EXPECT_EQ(best(three_by_three(14, 32, 64), Pass::forward).algorithm, winograd);
    EXPECT_EQ(best(three_by_three(14, 32, 64), Pass::backward_weight).algorithm, direct);
}

TEST(ConvolutionWays, SmallImagesGoForwardInBlocksOfChannels) {
    EXPECT_EQ(best(three_by_three(7, 256, 512, 2), Pass::forward).activations, Tag::nChw16c);
    EXPECT_EQ(best(three_by_three(7, 256, 512, 2), Pass::backward_data).activations, Tag::nhwc);
    EXPECT_EQ(best(three_by_three(14, 128, 256, 2), Pass::forward).activations, Tag::nhwc);
}

TEST(ConvolutionWays, ProductsInBf16StayDirectWhereThatIsFaster) {
    EXPECT_EQ(best(three_by_three(28, 64, 64), Pass::forward, Type::bf16),
              (ConvolutionWay{direct, Tag::nhwc, Type::bf16}));
    EXPECT_EQ(best(three_by_three(4, 512, 512), Pass::backward_data, Type::bf16).products, Type::bf16);
    const ConvolutionWay wide = best(three_by_three(4, 512, 512), Pass::backward_weight, Type::bf16);
    EXPECT_EQ(wide.algorithm, winograd);
    EXPECT_EQ(wide.products, Type::f32);
}

TEST(ImagesAtOnce, TheirTransformsFitIntoACacheAndOutweighTheWeights) {
    const auto of = [](std::int64_t size, std::int64_t channels, Pass pass = Pass::backward_weight,
                       Type products = Type::f32) {
        return images_at_once(three_by_three(size, channels, channels), pass, products);
    };
    EXPECT_EQ(of(28, 64), 9);                       // 49 tiles · 128 channels · 144 bytes: 8 MiB hold 9
    EXPECT_EQ(of(14, 128), 16);                     // four times the weights
    EXPECT_EQ(of(224, 64), 1);                      // never none
    EXPECT_GT(of(28, 64, Pass::forward), 1 << 30);  // other passes have their own parts
    EXPECT_GT(of(28, 64, Pass::backward_weight, Type::bf16), 1 << 30);  // direct
    EXPECT_GT(of(28, 32), 1 << 30);
}

TEST(Deal, OneThreadTakesPartAfterPart) {
    EXPECT_EQ(deal(three_by_three(28, 64, 64), Pass::forward, Type::f32, 64, 1), (BatchDeal{16, 1}));
    EXPECT_EQ(deal(three_by_three(28, 64, 64), Pass::backward_weight, Type::f32, 64, 1), (BatchDeal{8, 1}));
    EXPECT_EQ(deal(three_by_three(7, 256, 256), Pass::backward_weight, Type::f32, 64, 1), (BatchDeal{1, 1}));
}

TEST(Deal, ThreadsGetEquallyManyPartsOfTheirOwn) {
    const auto of = [](Pass pass, std::int64_t batch, int threads) {
        return deal(three_by_three(28, 64, 64), pass, Type::f32, batch, threads);
    };
    for (const Pass pass : {Pass::forward, Pass::backward_data}) {
        EXPECT_EQ(of(pass, 64, 2), (BatchDeal{16, 2}));
        EXPECT_EQ(of(pass, 36, 3), (BatchDeal{12, 3}));
        EXPECT_EQ(of(pass, 61, 2).callers, 1) << "a prime number has no equal parts";
    }
    EXPECT_EQ(of(Pass::backward_weight, 64, 2), (BatchDeal{8, 2}));
    EXPECT_EQ(of(Pass::backward_weight, 64, 3), (BatchDeal{9, 3}));
    EXPECT_EQ(of(Pass::backward_weight, 61, 2), (BatchDeal{8, 2}));  // seven or eight images each
}

TEST(Deal, ThreadsWorkTogetherWhereThereAreTooFewPartsForThem) {
    EXPECT_EQ(deal(three_by_three(28, 64, 64), Pass::forward, Type::f32, 64, 32).callers, 1);
    // A part of fewer images would be less than the transform of its weights.
    for (const Pass pass : {Pass::forward, Pass::backward_data, Pass::backward_weight})
        EXPECT_EQ(deal(three_by_three(4, 512, 512), pass, Type::f32, 64, 2), (BatchDeal{1, 1}));
    EXPECT_EQ(deal(three_by_three(28, 64, 64), Pass::forward, Type::f32, 1, 2), (BatchDeal{1, 1}));
}

TEST(Deal, OfMoreWeightsThanImagesTheDataGradientIsComputedTogether) {
    EXPECT_EQ(deal(three_by_three(7, 256, 512, 2), Pass::forward, Type::f32, 64, 2), (BatchDeal{2, 2}));
    EXPECT_EQ(deal(three_by_three(7, 256, 512, 2), Pass::backward_data, Type::f32, 64, 2), (BatchDeal{1, 1}));
    EXPECT_EQ(deal(three_by_three(14, 128, 256, 2), Pass::backward_data, Type::f32, 64, 2).callers, 2);
}

TEST(Deal, ADirectWeightGradientHasASlicePerThreadUnlessItsSumsOutweighTheImages) {
    EXPECT_EQ(deal(three_by_three(28, 64, 128, 2), Pass::backward_weight, Type::f32, 64, 2),
              (BatchDeal{2, 2}));
    EXPECT_EQ(deal(three_by_three(28, 64, 128, 2), Pass::backward_weight, Type::f32, 64, 1),
              (BatchDeal{1, 1}));
    EXPECT_EQ(deal(three_by_three(7, 256, 512, 2), Pass::backward_weight, Type::f32, 64, 2),
              (BatchDeal{1, 1}));
    EXPECT_EQ(deal(three_by_three(28, 64, 128, 2), Pass::backward_weight, Type::f32, 1, 2),
              (BatchDeal{1, 1}));
}

}  // namespace
}  // namespace tutti
