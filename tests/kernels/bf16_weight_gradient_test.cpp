// Weight gradients by our own instructions: beside what bf16_products_test.cpp asks of any bf16 operator, the
// ways in which images are cut up.
#include <omp.h>

#include <bit>

#include "backend.hpp"
#include "bf16_reference.hpp"
#include "bf16_weight_gradient.hpp"
#include "op_case.hpp"
#include "reference.hpp"

namespace tutti::test {
namespace {

class Bf16WeightGradient : public Bf16KernelTest {};

template <class OpShape>
struct WeightGradientCase : OpCase<OpShape> {
    using Case = OpCase<OpShape>;
    using Case::batch, Case::dbias, Case::dweight, Case::dy, Case::shape, Case::weight, Case::x;
    std::vector<std::uint16_t> rounded_dy;

    WeightGradientCase(const OpShape& of, std::int64_t count)
        : Case(of, count), rounded_dy(dy.size(), 0xffff) {}
    void run(bool add = false) {
        const GradientOfOutput also{rounded_dy.data(), Case::data(dbias)};
        if constexpr (std::is_same_v<OpShape, Conv2dShape>)
            bf16_weight_gradient(shape, batch, Case::data(x), Case::data(dy), Case::data(dweight), also, add,
                                 Case::workspace);
        else
            bf16_weight_gradient(shape, batch, Case::data(x), Case::data(dy), Case::data(dweight), also,
                                 Case::workspace);
    }
    void expect_definition() {
        const Gradients expected = reference_backward(shape, batch, rounded(x), weight, rounded(dy));
        expect_sums(dweight, expected.dweight, 0x1p-24);
        expect_sums(dbias, Case::expected().dbias, 0x1p-24);
        for (std::size_t i = 0; i < dy.size(); ++i)
            ASSERT_EQ(rounded_dy[i], bf16_bits(dy.get(i))) << "element " << i << " of dy";
    }
};

std::vector<Conv2dShape> gradient_convolutions() {
    const auto square = [](std::int64_t size, std::int64_t in, std::int64_t out, std::int64_t kernel,
                           std::int64_t stride, std::int64_t padding) {
        Conv2dShape shape;
        shape.height = shape.width = size;
        shape.in = in;
        shape.out = out;
        shape.kernel_h = shape.kernel_w = kernel;
        shape.stride_h = shape.stride_w = stride;
        shape.padding_h = shape.padding_w = padding;
        return shape;
    };
    // 49 and 80 channels are more than a slab; of a 5 × 5 image's output rows each has a last pixel alone; a
    // kernel larger than the image meets padding only.
    std::vector<Conv2dShape> shapes = {square(5, 16, 49, 3, 1, 1), square(6, 80, 7, 3, 2, 1),
                                       square(7, 32, 1, 1, 2, 0),  square(4, 48, 13, 2, 1, 0),
                                       square(2, 16, 3, 3, 1, 2),  square(1, 16, 2, 5, 1, 2),
                                       square(9, 16, 5, 3, 4, 1)};
    Conv2dShape oblong = square(1, 64, 12, 1, 1, 0);
    oblong.height = 9;
    oblong.width = 11;
    oblong.kernel_h = 4;
    oblong.kernel_w = 3;
    oblong.stride_h = 2;
    oblong.stride_w = 3;
    oblong.padding_h = 3;
    oblong.padding_w = 1;
    shapes.push_back(oblong);
    return shapes;
}

std::string gradient_name(const Conv2dShape& s) {
    return to_string(Shape{s.height, s.width, s.in}) + " -> " + std::to_string(s.out) + ", kernel " +
           to_string(Shape{s.kernel_h, s.kernel_w}) + ", stride " + std::to_string(s.stride_w);
}

TEST_F(Bf16WeightGradient, of_convolutions_is_the_definition_on_rounded_inputs) {
    for (const Conv2dShape& shape : gradient_convolutions())
        for (const std::int64_t batch : {1, 2, 70}) {
            SCOPED_TRACE(testing::Message() << gradient_name(shape) << ", batch " << batch);
            WeightGradientCase<Conv2dShape> one(shape, batch);
            one.run();
            one.expect_definition();
        }
}

TEST_F(Bf16WeightGradient, of_linear_layers_is_the_definition_on_rounded_inputs) {
    for (const LinearShape& shape : {LinearShape{.in = 16, .out = 1}, LinearShape{.in = 144, .out = 101}})
        for (const std::int64_t rows : {1, 2, 127, 128, 385}) {
            SCOPED_TRACE(testing::Message() << shape.in << " -> " << shape.out << ", rows " << rows);
            WeightGradientCase<LinearShape> one(shape, rows);
            one.run();
            one.expect_definition();
        }
}

TEST_F(Bf16WeightGradient, is_added_where_asked) {
    const Conv2dShape shape = gradient_convolutions().front();
    WeightGradientCase<Conv2dShape> once(shape, 3), twice(shape, 3);
    once.run();
    twice.run();
    twice.run(true);
    for (std::size_t i = 0; i < once.dweight.size(); ++i)
        ASSERT_NEAR(twice.dweight.get(i), 2 * once.dweight.get(i), 0x1p-18);
    // Its images are added one by one.
    for (std::size_t i = 0; i < once.dbias.size(); ++i)
        ASSERT_NEAR(twice.dbias.get(i), 2 * once.dbias.get(i), 0x1p-12);
}

TEST_F(Bf16WeightGradient, has_the_same_bits_with_any_number_of_threads) {
    WeightGradientCase<Conv2dShape> convolution(gradient_convolutions().front(), 70),
        again(gradient_convolutions().front(), 70);
    expect_the_bits_of_one_thread(convolution, again, {2, 3, 5});
    const LinearShape linear{.in = 144, .out = 101};
    WeightGradientCase<LinearShape> rows(linear, 300), rows_again(linear, 300);
    expect_the_bits_of_one_thread(rows, rows_again, {2, 3, 5});
}

TEST_F(Bf16WeightGradient, rounds_to_nearest_even_and_keeps_what_is_no_number) {
    const float infinity = std::numeric_limits<float>::infinity();
    const float first[] = {1 + 0x1p-8f, 1 + 3 * 0x1p-8f, -0.0f, infinity},
                second[] = {3, -0x1p-100f, NAN, 65281};
    Bf16Pair pairs[4];
    make_bf16_pairs(first, second, 4, pairs);
    const auto half = [](Bf16Pair bits) { return std::bit_cast<float>(bits << 16); };
    EXPECT_EQ(half(pairs[0] & 0xffffu), 1);
    EXPECT_EQ(half(pairs[1] & 0xffffu), 1 + 0x1p-6f);
    EXPECT_TRUE(std::signbit(half(pairs[2] & 0xffffu)));
    EXPECT_EQ(half(pairs[3] & 0xffffu), infinity);
    EXPECT_EQ(half(pairs[0] >> 16), 3);
    EXPECT_EQ(half(pairs[1] >> 16), -0x1p-100f);
    EXPECT_TRUE(std::isnan(half(pairs[2] >> 16)));
    EXPECT_EQ(half(pairs[3] >> 16), 65280);
}

}  // namespace
}  // namespace tutti::test
