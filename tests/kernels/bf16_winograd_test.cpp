// Our own Winograd convolutions in bf16: numbers whose transforms bf16 has must give exact results, others an
// error like that of a direct convolution.
#include "bf16_winograd.hpp"

#include <omp.h>

#include "backend.hpp"
#include "bf16_reference.hpp"
#include "bf16_winograd_shapes.hpp"
#include "images_alone.hpp"
#include "op_case.hpp"
#include "reference.hpp"

namespace tutti::test {
namespace {

class Bf16Winograd : public Bf16KernelTest {};

struct WinogradCase : OpCase<Conv2dShape> {
    using OpCase::OpCase;
    /// Small whole numbers, whose sums of four, and quarters of sums of nine, bf16 has.
    void make_whole() {
        for (TestTensor* one : {&x, &dy, &bias, &weight}) test::make_whole(*one, 4);
        for (std::size_t i = 0; i < weight.size(); ++i) weight.set(i, 4 * weight.get(i));
    }
    void run() {
        bf16_winograd_forward(shape, batch, data(x), data(weight), if_biased(bias), data(y), workspace);
        bf16_winograd_backward_data(shape, batch, data(weight), data(dy), data(dx), workspace);
    }
};

TEST_F(Bf16Winograd, is_exact_where_bf16_has_the_transformed_numbers) {
    for (const Conv2dShape& shape : winograd_shapes())
        for (const std::int64_t batch : {1, 5}) {
            SCOPED_TRACE(testing::Message() << name(shape) << ", batch " << batch);
            ASSERT_TRUE(takes_bf16_winograd(shape));
            WinogradCase one(shape, batch);
            one.make_whole();
            one.run();
            expect_exactly(one.y, one.expected_y());
            expect_exactly(one.dx, one.expected().dx);
        }
}

TEST_F(Bf16Winograd, has_errors_like_a_direct_convolution_of_rounded_inputs) {
    for (const Conv2dShape& shape :
         {winograd_shape(8, 8, 64, 64, 1, 1), winograd_shape(7, 9, 128, 64, 1, 1, false)}) {
        SCOPED_TRACE(name(shape));
        WinogradCase one(shape, 2);
        one.run();
        const TestTensor x = rounded(one.x), weight = rounded(one.weight), dy = rounded(one.dy);
        const Sums y = one.expected_y();
        const double direct = relative_error(reference_forward(shape, 2, x, weight, one.bias), y);
        const double ours = relative_error(one.y, y);
        const Sums dx = one.expected().dx;
        const double direct_dx = relative_error(reference_backward(shape, 2, x, weight, dy).dx, dx);
        const double our_dx = relative_error(one.dx, dx);
        // Measured: 1.8 to 1.9 times.
        EXPECT_LE(ours, 2.2 * direct);
        EXPECT_LE(our_dx, 2.2 * direct_dx);
    }
}

TEST_F(Bf16Winograd, has_the_same_bits_with_any_number_of_threads) {
    const Conv2dShape shape = winograd_shape(7, 5, 64, 80, 1, 1);
    WinogradCase one(shape, 20), other(shape, 20);
    expect_the_bits_of_one_thread(one, other, {2, 3, 5});
}

TEST_F(Bf16Winograd, images_have_the_same_bits_alone_and_in_a_batch) {
    const Conv2dShape shape = winograd_shape(7, 5, 64, 80, 1, 1);
    WinogradCase all(shape, 9), one(shape, 1);
    expect_images_as_alone(all, one, 9);
}

TEST_F(Bf16Winograd, takes_no_shapes_that_it_cannot_compute) {
    const Conv2dShape good = winograd_shape(4, 4, 64, 64, 1, 1);
    EXPECT_TRUE(takes_bf16_winograd(good));
    const auto takes = [&](const auto& change) {
        Conv2dShape shape = good;
        change(shape);
        return takes_bf16_winograd(shape);
    };
    EXPECT_FALSE(takes([](Conv2dShape& s) { s.kernel_w = 5; }));
    EXPECT_FALSE(takes([](Conv2dShape& s) { s.stride_h = 2; }));
    EXPECT_FALSE(takes([](Conv2dShape& s) { s.groups = 2; }));
    EXPECT_FALSE(takes([](Conv2dShape& s) { s.padding_w = 3; }));
    EXPECT_FALSE(takes([](Conv2dShape& s) { s.in = 72; }));
    EXPECT_FALSE(takes([](Conv2dShape& s) { s.out = 72; }));
    EXPECT_TRUE(takes([](Conv2dShape& s) { s.in = 32; }));
    EXPECT_TRUE(takes([](Conv2dShape& s) { s.out = 32; }));
    EXPECT_FALSE(takes([](Conv2dShape& s) { s.in = s.out = 32; }));
    EXPECT_FALSE(takes([](Conv2dShape& s) { s.in = 16; }));
}

}  // namespace
}  // namespace tutti::test
