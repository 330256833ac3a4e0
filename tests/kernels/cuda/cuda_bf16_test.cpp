// What a GPU computes another way when products are in bf16, beside its own fp32: on the fake GPU and on a
// real one.

#include "../backend.hpp"
#include "cuda_ops.hpp"

namespace tutti::test {
namespace {

TEST(CudaBf16, attention_is_fused_and_stays_near_fp32) {
    const auto context = std::make_shared<cuda::CudaContext>();
    cuda::CudaOps exact(context, cuda::ProductType::fp32);
    cuda::FusedAttention fused(context);
    // No multiple of 64 tokens; the heads of the models. The first three by our own kernels, the others by
    // cuDNN.
    for (const AttentionShape& shape :
         {AttentionShape{50, 2, 32}, AttentionShape{197, 1, 64}, AttentionShape{250, 3, 64},
          AttentionShape{65, 1, 128}, AttentionShape{261, 1, 64}}) {
        SCOPED_TRACE(testing::Message()
                     << shape.tokens << " tokens, " << shape.heads << " heads of " << shape.width);
        const Shape packed{2, shape.tokens, 3, shape.heads, shape.width};
        const Shape plain{2, shape.tokens, shape.heads * shape.width};
        auto qkv = TestTensor::random(DType::f32, packed, 1), dout = TestTensor::random(DType::f32, plain, 2);
        TestTensor out(DType::f32, plain), dqkv(DType::f32, packed), expected_out = out, expected_dqkv = dqkv;
        exact.attention_forward(shape, qkv.view(), expected_out.view(), {});
        exact.attention_backward(shape, qkv.view(), {}, {}, dout.view(), expected_dqkv.view());
        TestTensor statistics(DType::f32, {2, shape.heads, shape.tokens});
        ASSERT_TRUE(fused.forward(shape, qkv.view(), out.view(), statistics.view(), {}));
        ASSERT_TRUE(
            fused.backward(shape, qkv.view(), out.view(), statistics.view(), dout.view(), dqkv.view(), {}));
        // bf16 has steps of 2⁻⁸; sums of roundings of either sign grow with their root.
        expect_near(out.values(), expected_out.values(), 0.02);
        expect_near(dqkv.values(), expected_dqkv.values(), 0.06);
    }
}

/// Random numbers that bf16 holds, in either type.
struct Both {
    Both(const Shape& shape, unsigned seed)
        : narrow(TestTensor::random(DType::bf16, shape, seed)), wide(DType::f32, shape, narrow.values()) {}
    TestTensor narrow, wide;
};
/// Results in either type: those in bf16 are those in f32, rounded once.
struct BothResults {
    explicit BothResults(const Shape& shape) : narrow(DType::bf16, shape), wide(DType::f32, shape) {}
    void expect_alike() {
        double largest = 0;
        for (const double value : wide.values()) largest = std::max(largest, std::abs(value));
        EXPECT_GT(largest, 0);
        expect_near(narrow.values(), wide.values(), largest / 256);
    }
    TestTensor narrow, wide;
};

class CudaBf16Activations : public ::testing::Test {
  protected:
    std::shared_ptr<cuda::CudaContext> context_ = std::make_shared<cuda::CudaContext>();
    cuda::CudaOps ops_{context_, cuda::ProductType::bf16};
};

TEST_F(CudaBf16Activations, are_what_operators_with_products_in_bf16_prefer) {
    EXPECT_EQ(ops_.compute(), DType::f32);
    EXPECT_EQ(ops_.activations(), DType::bf16);
    EXPECT_EQ(cuda::CudaOps(context_, cuda::ProductType::tf32).activations(), DType::f32);
}

TEST_F(CudaBf16Activations, of_a_linear_layer) {
    const auto op = ops_.linear({.in = 24, .out = 10});
    Both x({5, 24}, 1), weight({10, 24}, 2), bias({10}, 3), dy({5, 10}, 4);
    BothResults y({5, 10}), dx({5, 24});
    std::array<TestTensor, 2> dweight{TestTensor(DType::f32, {10, 24}), TestTensor(DType::f32, {10, 24})};
    std::array<TestTensor, 2> dbias{TestTensor(DType::f32, {10}), TestTensor(DType::f32, {10})};
    op->forward(x.wide.view(), weight.wide.view(), bias.wide.view(), y.wide.view());
    op->forward(x.narrow.view(), weight.wide.view(), bias.wide.view(), y.narrow.view());
    y.expect_alike();
    op->backward(x.wide.view(), weight.wide.view(), dy.wide.view(), dx.wide.view(), dweight[0].view(),
                 dbias[0].view());
    op->backward(x.narrow.view(), weight.wide.view(), dy.narrow.view(), dx.narrow.view(), dweight[1].view(),
                 dbias[1].view());
    dx.expect_alike();
    expect_near(dweight[1].values(), dweight[0].values(), 1e-5);
    expect_near(dbias[1].values(), dbias[0].values(), 1e-5);
    // The model's last product: bf16 in, f32 out, and its gradient f32.
    TestTensor last(DType::f32, {5, 10});
    op->forward(x.narrow.view(), weight.wide.view(), bias.wide.view(), last.view());
    expect_near(last.values(), y.wide.values(), 1e-5);
    op->backward(x.narrow.view(), weight.wide.view(), dy.wide.view(), dx.narrow.view(), dweight[1].view(),
                 dbias[1].view());
    dx.expect_alike();
    expect_near(dweight[1].values(), dweight[0].values(), 1e-5);
}

TEST_F(CudaBf16Activations, of_convolutions_with_and_without_padded_channels) {
    for (const std::int64_t in : {3, 8}) {
        SCOPED_TRACE(in);
        const auto op = ops_.conv2d({.height = 6,
                                     .width = 5,
                                     .in = in,
                                     .out = 8,
                                     .kernel_h = 3,
                                     .kernel_w = 3,
                                     .padding_h = 1,
                                     .padding_w = 1});
        Both x({2, 6, 5, in}, 1), weight({8, 3, 3, in}, 2), bias({8}, 3), dy({2, 6, 5, 8}, 4);
        BothResults y({2, 6, 5, 8}), dx({2, 6, 5, in});
        std::array<TestTensor, 2> dweight{TestTensor(DType::f32, {8, 3, 3, in}),
                                          TestTensor(DType::f32, {8, 3, 3, in})};
        std::array<TestTensor, 2> dbias{TestTensor(DType::f32, {8}), TestTensor(DType::f32, {8})};
        op->forward(x.wide.view(), weight.wide.view(), bias.wide.view(), y.wide.view());
        op->forward(x.narrow.view(), weight.wide.view(), bias.wide.view(), y.narrow.view());
        y.expect_alike();
        op->backward(x.wide.view(), weight.wide.view(), dy.wide.view(), dx.wide.view(), dweight[0].view(),
                     dbias[0].view());
        op->backward(x.narrow.view(), weight.wide.view(), dy.narrow.view(), dx.narrow.view(),
                     dweight[1].view(), dbias[1].view());
        dx.expect_alike();
        expect_near(dweight[1].values(), dweight[0].values(), 1e-5);
        expect_near(dbias[1].values(), dbias[0].values(), 1e-5);
    }
}

class CudaBf16FewChannels : public CudaBf16Activations, public testing::WithParamInterface<Conv2dShape> {};

TEST_P(CudaBf16FewChannels, of_a_strided_convolution_agree_with_fp32) {
    cuda::CudaOps exact(context_, cuda::ProductType::fp32);
    const Conv2dShape& s = GetParam();
    const Shape in{2, s.height, s.width, s.in}, filter{s.out, s.kernel_h, s.kernel_w, s.in},
        out{2, s.out_height(), s.out_width(), s.out};
    Both x(in, 1), weight(filter, 2), bias({s.out}, 3), dy(out, 4);
    TestTensor y(DType::f32, out), dx(DType::f32, in), dweight(DType::f32, filter),
        dbias(DType::f32, {s.out});
    const auto expected = exact.conv2d(s);
    expected->forward(x.wide.view(), weight.wide.view(), bias.wide.view(), y.view());
    expected->backward(x.wide.view(), weight.wide.view(), dy.wide.view(), dx.view(), dweight.view(),
                       dbias.view());
    const auto largest = [](const TestTensor& tensor) {
        double most = 0;
        for (const double value : tensor.values()) most = std::max(most, std::abs(value));
        return most;
    };
    for (const bool narrow : {false, true}) {
        const DType type = narrow ? DType::bf16 : DType::f32;
        const auto of = [&](Both& both) { return narrow ? both.narrow.view() : both.wide.view(); };
        TestTensor its_y(type, out), its_dx(type, in), its_dweight(DType::f32, filter);
        const auto op = ops_.conv2d(s);
        for (int step = 0; step < 2; ++step) {
            op->forward(of(x), of(weight), bias.wide.view(), its_y.view());
            op->backward(of(x), of(weight), of(dy), step == 0 ? TensorView{} : its_dx.view(),
                         its_dweight.view(), dbias.view());
            expect_near(its_y.values(), y.values(), largest(y) / 100);
            expect_near(its_dweight.values(), dweight.values(), largest(dweight) / 100);
        }
        expect_near(its_dx.values(), dx.values(), largest(dx) / 100);
    }
}

// Folded: an image model's first in small, odd sizes. Not: three windows side by side, and a small kernel.
// Tests of their own, so that a tool under which one fails tells which.
INSTANTIATE_TEST_SUITE_P(Shapes, CudaBf16FewChannels,
                         testing::Values(Conv2dShape{16, 16, 3, 8, 7, 7, 2, 2, 3, 3},
                                         Conv2dShape{9, 17, 1, 16, 5, 6, 2, 2, 0, 2},
                                         Conv2dShape{12, 6, 3, 8, 7, 7, 2, 2, 3, 3},
                                         Conv2dShape{9, 8, 4, 8, 3, 3, 2, 2, 1, 1}));

/// Random numbers in f32, and as the operators round them for products.
struct Parameter {
    Parameter(cuda::CudaOps& ops, const Shape& shape, unsigned seed)
        : given(TestTensor::random(DType::f32, shape, seed)), rounded(ops.product_inputs(), shape) {
        ops.round_for_products(given.view(), rounded.view());
    }
    TestTensor given, rounded;
};

TEST_F(CudaBf16Activations, of_weights_that_were_rounded_before_have_the_same_bits) {
    ASSERT_EQ(ops_.product_inputs(), DType::bf16);
    const auto expect_same = [](const TestTensor& a, const TestTensor& b) {
        EXPECT_TRUE(a.bytes() == b.bytes());
    };
    Parameter weight(ops_, {10, 24}, 1), bias(ops_, {10}, 2);
    EXPECT_NE(weight.given.values(), weight.rounded.values());
    const auto linear = ops_.linear({.in = 24, .out = 10});
    auto x = TestTensor::random(DType::bf16, {5, 24}, 3);
    for (const DType result : {DType::bf16, DType::f32}) {
        TestTensor expected(result, {5, 10}), y(result, {5, 10}), expected_dx(DType::bf16, {5, 24}),
            dx(DType::bf16, {5, 24}), dweight(DType::f32, {10, 24}), dbias(DType::f32, {10});
        auto dy = TestTensor::random(result, {5, 10}, 4);
        linear->forward(x.view(), weight.given.view(), bias.given.view(), expected.view());
        linear->forward(x.view(), weight.rounded.view(),
                        result == DType::bf16 ? bias.rounded.view() : bias.given.view(), y.view());
        expect_same(y, expected);
        linear->backward(x.view(), weight.given.view(), dy.view(), expected_dx.view(), dweight.view(),
                         dbias.view());
        linear->backward(x.view(), weight.rounded.view(), dy.view(), dx.view(), dweight.view(), dbias.view());
        expect_same(dx, expected_dx);
    }
    Parameter token(ops_, {24}, 8), places(ops_, {6, 24}, 9);
    TestTensor embedded(DType::bf16, {1, 6, 24}), expected_embedded(DType::bf16, {1, 6, 24});
    const TensorView tokens = x.view().reshaped({1, 5, 24});
    ops_.embed_tokens_forward(tokens, token.given.view(), places.given.view(), expected_embedded.view());
    ops_.embed_tokens_forward(tokens, token.rounded.view(), places.rounded.view(), embedded.view());
    expect_same(embedded, expected_embedded);
    // Three channels are padded.
    for (const std::int64_t in : {3, 8}) {
        const auto conv =
            ops_.conv2d({.height = 6, .width = 5, .in = in, .out = 8, .kernel_h = 3, .kernel_w = 3});
        Parameter kernel(ops_, {8, 3, 3, in}, 5);
        auto image = TestTensor::random(DType::bf16, {2, 6, 5, in}, 6);
        auto dy = TestTensor::random(DType::bf16, {2, 4, 3, 8}, 7);
        const auto channels = TestTensor::random(DType::f32, {8}, 8);
        std::array<TestTensor, 2> y{TestTensor(DType::bf16, {2, 4, 3, 8}),
                                    TestTensor(DType::bf16, {2, 4, 3, 8})};
        std::array<TestTensor, 2> dx{TestTensor(DType::bf16, {2, 6, 5, in}),
                                     TestTensor(DType::bf16, {2, 6, 5, in})};
        for (std::size_t i = 0; i < 2; ++i) {
            TestTensor& given = i == 0 ? kernel.given : kernel.rounded;
            auto offsets = channels;
            conv->forward(image.view(), given.view(), offsets.view(), y[i].view());
            conv->backward_data(given.view(), dy.view(), dx[i].view());
        }
        expect_same(y[1], y[0]);
        expect_same(dx[1], dx[0]);
    }
}

TEST_F(CudaBf16Activations, of_attention_fused_and_head_by_head) {
    // Our own kernels, cuDNN's engines, which take heads of multiples of 8 alone, and products.
    for (const std::int64_t width : {32, 16, 12}) {
        SCOPED_TRACE(width);
        const AttentionShape shape{20, 2, width};
        const Shape packed{2, 20, 3, 2, width}, plain{2, 20, 2 * width};
        Both qkv(packed, 1), dout(plain, 2);
        BothResults out(plain), dqkv(packed);
        TestTensor statistics(DType::f32, {2, 2, 20});
        ops_.attention_forward(shape, qkv.wide.view(), out.wide.view(), statistics.view());
        ops_.attention_forward(shape, qkv.narrow.view(), out.narrow.view(), statistics.view());
        out.expect_alike();
        ops_.attention_backward(shape, qkv.wide.view(), out.wide.view(), statistics.view(), dout.wide.view(),
                                dqkv.wide.view());
        ops_.attention_backward(shape, qkv.narrow.view(), out.narrow.view(), statistics.view(),
                                dout.narrow.view(), dqkv.narrow.view());
        dqkv.expect_alike();
    }
}

TEST_F(CudaBf16Activations, of_tokens_whose_parameters_are_f32) {
    for (const bool with_class : {false, true}) {
        const std::int64_t tokens = with_class ? 5 : 4;
        Both x({3, 4, 8}, 1), token({8}, 2), positions({tokens, 8}, 3);
        BothResults y({3, tokens, 8});
        const TensorView given = with_class ? token.wide.view() : TensorView{};
        ops_.embed_tokens_forward(x.wide.view(), given, positions.wide.view(), y.wide.view());
        ops_.embed_tokens_forward(x.narrow.view(), given, positions.wide.view(), y.narrow.view());
        y.expect_alike();
    }
}

TEST_F(CudaBf16Activations, of_hidden_tokens_whose_parameters_are_f32_or_were_rounded_before) {
    constexpr TubeMask mask{5, 1, 3};
    const std::vector<std::int64_t> samples = {4, 9};
    TestTensor order(DType::i64, {2, 5});
    ops_.mask_tokens({.seed = 1, .positions = samples}, mask, order.view());
    auto patches = TestTensor::random(DType::f32, {2, 5, 24}, 1);
    BothResults x({2, 2, 24}), y({2, 5, 24});
    ops_.take_tokens(patches.view(), order.view(), x.wide.view());
    ops_.take_tokens(patches.view(), order.view(), x.narrow.view());
    x.expect_alike();
    Parameter token(ops_, {24}, 2), places(ops_, {5, 24}, 3);
    ops_.fill_tokens_forward(x.wide.view(), token.given.view(), places.given.view(), order.view(),
                             y.wide.view());
    ops_.fill_tokens_forward(x.narrow.view(), token.given.view(), places.given.view(), order.view(),
                             y.narrow.view());
    y.expect_alike();
    for (const TensorView& given : {token.given.view(), token.rounded.view()})
        for (const TensorView& at : {places.given.view(), places.rounded.view()}) {
            TestTensor same(DType::bf16, {2, 5, 24});
            ops_.fill_tokens_forward(x.narrow.view(), given, at, order.view(), same.view());
            EXPECT_TRUE(same.bytes() == y.narrow.bytes());
        }
    TestTensor dtoken(DType::f32, {24}), expected(DType::f32, {24}),
        wide(DType::f32, {2, 5, 24}, y.narrow.values());
    ops_.fill_tokens_backward(y.narrow.view(), x.narrow.view(), dtoken.view(), 2);
    ops_.fill_tokens_backward(wide.view(), x.wide.view(), expected.view(), 2);
    expect_near(dtoken.values(), expected.values(), 1e-5);
    EXPECT_EQ(x.narrow.values(), x.wide.values());
}

TEST_F(CudaBf16Activations, are_added) {
    Both x({1000}, 1), y({1000}, 2);
    ops_.add(x.wide.view(), y.wide.view());
    ops_.add(x.narrow.view(), y.narrow.view());
    expect_near(y.narrow.values(), y.wide.values(), 2.0 / 256);
}

}  // namespace
}  // namespace tutti::test
