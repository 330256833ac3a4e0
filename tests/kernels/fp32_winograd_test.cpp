// Our own Winograd convolutions in fp32 against the definition in fp64.
#include "fp32_winograd.hpp"

#include <utility>

#include "fp32_winograd_case.hpp"
#include "images_alone.hpp"

namespace tutti::test {
namespace {

class Fp32Winograd : public Fp32WinogradTest {};

struct Fp32ForwardCase : OpCase<Conv2dShape> {
    using OpCase::OpCase;
    void run() {
        fp32_winograd_forward(shape, batch, data(x), data(weight), if_biased(bias), data(y), workspace);
        fp32_winograd_backward_data(shape, batch, data(weight), data(dy), data(dx), workspace);
    }
};

// Few tiles, which strips of weights share, in one or more parts of the summed channels, and many, in blocks
// of which the last is not full. The scratch holds what other layers left there.
TEST_F(Fp32Winograd, agrees_with_the_definition) {
    std::vector<std::pair<Conv2dShape, std::int64_t>> cases{
        {winograd_shape(9, 11, 32, 48, 1, 1), 6},  {winograd_shape(5, 7, 16, 16, 0, 1), 25},
        {winograd_shape(4, 3, 176, 144, 1, 1), 2}, {moving_by_2(8, 6, 96, 144, 4), 2},
        {moving_by_2(7, 7, 160, 160, 3), 1},       {moving_by_2(10, 12, 32, 16, 4), 20}};
    for (const Conv2dShape& shape : winograd_shapes()) cases.emplace_back(shape, 3);
    for (const Conv2dShape& shape : shapes_moving_by_2()) cases.emplace_back(shape, 3);
    for (const auto& [shape, batch] : cases) {
        SCOPED_TRACE(testing::Message() << name(shape) << ", batch " << batch);
        Fp32ForwardCase one(shape, batch);
        one.fill_workspace_with_nan();
        const Sums y = one.expected_y();
        const Sums dx = one.expected().dx;
        for (const int threads : {1, 2}) {
            omp_set_num_threads(threads);
            one.run();
            EXPECT_LE(relative_error(one.y, y), tolerance) << threads << " threads";
            EXPECT_LE(relative_error(one.dx, dx), tolerance) << threads << " threads";
        }
    }
}

TEST_F(Fp32Winograd, has_the_same_bits_with_any_number_of_threads) {
    for (const std::int64_t batch : {3, 40}) {  // few tiles, and many
        for (const Conv2dShape& shape : {winograd_shape(7, 5, 64, 80, 1, 1), moving_by_2(14, 9, 64, 80, 4)}) {
            Fp32ForwardCase one(shape, batch), other(shape, batch);
            expect_the_bits_of_one_thread(one, other, {2, 3, 5, 16});
        }
    }
}

TEST_F(Fp32Winograd, images_have_the_same_bits_alone_and_in_a_batch) {
    for (const Conv2dShape& shape : {winograd_shape(7, 5, 64, 80, 1, 1), moving_by_2(14, 9, 64, 80, 4)}) {
        Fp32ForwardCase all(shape, 40), one(shape, 1);
        expect_images_as_alone(all, one, 40, 13);
    }
}

TEST_F(Fp32Winograd, takes_what_it_computes_faster) {
    const auto of = [](std::int64_t size, std::int64_t in, std::int64_t out, std::int64_t padding = 1) {
        return winograd_shape(size, size, in, out, padding, padding);
    };
    for (const Conv2dShape& layer :
         {of(28, 64, 64), of(14, 128, 128), of(7, 256, 256), of(4, 512, 512), of(28, 32, 32), of(14, 32, 64)})
        EXPECT_TRUE(takes_fp32_winograd(layer)) << name(layer);
    // Tiles mostly behind the edge, and too few channels for the transforms.
    EXPECT_FALSE(takes_fp32_winograd(of(1, 512, 512)));
    EXPECT_FALSE(takes_fp32_winograd(of(2, 512, 512)));
    EXPECT_FALSE(takes_fp32_winograd(of(28, 8, 8)));
    for (const Conv2dShape& layer : {moving_by_2(96, 96, 256, 256, 4), moving_by_2(24, 24, 256, 512, 4),
                                     moving_by_2(56, 56, 128, 128, 3), moving_by_2(16, 16, 256, 512, 3)})
        EXPECT_TRUE(takes_fp32_winograd(layer)) << name(layer);
    EXPECT_FALSE(takes_fp32_winograd(moving_by_2(4, 4, 256, 512, 3)));
    const auto takes = [&](const auto& change) {
        Conv2dShape shape = of(28, 64, 64);
        change(shape);
        return takes_fp32_winograd(shape);
    };
    EXPECT_FALSE(takes([](Conv2dShape& s) { s.kernel_w = 5; }));
    EXPECT_FALSE(takes([](Conv2dShape& s) { s.stride_h = 2; }));
    EXPECT_FALSE(takes([](Conv2dShape& s) { s.kernel_h = s.kernel_w = 4; }));
    const auto takes_by_2 = [](const auto& change) {
        Conv2dShape shape = moving_by_2(28, 28, 64, 64, 4);
        change(shape);
        return takes_fp32_winograd(shape);
    };
    EXPECT_TRUE(takes_by_2([](Conv2dShape&) {}));
    EXPECT_FALSE(takes_by_2([](Conv2dShape& s) { s.padding_h = 0; }));
    EXPECT_FALSE(takes_by_2([](Conv2dShape& s) { s.stride_h = s.stride_w = 3; }));
    EXPECT_FALSE(takes_by_2([](Conv2dShape& s) { s.kernel_h = s.kernel_w = 5; }));
    EXPECT_FALSE(takes_by_2([](Conv2dShape& s) { s.groups = 2; }));
    EXPECT_FALSE(takes_by_2([](Conv2dShape& s) { s.in = 40; }));
    EXPECT_FALSE(takes([](Conv2dShape& s) { s.groups = 2; }));
    EXPECT_FALSE(takes([](Conv2dShape& s) { s.padding_w = 3; }));
    EXPECT_FALSE(takes([](Conv2dShape& s) { s.in = 66; }));
    EXPECT_FALSE(takes([](Conv2dShape& s) { s.out = 66; }));
}

}  // namespace
}  // namespace tutti::test
