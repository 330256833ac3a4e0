// Convolutions by the processor's matrix unit: whole numbers that bf16 has must give exact results.
#include "amx_convolution.hpp"

#include "amx_products.hpp"
#include "amx_weight_gradient.hpp"
#include "backend.hpp"
#include "bf16_reference.hpp"
#include "images_alone.hpp"
#include "op_case.hpp"
#include "reference.hpp"

namespace tutti::test {
namespace {

class AmxConvolutionTest : public Bf16KernelTest {
  protected:
    void SetUp() override {
        if (!has_amx_products()) GTEST_SKIP() << "this processor has no matrix unit (AMX)";
    }
};

struct AmxConvolutionCase : OpCase<Conv2dShape> {
    using OpCase::OpCase;
    void make_whole() {
        for (TestTensor* one : {&x, &weight, &bias, &dy}) test::make_whole(*one, 8);
    }
    void run() {
        const AmxConvolution convolution(shape);
        convolution.forward(batch, data(x), data(weight), if_biased(bias), data(y), workspace);
        convolution.backward_data(batch, data(weight), data(dy), data(dx), workspace);
        AmxWeightGradient(shape).compute(batch, data(x), data(dy), data(dweight), if_biased(dbias),
                                         workspace);
    }
};

Conv2dShape window(std::int64_t height, std::int64_t width, std::int64_t in, std::int64_t out,
                   std::int64_t kernel, std::int64_t stride, std::int64_t padding, bool bias = true) {
    return {.height = height,
            .width = width,
            .in = in,
            .out = out,
            .kernel_h = kernel,
            .kernel_w = kernel,
            .stride_h = stride,
            .stride_w = stride,
            .padding_h = padding,
            .padding_w = padding,
            .bias = bias};
}

/// Those of a ResNet; slabs of channels that are full and not; windows, strides and paddings that differ by
/// axis; outputs that leave inputs out, and inputs that no window meets.
std::vector<Conv2dShape> amx_shapes() {
    std::vector<Conv2dShape> all = {
        window(7, 7, 64, 64, 3, 1, 1, false), window(8, 6, 32, 48, 3, 2, 1, false),
        window(7, 5, 16, 80, 1, 2, 0),        window(4, 4, 144, 16, 3, 1, 1),
        window(1, 1, 16, 16, 3, 1, 1),        window(2, 1, 16, 32, 3, 1, 2),
        window(30, 17, 16, 16, 3, 1, 1),      window(9, 9, 16, 16, 2, 3, 0),
        window(5, 5, 48, 64, 1, 1, 0),        window(14, 14, 80, 144, 3, 2, 1),
        window(8, 8, 16, 16, 4, 4, 0),        window(6, 6, 16, 16, 5, 3, 2),
    };
    all.push_back({.height = 11,
                   .width = 10,
                   .in = 32,
                   .out = 16,
                   .kernel_h = 5,
                   .kernel_w = 2,
                   .stride_h = 3,
                   .stride_w = 1,
                   .padding_h = 2,
                   .padding_w = 1});
    return all;
}

std::string named(const Conv2dShape& s) {
    return to_string(Shape{s.height, s.width, s.in}) + " -> " + std::to_string(s.out) + ", window " +
           to_string(Shape{s.kernel_h, s.kernel_w}) + ", stride " + to_string(Shape{s.stride_h, s.stride_w});
}

TEST_F(AmxConvolutionTest, is_exact_where_bf16_has_the_numbers) {
    for (const Conv2dShape& shape : amx_shapes())
        for (const std::int64_t batch : {1, 2, 7}) {
            SCOPED_TRACE(testing::Message() << named(shape) << ", batch " << batch);
            ASSERT_TRUE(takes_amx_convolution(shape));
            AmxConvolutionCase one(shape, batch);
            one.make_whole();
            one.run();
            expect_exactly(one.y, one.expected_y());
            const Gradients expected = one.expected();
            expect_exactly(one.dx, expected.dx);
            expect_exactly(one.dweight, expected.dweight);
            if (shape.bias) expect_exactly(one.dbias, expected.dbias);
        }
}

TEST_F(AmxConvolutionTest, rounds_each_factor_once) {
    const Conv2dShape shape = window(7, 6, 80, 64, 3, 1, 1);
    AmxConvolutionCase one(shape, 3);
    one.run();
    const TestTensor x = rounded(one.x), weight = rounded(one.weight), dy = rounded(one.dy);
    expect_sums(one.y, reference_forward(shape, 3, x, weight, one.bias), 0x1p-24);
    const Gradients expected = reference_backward(shape, 3, x, weight, dy);
    expect_sums(one.dx, expected.dx, 0x1p-24);
    expect_sums(one.dweight, expected.dweight, 0x1p-24);
    expect_sums(one.dbias, reference_backward(shape, 3, x, weight, one.dy).dbias, 0x1p-24);
}

TEST_F(AmxConvolutionTest, has_the_same_bits_with_any_number_of_threads) {
    for (const Conv2dShape& shape : {window(7, 5, 64, 80, 3, 1, 1), window(9, 6, 160, 144, 3, 2, 1)}) {
        SCOPED_TRACE(named(shape));
        AmxConvolutionCase one(shape, 19), other(shape, 19);
        expect_the_bits_of_one_thread(one, other, {2, 3, 5});
    }
}

TEST_F(AmxConvolutionTest, images_have_the_same_bits_alone_and_in_a_batch) {
    const Conv2dShape shape = window(7, 5, 64, 80, 3, 2, 1);
    AmxConvolutionCase all(shape, 9), one(shape, 1);
    expect_images_as_alone(all, one, 9);
}

TEST_F(AmxConvolutionTest, takes_no_shapes_that_it_cannot_compute) {
    const Conv2dShape good = window(4, 4, 64, 64, 3, 1, 1);
    const auto takes = [&](const auto& change) {
        Conv2dShape shape = good;
        change(shape);
        return takes_amx_convolution(shape);
    };
    EXPECT_TRUE(takes([](Conv2dShape&) {}));
    EXPECT_FALSE(takes([](Conv2dShape& s) { s.groups = 2; }));
    EXPECT_FALSE(takes([](Conv2dShape& s) { s.in = 72; }));
    EXPECT_FALSE(takes([](Conv2dShape& s) { s.out = 10; }));
}

}  // namespace
}  // namespace tutti::test
