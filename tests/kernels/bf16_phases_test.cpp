// Our own convolutions of 3×3 that move by 2, in bf16, and their gradients: numbers whose transforms bf16 has
// must give exact results, others an error like that of a direct convolution.
#include "bf16_phases.hpp"

#include <omp.h>

#include "backend.hpp"
#include "bf16_phase_gradient.hpp"
#include "bf16_reference.hpp"
#include "images_alone.hpp"
#include "op_case.hpp"
#include "reference.hpp"

namespace tutti::test {
namespace {

class Bf16Phases : public Bf16KernelTest {};

Conv2dShape strided(std::int64_t height, std::int64_t width, std::int64_t in, std::int64_t out,
                    std::int64_t padding_h, std::int64_t padding_w, bool bias = true) {
    return {.height = height,
            .width = width,
            .in = in,
            .out = out,
            .kernel_h = 3,
            .kernel_w = 3,
            .stride_h = 2,
            .stride_w = 2,
            .padding_h = padding_h,
            .padding_w = padding_w,
            .bias = bias};
}

/// Even and odd sizes of images and of outputs, one output alone, pixels that no window has, slabs that are
/// full and not, and few channels.
std::vector<Conv2dShape> strided_shapes() {
    return {strided(8, 8, 64, 64, 1, 1),         strided(7, 9, 64, 80, 1, 1),
            strided(14, 5, 80, 64, 0, 0),        strided(3, 3, 64, 64, 0, 0),
            strided(1, 1, 64, 64, 1, 1),         strided(1, 2, 96, 144, 2, 1, false),
            strided(6, 4, 64, 64, 0, 2, false),  strided(5, 12, 32, 64, 1, 1),
            strided(12, 2, 64, 32, 1, 1, false), strided(13, 11, 64, 112, 2, 2)};
}

std::string strided_name(const Conv2dShape& s) {
    return to_string(Shape{s.height, s.width, s.in}) + " -> " + std::to_string(s.out) + ", padding " +
           to_string(Shape{s.padding_h, s.padding_w});
}

struct StridedCase : OpCase<Conv2dShape> {
    using OpCase::OpCase;
    /// Small whole numbers, whose sums of four bf16 has.
    void make_whole() {
        for (TestTensor* one : {&x, &weight, &dy, &bias}) test::make_whole(*one, 4);
    }
    void run() {
        bf16_phases_forward(shape, batch, data(x), data(weight), if_biased(bias), data(y), workspace);
        bf16_phases_backward_data(shape, batch, data(weight), data(dy), data(dx), workspace);
        bf16_phases_weight_gradient(shape, batch, data(x), data(dy), data(dweight), if_biased(dbias),
                                    workspace);
    }
};

TEST_F(Bf16Phases, are_exact_where_bf16_has_the_transformed_numbers) {
    for (const Conv2dShape& shape : strided_shapes())
        for (const std::int64_t batch : {1, 5}) {
            SCOPED_TRACE(testing::Message() << strided_name(shape) << ", batch " << batch);
            ASSERT_TRUE(takes_bf16_phases(shape));
            StridedCase one(shape, batch);
            one.make_whole();
            one.run();
            expect_exactly(one.y, one.expected_y());
            const Gradients expected = one.expected();
            expect_exactly(one.dx, expected.dx);
            expect_exactly(one.dweight, expected.dweight);
            if (shape.bias) expect_exactly(one.dbias, expected.dbias);
        }
}

/// More images than are computed at once, and sums that are continued.
TEST_F(Bf16Phases, are_exact_over_many_images) {
    for (const int threads : {1, 2}) {
        omp_set_num_threads(threads);
        StridedCase one(strided(27, 25, 64, 48, 1, 1), 9);
        one.make_whole();
        one.run();
        expect_exactly(one.y, one.expected_y());
        const Gradients expected = one.expected();
        expect_exactly(one.dx, expected.dx);
        expect_exactly(one.dweight, expected.dweight);
    }
}

TEST_F(Bf16Phases, have_errors_like_a_direct_convolution_of_rounded_inputs) {
    for (const Conv2dShape& shape : {strided(16, 16, 64, 64, 1, 1), strided(13, 17, 128, 64, 1, 1, false)}) {
        SCOPED_TRACE(strided_name(shape));
        StridedCase one(shape, 3);
        one.run();
        StridedCase direct(shape, 3);
        direct.x = rounded(one.x);
        direct.weight = rounded(one.weight);
        direct.dy = rounded(one.dy);
        const Gradients expected = one.expected(), of_rounded = direct.expected();
        const auto times = [](const TestTensor& ours, const Sums& rounded_sums, const Sums& sums) {
            return relative_error(ours, sums) / relative_error(rounded_sums, sums);
        };
        const double y = times(one.y, direct.expected_y(), one.expected_y()),
                     dx = times(one.dx, of_rounded.dx, expected.dx),
                     dweight = times(one.dweight, of_rounded.dweight, expected.dweight);
        RecordProperty("y", std::to_string(y));
        RecordProperty("dx", std::to_string(dx));
        RecordProperty("dweight", std::to_string(dweight));
        // Measured: 1.66 to 1.83.
        EXPECT_LE(y, 2.2);
        EXPECT_LE(dx, 2.2);
        EXPECT_LE(dweight, 2.2);
    }
}

TEST_F(Bf16Phases, have_the_same_bits_with_any_number_of_threads) {
    const Conv2dShape shape = strided(13, 9, 64, 80, 1, 1);
    StridedCase one(shape, 21), other(shape, 21);
    expect_the_bits_of_one_thread(one, other, {2, 3, 5, 16});
}

TEST_F(Bf16Phases, images_have_the_same_bits_alone_and_in_a_batch) {
    const Conv2dShape shape = strided(7, 5, 64, 80, 1, 1);
    StridedCase all(shape, 9), one(shape, 1);
    expect_images_as_alone(all, one, 9);
}

TEST_F(Bf16Phases, take_no_shapes_that_they_cannot_compute) {
    const auto takes = [](const auto& change) {
        Conv2dShape shape = strided(8, 8, 64, 64, 1, 1);
        change(shape);
        return takes_bf16_phases(shape);
    };
    EXPECT_TRUE(takes([](Conv2dShape&) {}));
    EXPECT_FALSE(takes([](Conv2dShape& s) { s.kernel_h = 1; }));
    EXPECT_FALSE(takes([](Conv2dShape& s) { s.stride_h = 1; }));
    EXPECT_FALSE(takes([](Conv2dShape& s) { s.stride_w = 3; }));
    EXPECT_FALSE(takes([](Conv2dShape& s) { s.groups = 2; }));
    EXPECT_FALSE(takes([](Conv2dShape& s) { s.padding_w = 3; }));
    EXPECT_FALSE(takes([](Conv2dShape& s) { s.in = 72; }));
    EXPECT_FALSE(takes([](Conv2dShape& s) { s.out = 16; }));
}

}  // namespace
}  // namespace tutti::test
