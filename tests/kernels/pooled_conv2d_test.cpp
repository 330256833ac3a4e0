// Convolution and pooling in one against the two by their definitions.

#include <fmt/format.h>
#include <omp.h>

#include <cmath>
#include <limits>

#include "backend.hpp"
#include "reference.hpp"

namespace tutti::test {
namespace {

class PooledConv2dTest : public KernelTest {
  protected:
    struct Case {
        Conv2dShape conv;
        Pool2dShape pool;
        bool input_gradient = false;
    };
    std::unique_ptr<PooledConv2dOp> make(const Case& one) {
        return ops_->pooled_conv2d(one.conv, one.pool, one.input_gradient);
    }
    static Case pooled(const Conv2dShape& conv, bool relu = true) {
        return {conv,
                {.height = conv.out_height(), .width = conv.out_width(), .channels = conv.out, .relu = relu}};
    }
    /// Vectors of channels in pairs and alone; windows of one tap, of a block of taps, and of blocks with a
    /// rest; images that the windows cover and not.
    static std::vector<Case> cases() {
        std::vector<Case> all;
        const auto add = [&all](std::int64_t height, std::int64_t width, std::int64_t in, std::int64_t out,
                                std::int64_t kernel_h, std::int64_t kernel_w, std::int64_t stride,
                                std::int64_t padding, bool bias) {
            all.push_back(pooled({.height = height,
                                  .width = width,
                                  .in = in,
                                  .out = out,
                                  .kernel_h = kernel_h,
                                  .kernel_w = kernel_w,
                                  .stride_h = stride,
                                  .stride_w = stride,
                                  .padding_h = padding,
                                  .padding_w = padding,
                                  .bias = bias},
                                 all.size() % 3 != 1));
        };
        add(12, 12, 1, 32, 3, 3, 1, 1, true);
        add(7, 9, 1, 16, 3, 3, 1, 1, false);
        add(8, 6, 3, 48, 3, 3, 1, 0, true);
        add(11, 10, 4, 16, 5, 4, 1, 2, true);
        add(13, 9, 2, 32, 3, 2, 2, 1, true);
        add(2, 2, 1, 16, 1, 1, 1, 0, true);
        add(5, 5, 3, 80, 1, 1, 1, 0, false);
        // With a gradient of x: input channels of one vector, of a pair, and of a pair and one.
        const std::size_t without = all.size();
        add(6, 8, 16, 8, 3, 3, 1, 1, true);
        add(7, 9, 32, 20, 3, 3, 1, 0, true);
        add(5, 6, 48, 5, 3, 3, 1, 1, false);
        add(9, 11, 16, 33, 3, 3, 2, 1, true);
        for (std::size_t i = without; i < all.size(); ++i) all[i].input_gradient = true;
        return all;
    }

    static TensorView if_defined(bool defined, TestTensor& tensor) {
        return defined ? tensor.view() : TensorView{};
    }
};
TUTTI_TEST_ON(PooledConv2dTest, backends);

TEST_P(PooledConv2dTest, agrees_with_the_definitions_while_the_batch_size_changes) {
    if (dtype_ == DType::f64) GTEST_SKIP() << "each layer by itself in double";
    for (const Case& one : cases()) {
        auto op = make(one);
        if (!op) GTEST_SKIP() << "this backend has nothing of the kind";
        unsigned seed = 1;
        for (const std::int64_t batch : {3, 1, 35, 2}) {
            SCOPED_TRACE(fmt::format("{}x{}x{} to {}, kernel {}x{}, batch {}", one.conv.height,
                                     one.conv.width, one.conv.in, one.conv.out, one.conv.kernel_h,
                                     one.conv.kernel_w, batch));
            const Extents extents(one.conv, batch);
            const Shape pooled{batch, one.pool.out_height(), one.pool.out_width(), one.conv.out};
            auto x = random(extents.x, seed++), weight = random(extents.weight, seed++);
            auto bias = random(extents.bias, seed++), dy = random(pooled, seed++);
            auto y = tensor(pooled), dweight = tensor(extents.weight), dbias = tensor(extents.bias);
            auto dx = tensor(extents.x);
            TestTensor winner(DType::u8, pooled);
            op->forward(x.view(), weight.view(), if_defined(one.conv.bias, bias), y.view(), winner.view());
            op->backward(x.view(), weight.view(), winner.view(), dy.view(),
                         if_defined(one.input_gradient, dx), dweight.view(),
                         if_defined(one.conv.bias, dbias));

            const Sums sums = reference_forward(one.conv, batch, x, weight, bias);
            // The gradient of the convolution's output, by the winners; these, by the sums.
            std::vector<double> gradient(sums.size(), 0.0);
            const std::vector<double> ys = y.values(), winners = winner.values(), dys = dy.values();
            const std::int64_t wide = one.conv.out_width(), channels = one.conv.out;
            for (std::int64_t n = 0, k = 0; n < batch; ++n)
                for (std::int64_t oh = 0; oh < pooled[1]; ++oh)
                    for (std::int64_t ow = 0; ow < pooled[2]; ++ow)
                        for (std::int64_t c = 0; c < channels; ++c, ++k) {
                            const auto at = [&](std::int64_t place) {
                                return static_cast<std::size_t>(
                                    ((n * one.conv.out_height() + 2 * oh + place / 2) * wide + 2 * ow +
                                     place % 2) *
                                        channels +
                                    c);
                            };
                            double best = -std::numeric_limits<double>::infinity(), slack = 0;
                            for (std::int64_t place = 0; place < 4; ++place) {
                                const Sum& sum = sums[at(place)];
                                best = std::max(best, sum.value);
                                slack = std::max(slack,
                                                 2 * (sum.terms + 2) * unit_roundoff_ * (sum.magnitude + 1));
                            }
                            const auto i = static_cast<std::size_t>(k);
                            const double value = one.pool.relu ? std::max(best, 0.0) : best;
                            ASSERT_NEAR(ys[i], value, slack) << "element " << k;
                            const double place = winners[i];
                            if (place == 255) {
                                ASSERT_TRUE(one.pool.relu);
                                ASSERT_LE(best, slack);
                                continue;
                            }
                            ASSERT_LE(place, 3);
                            const std::size_t won = at(static_cast<std::int64_t>(place));
                            ASSERT_GE(sums[won].value, best - 2 * slack);
                            gradient[won] = dys[i];
                        }
            const TestTensor dconv(DType::f64, extents.y, gradient);
            const Gradients expected = reference_backward(one.conv, batch, x, weight, dconv);
            expect_sums(dweight, expected.dweight, unit_roundoff_);
            if (one.conv.bias) expect_sums(dbias, expected.dbias, unit_roundoff_);
            if (one.input_gradient) expect_sums(dx, expected.dx, unit_roundoff_);
        }
    }
}

// The rules of max_pool2d_forward.
TEST_P(PooledConv2dTest, equals_nans_and_zeros_win_as_in_max_pooling) {
    const double nan = std::numeric_limits<double>::quiet_NaN();
    struct Window {
        std::vector<double> x;
        double place, value;
    };
    const std::vector<Window> windows = {
        {{1, 1, 1, 1}, 0, 1}, {{1, 3, 3, 2}, 1, 3}, {{3, nan, 5, nan}, 3, nan}, {{-1, -2, 0, -3}, 255, 0}};
    const Case one = pooled({.height = 2, .width = 2, .in = 1, .out = 16});
    auto op = make(one);
    if (!op) GTEST_SKIP() << "this backend has nothing of the kind";
    const std::vector<double> ones(16, 1.0), zeros(16, 0.0);
    for (const Window& window : windows) {
        auto x = tensor({1, 2, 2, 1}, window.x), weight = tensor({16, 1, 1, 1}, ones);
        auto bias = tensor({16}, zeros), y = tensor({1, 1, 1, 16});
        TestTensor winner(DType::u8, {1, 1, 1, 16});
        op->forward(x.view(), weight.view(), bias.view(), y.view(), winner.view());
        expect_equal(winner, std::vector<double>(16, window.place));
        if (std::isnan(window.value))
            EXPECT_TRUE(std::isnan(y.get(7)));
        else
            expect_equal(y, std::vector<double>(16, window.value));
    }
}

TEST_P(PooledConv2dTest, an_empty_batch_has_no_gradient) {
    for (const Case& one : {cases().front(), cases().back()}) {
        auto op = make(one);
        if (!op) GTEST_SKIP() << "this backend has nothing of the kind";
        const Extents extents(one.conv, 0);
        auto x = tensor(extents.x), weight = random(extents.weight, 1), bias = random(extents.bias, 2);
        auto y = tensor({0, one.pool.out_height(), one.pool.out_width(), one.conv.out}),
             dx = tensor(extents.x);
        auto dweight = tensor(extents.weight), dbias = tensor(extents.bias);
        TestTensor winner(DType::u8, {0, one.pool.out_height(), one.pool.out_width(), one.conv.out});
        op->forward(x.view(), weight.view(), bias.view(), y.view(), winner.view());
        op->backward(x.view(), weight.view(), winner.view(), y.view(), if_defined(one.input_gradient, dx),
                     dweight.view(), dbias.view());
        expect_equal(dweight, std::vector<double>(dweight.size(), 0.0));
        expect_equal(dbias, std::vector<double>(dbias.size(), 0.0));
    }
}

// As contracts say of the operator's gradients; the batch does not fill its parts equally.
TEST_P(PooledConv2dTest, gradients_have_the_same_bits_with_any_number_of_threads) {
    const Case one{.conv = {.height = 8, .width = 8, .in = 32, .out = 24, .kernel_h = 3, .kernel_w = 3},
                   .pool = {.height = 6, .width = 6, .channels = 24},
                   .input_gradient = true};
    auto op = make(one);
    if (!op) GTEST_SKIP() << "this backend has nothing of the kind";
    const Extents extents(one.conv, 37);
    const Shape pooled{37, 3, 3, 24};
    auto x = random(extents.x, 1), weight = random(extents.weight, 2), bias = random(extents.bias, 3);
    auto dy = random(pooled, 4), y = tensor(pooled);
    TestTensor winner(DType::u8, pooled);
    op->forward(x.view(), weight.view(), bias.view(), y.view(), winner.view());
    const auto gradients = [&](int threads) {
        omp_set_num_threads(threads);
        auto dx = tensor(extents.x), dweight = tensor(extents.weight), dbias = tensor(extents.bias);
        op->backward(x.view(), weight.view(), winner.view(), dy.view(), dx.view(), dweight.view(),
                     dbias.view());
        return std::vector{dx.bytes(), dweight.bytes(), dbias.bytes()};
    };
    const auto of_one = gradients(1);
    for (const int threads : {2, 3, 5}) EXPECT_EQ(gradients(threads), of_one) << threads;
}

// Other poolings and convolutions are left to the operators for all shapes.
TEST_P(PooledConv2dTest, only_what_it_computes_is_fused) {
    const Conv2dShape conv{.height = 8, .width = 8, .in = 1, .out = 16};
    const Pool2dShape pool{.height = 8, .width = 8, .channels = 16};
    Pool2dShape overlapping = pool;
    overlapping.kernel_h = overlapping.kernel_w = 3;
    EXPECT_EQ(ops_->pooled_conv2d(conv, overlapping, false), nullptr);
    Conv2dShape odd = conv;
    odd.out = 17;
    Pool2dShape of_odd = pool;
    of_odd.channels = 17;
    EXPECT_EQ(ops_->pooled_conv2d(odd, of_odd, false), nullptr);
    // With a gradient of x, of few input channels and of other windows than 3x3.
    EXPECT_EQ(ops_->pooled_conv2d(conv, pool, true), nullptr);
    Conv2dShape wide = conv;
    wide.in = 32;
    EXPECT_EQ(ops_->pooled_conv2d(wide, pool, true), nullptr);
    if (dtype_ == DType::f64) {
        EXPECT_EQ(ops_->pooled_conv2d(conv, pool, false), nullptr);
    }
}

}  // namespace
}  // namespace tutti::test
