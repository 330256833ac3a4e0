#include <cmath>
#include <limits>

#include "../../kernels/common/vector_math.hpp"
#include "backend.hpp"

namespace tutti::test {
namespace {

double distribution(double x) {
    return 0.5 * std::erfc(-x / std::sqrt(2.0));
}
double slope(double x) {
    return distribution(x) + x * std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi);
}

class GeluTest : public KernelTest {};
class GeluReferenceTest : public KernelTest {};
TUTTI_TEST_ON(GeluTest, backends);
TUTTI_TEST_ON(GeluReferenceTest, reference_backends);

TEST_P(GeluTest, computes_a_hand_sized_case) {
    auto x = tensor({5}, {0, 1, -1, 2, -3}), y = tensor({5}), dy = tensor({5}, {1, 1, 2, 1, 1}),
         dx = tensor({5});
    ops_->gelu_forward(GeluForm::exact, x.view(), y.view());
    expect_near(y.values(),
                {0, 0.8413447460685429, -0.15865525393145707, 1.9544997361036416, -0.004049694094890311},
                4 * unit_roundoff_);
    ops_->gelu_backward(GeluForm::exact, x.view(), dy.view(), dx.view());
    expect_near(dx.values(),
                {0.5, 1.0833154705876863, -0.16663094117537258, 1.0852318010781969, -0.011945647204183926},
                8 * unit_roundoff_);
}

TEST_P(GeluTest, keeps_its_digits_far_out_in_the_tail) {
    const std::int64_t count = 3201;
    auto x = tensor({count}), y = tensor({count}), ones = tensor({count}), dx = tensor({count});
    for (std::size_t i = 0; i < x.size(); ++i) {
        x.set(i, -8 + static_cast<double>(i) / 200);
        ones.set(i, 1);
    }
    ops_->gelu_forward(GeluForm::exact, x.view(), y.view());
    ops_->gelu_backward(GeluForm::exact, x.view(), ones.view(), dx.view());
    // x²/2, at most 32, is rounded before it is an exponent.
    const double tolerance = 200 * unit_roundoff_;
    for (std::size_t i = 0; i < x.size(); ++i) {
        const double at = x.get(i), expected = at * distribution(at);
        ASSERT_NEAR(y.get(i), expected, tolerance * std::abs(expected)) << "at " << at;
        ASSERT_NEAR(dx.get(i), slope(at), tolerance * std::max(std::abs(slope(at)), distribution(at)))
            << "at " << at;
    }
}

TEST_P(GeluTest, has_limits_and_passes_nan) {
    auto x = tensor({4}, {nan, infinity, -1e30, 1e30}), y = tensor({4}), dx = tensor({4});
    auto dy = tensor({4}, {1, 1, 1, 1});
    ops_->gelu_forward(GeluForm::exact, x.view(), y.view());
    EXPECT_TRUE(std::isnan(y.get(0)));
    EXPECT_EQ(y.get(1), infinity);
    EXPECT_NEAR(y.get(2), 0, 1e-30);
    EXPECT_EQ(y.get(3), x.get(3));
    ops_->gelu_backward(GeluForm::exact, x.view(), dy.view(), dx.view());
    EXPECT_TRUE(std::isnan(dx.get(0)));
    EXPECT_NEAR(dx.get(2), 0, 1e-15);
    EXPECT_NEAR(dx.get(3), 1, 1e-15);

    // The density is then as good as nothing, but no longer as small as x is large.
    x = tensor({2}, {-1e38, 1e38}), y = tensor({2}), dx = tensor({2}), dy = tensor({2}, {1, 1});
    ops_->gelu_backward(GeluForm::exact, x.view(), dy.view(), dx.view());
    EXPECT_EQ(dx.get(0), 0);
    EXPECT_EQ(dx.get(1), 1);
}

TEST_P(GeluTest, backward_works_in_place_at_a_size_that_threads_share) {
    auto x = random({50021}, 1), dy = random({50021}, 2), dx = tensor({50021});
    ops_->gelu_backward(GeluForm::exact, x.view(), dy.view(), dx.view());
    ops_->gelu_backward(GeluForm::exact, x.view(), dy.view(), dy.view());
    EXPECT_EQ(dx.bytes(), dy.bytes());
}

TEST_P(GeluTest, accepts_an_empty_batch_and_one_sample) {
    auto empty = tensor({0, 3}), one = tensor({1, 1}, {1}), y = tensor({1, 1});
    ops_->gelu_forward(GeluForm::exact, empty.view(), empty.view());
    ops_->gelu_backward(GeluForm::exact, empty.view(), empty.view(), empty.view());
    ops_->gelu_forward(GeluForm::exact, one.view(), y.view());
    expect_near(y.values(), {0.8413447460685429}, 4 * unit_roundoff_);
}

TEST_P(GeluReferenceTest, the_gradient_agrees_with_finite_differences) {
    for (const GeluForm form : {GeluForm::exact, GeluForm::tanh}) {
        auto x = random({40}, 1), dy = random({40}, 2), y = tensor({40}), dx = tensor({40});
        const auto loss = [&] {
            ops_->gelu_forward(form, x.view(), y.view());
            return dot(y, dy);
        };
        ops_->gelu_backward(form, x.view(), dy.view(), dx.view());
        expect_near(dx.values(), numeric_gradient(x, 1e-5, loss), 1e-9);
    }
}

// The values are those of torch.nn.functional.gelu(x, approximate='tanh') and its gradient, in float64.
TEST_P(GeluTest, by_tanh_has_the_values_of_pytorch) {
    auto x = tensor({6}, {0, 1, -1, 2, -3, 0.5}), y = tensor({6}), dy = tensor({6}, {1, 1, 2, 1, 1, 1}),
         dx = tensor({6});
    ops_->gelu_forward(GeluForm::tanh, x.view(), y.view());
    expect_near(y.values(),
                {0, 0.8411919906082768, -0.1588080093917232, 1.954597694087775, -0.003637392081772994,
                 0.3457140098251439},
                8 * unit_roundoff_);
    ops_->gelu_backward(GeluForm::tanh, x.view(), dy.view(), dx.view());
    expect_near(dx.values(),
                {0.5, 1.082964083845783, -0.165928167691565, 1.086099256623618, -0.01158416663096965,
                 0.8673699035346424},
                16 * unit_roundoff_);
}

TEST_P(GeluTest, by_tanh_keeps_its_digits_where_the_hyperbolic_tangent_has_none_left) {
    const std::int64_t count = 2401;
    auto x = tensor({count}), y = tensor({count}), ones = tensor({count}), dx = tensor({count});
    for (std::size_t i = 0; i < x.size(); ++i) {
        x.set(i, -6 + static_cast<double>(i) / 200);
        ones.set(i, 1);
    }
    ops_->gelu_forward(GeluForm::tanh, x.view(), y.view());
    ops_->gelu_backward(GeluForm::tanh, x.view(), ones.view(), dx.view());
    // The exponent, at most 25, is rounded before it is one.
    const double tolerance = 200 * unit_roundoff_, linear = 2 * std::sqrt(2 / std::numbers::pi);
    for (std::size_t i = 0; i < x.size(); ++i) {
        const double at = x.get(i), cubic = 0.044715 * linear;
        const double share = 1 / (1 + std::exp(-at * (linear + cubic * at * at)));
        const double other = 1 / (1 + std::exp(at * (linear + cubic * at * at)));
        const double steep = at * share * other * (linear + 3 * cubic * at * at);
        ASSERT_NEAR(y.get(i), at * share, tolerance * std::abs(at * share)) << "at " << at;
        ASSERT_NEAR(dx.get(i), share + steep, tolerance * std::max(share, std::abs(steep))) << "at " << at;
    }
}

TEST_P(GeluTest, by_tanh_has_limits_passes_nan_and_works_in_place) {
    auto x = tensor({5}, {nan, infinity, -1e30, 1e30, 12}), y = tensor({5}), dx = tensor({5});
    auto dy = tensor({5}, {1, 1, 1, 1, 3});
    ops_->gelu_forward(GeluForm::tanh, x.view(), y.view());
    EXPECT_TRUE(std::isnan(y.get(0)));
    EXPECT_EQ(y.get(1), infinity);
    EXPECT_EQ(y.get(2), 0);
    EXPECT_EQ(y.get(3), x.get(3));
    EXPECT_EQ(y.get(4), 12);
    ops_->gelu_backward(GeluForm::tanh, x.view(), dy.view(), dx.view());
    EXPECT_TRUE(std::isnan(dx.get(0)));
    EXPECT_EQ(dx.get(2), 0);
    EXPECT_EQ(dx.get(3), 1);
    EXPECT_EQ(dx.get(4), 3);
    ops_->gelu_backward(GeluForm::tanh, x.view(), dy.view(), dy.view());
    EXPECT_EQ(std::vector<double>(dy.values()).at(4), 3);
    ops_->gelu_forward(GeluForm::tanh, x.view(), x.view());
    EXPECT_EQ(x.get(3), y.get(3));
}

TEST(ExpNonpositive, has_22_bits_in_fp32) {
    for (float x = 0; x > -87; x -= 0.0137f) {
        const double expected = std::exp(static_cast<double>(x));
        ASSERT_NEAR(static_cast<double>(exp_nonpositive(x)), expected, expected * 0x1p-22) << "at " << x;
    }
    EXPECT_EQ(exp_nonpositive(0.0f), 1.0f);
    EXPECT_LT(exp_nonpositive(-std::numeric_limits<float>::infinity()), 2e-38f);
    EXPECT_TRUE(std::isnan(exp_nonpositive(std::numeric_limits<float>::quiet_NaN())));
}

}  // namespace
}  // namespace tutti::test
