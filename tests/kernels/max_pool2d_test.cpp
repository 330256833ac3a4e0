#include <cmath>

#include "backend.hpp"

namespace tutti::test {
namespace {

class MaxPool2dTest : public KernelTest {};
class MaxPool2dReferenceTest : public KernelTest {};
TUTTI_TEST_ON(MaxPool2dTest, backends);
TUTTI_TEST_ON(MaxPool2dReferenceTest, reference_backends);

/// The winner in one 2×2 window of one channel.
struct Winner {
    double value, place;
};
Winner pool_one_window(Ops& ops, const std::vector<double>& window) {
    // 17 equal channels: a vector of 16 and a remainder must agree.
    const std::int64_t channels = 17;
    TestTensor x(ops.compute(), {1, 2, 2, channels}), y(ops.compute(), {1, 1, 1, channels});
    TestTensor winner(DType::u8, {1, 1, 1, channels});
    for (std::size_t i = 0; i < x.size(); ++i) x.set(i, window[i / channels]);
    ops.max_pool2d_forward({.height = 2, .width = 2, .channels = channels}, x.view(), y.view(),
                           winner.view());
    expect_equal(winner, std::vector<double>(channels, winner.get(0)));
    expect_equal(y, std::vector<double>(channels, y.get(0)));
    return {y.get(0), winner.get(0)};
}

// The places are PyTorch's (torch 2, CPU, return_indices=True).
TEST_P(MaxPool2dTest, the_first_of_equals_wins) {
    EXPECT_EQ(pool_one_window(*ops_, {1, 1, 1, 1}).place, 0);
    EXPECT_EQ(pool_one_window(*ops_, {1, 3, 3, 2}).place, 1);
    EXPECT_EQ(pool_one_window(*ops_, {-infinity, -infinity, -infinity, -infinity}).place, 0);
}

TEST_P(MaxPool2dTest, a_nan_wins_and_the_last_of_several) {
    EXPECT_EQ(pool_one_window(*ops_, {3, nan, 5, 5}).place, 1);
    EXPECT_TRUE(std::isnan(pool_one_window(*ops_, {3, nan, 5, 5}).value));
    EXPECT_EQ(pool_one_window(*ops_, {nan, 1, nan, 2}).place, 2);
    EXPECT_EQ(pool_one_window(*ops_, {nan, 1, 2, 3}).place, 0);
}

TEST_P(MaxPool2dTest, padding_never_wins_and_overlapping_windows_add_up) {
    const Pool2dShape shape{
        .height = 3, .width = 3, .channels = 1, .kernel_h = 3, .kernel_w = 3, .padding_h = 1, .padding_w = 1};
    auto x = tensor({1, 3, 3, 1}, {-1, -2, -3, -4, -0.5, -6, -7, -8, -9});
    auto y = tensor({1, 2, 2, 1}), dx = tensor({1, 3, 3, 1});
    TestTensor winner(DType::u8, {1, 2, 2, 1});
    ops_->max_pool2d_forward(shape, x.view(), y.view(), winner.view());
    expect_equal(y, {-0.5, -0.5, -0.5, -0.5});
    expect_equal(winner, {8, 6, 2, 0});
    auto dy = tensor({1, 2, 2, 1}, {1, 2, 3, 4});
    ops_->max_pool2d_backward(shape, dy.view(), winner.view(), dx.view());
    expect_equal(dx, {0, 0, 0, 0, 10, 0, 0, 0, 0});
}

TEST_P(MaxPool2dTest, keeps_channels_apart) {
    auto x = tensor({1, 2, 2, 2}, {1, 8, 2, 7, 3, 6, 4, 5});
    auto y = tensor({1, 1, 1, 2}), dx = tensor({1, 2, 2, 2});
    TestTensor winner(DType::u8, {1, 1, 1, 2});
    const Pool2dShape shape{.height = 2, .width = 2, .channels = 2};
    ops_->max_pool2d_forward(shape, x.view(), y.view(), winner.view());
    expect_equal(y, {4, 8});
    auto dy = tensor({1, 1, 1, 2}, {10, 20});
    ops_->max_pool2d_backward(shape, dy.view(), winner.view(), dx.view());
    expect_equal(dx, {0, 20, 0, 0, 0, 0, 10, 0});
}

std::vector<Pool2dShape> pooling_shapes() {
    return {
        {.height = 4, .width = 6, .channels = 3},
        {.height = 5, .width = 7, .channels = 2},  // the last row and column belong to no window
        {.height = 7,
         .width = 6,
         .channels = 3,
         .kernel_h = 3,
         .kernel_w = 3,
         .padding_h = 1,
         .padding_w = 1},
        {.height = 6, .width = 5, .channels = 2, .kernel_h = 3, .kernel_w = 2, .stride_h = 1, .stride_w = 1},
        {.height = 5,
         .width = 4,
         .channels = 17,
         .kernel_h = 2,
         .kernel_w = 3,
         .stride_h = 3,
         .stride_w = 1,
         .padding_w = 1},
        {.height = 3, .width = 4, .channels = 1, .kernel_h = 1, .kernel_w = 1, .stride_h = 1, .stride_w = 1},
        {.height = 24, .width = 24, .channels = 32}};  // large enough for threads
}

TEST_P(MaxPool2dTest, agrees_with_the_definition) {
    for (const Pool2dShape& s : pooling_shapes())
        for (const std::int64_t batch : {0, 1, 3}) {
            SCOPED_TRACE(testing::Message()
                         << s.height << "x" << s.width << "x" << s.channels << ", batch " << batch);
            auto x = random({batch, s.height, s.width, s.channels}, 1);
            const Shape out{batch, s.out_height(), s.out_width(), s.channels};
            auto dy = random(out, 2), y = tensor(out), dx = tensor({batch, s.height, s.width, s.channels});
            TestTensor winner(DType::u8, out);
            std::vector<double> expected_y(y.size()), expected_dx(x.size());
            const std::vector<double> xs = x.values(), dys = dy.values();
            std::size_t k = 0;
            for (std::int64_t n = 0; n < batch; ++n)
                for (std::int64_t oh = 0; oh < s.out_height(); ++oh)
                    for (std::int64_t ow = 0; ow < s.out_width(); ++ow)
                        for (std::int64_t c = 0; c < s.channels; ++c, ++k) {
                            expected_y[k] = -infinity;
                            std::size_t from = 0;
                            for (std::int64_t kh = 0; kh < s.kernel_h; ++kh)
                                for (std::int64_t kw = 0; kw < s.kernel_w; ++kw) {
                                    const std::int64_t h = oh * s.stride_h - s.padding_h + kh;
                                    const std::int64_t w = ow * s.stride_w - s.padding_w + kw;
                                    if (h < 0 || h >= s.height || w < 0 || w >= s.width) continue;
                                    const auto i = static_cast<std::size_t>(
                                        ((n * s.height + h) * s.width + w) * s.channels + c);
                                    if (xs[i] > expected_y[k]) {
                                        expected_y[k] = xs[i];
                                        from = i;
                                    }
                                }
                            expected_dx[from] += dys[k];
                        }
            ops_->max_pool2d_forward(s, x.view(), y.view(), winner.view());
            ops_->max_pool2d_backward(s, dy.view(), winner.view(), dx.view());
            expect_equal(y, expected_y);
            // Overlapping windows add a few gradients below 1 in another order or precision.
            expect_near(dx.values(), expected_dx, 16 * unit_roundoff_);
        }
}

// Also NaN, infinities and equal values, which the whole numbers bring.
TEST_P(MaxPool2dTest, with_relu_it_has_the_bits_of_relu_before_it) {
    if (!ops_->fuses_relu()) GTEST_SKIP() << "this backend leaves the ReLU to its own pass";
    for (Pool2dShape s : pooling_shapes()) {
        SCOPED_TRACE(testing::Message() << s.height << "x" << s.width << "x" << s.channels);
        auto x = random({3, s.height, s.width, s.channels}, 1);
        for (std::size_t i = 0; i < x.size(); i += 2) x.set(i, std::round(2 * x.get(i)));
        x.set(0, nan);
        x.set(x.size() - 1, -infinity);
        const Shape out{3, s.out_height(), s.out_width(), s.channels};
        auto dy = random(out, 2), y = tensor(out), expected_y = tensor(out);
        auto positive = tensor(x.view().shape), dx = tensor(x.view().shape),
             expected_dx = tensor(x.view().shape);
        TestTensor winner(DType::u8, out);
        ops_->relu_forward(x.view(), positive.view());
        ops_->max_pool2d_forward(s, positive.view(), expected_y.view(), winner.view());
        ops_->max_pool2d_backward(s, dy.view(), winner.view(), expected_dx.view());
        ops_->relu_backward(positive.view(), expected_dx.view(), expected_dx.view());
        s.relu = true;
        ops_->max_pool2d_forward(s, x.view(), y.view(), winner.view());
        ops_->max_pool2d_backward(s, dy.view(), winner.view(), dx.view());
        // But for those of NaN, of which a GPU's minima and maxima make their own.
        expect_equal(y, expected_y.values());
        expect_equal(dx, expected_dx.values());
    }
}

TEST_P(MaxPool2dReferenceTest, the_gradient_agrees_with_finite_differences) {
    for (Pool2dShape s : pooling_shapes()) {
        if (s.channels > 17) continue;
        SCOPED_TRACE(testing::Message() << s.height << "x" << s.width << "x" << s.channels);
        auto x = random({2, s.height, s.width, s.channels}, 1);
        const Shape out{2, s.out_height(), s.out_width(), s.channels};
        auto dy = random(out, 2), y = tensor(out), dx = tensor({2, s.height, s.width, s.channels});
        TestTensor winner(DType::u8, out);
        const auto loss = [&] {
            ops_->max_pool2d_forward(s, x.view(), y.view(), winner.view());
            return dot(y, dy);
        };
        loss();
        ops_->max_pool2d_backward(s, dy.view(), winner.view(), dx.view());
        // The inputs differ by more than this step (31 random bits), so no other element becomes the winner.
        expect_near(dx.values(), numeric_gradient(x, 1e-7, loss), 1e-6);
    }
}

}  // namespace
}  // namespace tutti::test
