#include <cmath>
#include <limits>

#include "backend.hpp"

namespace tutti::test {
namespace {

class BatchNormTest : public KernelTest {
  protected:
    /// One batch through the operator, forward and, when wanted, backward.
    struct Run {
        TestTensor y, dx, dweight, dbias, normalizer, statistics;
    };
    Run run(const BatchNormShape& shape, TestTensor& x, TestTensor& weight, TestTensor& bias, TestTensor& dy,
            double shift_by = 0) {
        const std::int64_t c = shape.channels;
        Run result{
            tensor_like(x),           tensor_like(x), tensor({c}), tensor({c}), {DType::f64, {1 + 2 * c}},
            {DType::f64, {2 + 2 * c}}};
        TestTensor shift(dtype_, {c}, std::vector<double>(static_cast<std::size_t>(c), shift_by));
        TestTensor moments(DType::f64, {1 + 2 * c}), sums(DType::f64, {2 * c});
        const auto op = ops_->batch_norm(shape);
        op->moments(x.view(), shift.view(), moments.view());
        op->normalizer(moments.view(), shift.view(), result.normalizer.view(), result.statistics.view());
        op->forward(x.view(), result.normalizer.view(), weight.view(), bias.view(), result.y.view());
        op->backward_sums(x.view(), dy.view(), result.normalizer.view(), sums.view(), result.dweight.view(),
                          result.dbias.view());
        op->backward(x.view(), dy.view(), result.normalizer.view(), weight.view(), sums.view(),
                     result.dx.view());
        return result;
    }
    /// With momentum 0.25.
    void track(TestTensor& statistics, TestTensor& mean, TestTensor& variance, TestTensor& batches) {
        const BatchNormTracking layer{statistics.view(), mean.view(), variance.view(), batches.view(), 0.25};
        ops_->track_batch_norms({&layer, 1});
    }
    TestTensor tensor_like(TestTensor& other) const { return tensor(other.view().shape); }
    double tolerance() const { return 64 * unit_roundoff_; }
};
TUTTI_TEST_ON(BatchNormTest, backends);

// torch.nn.functional.batch_norm(x, None, None, w, b, training=True, eps=1e-30) in float64: x = 1, 3, 5, 7
// and 2, 2, 4, 4, dy = 1, 0, 0, 0 and 0, 0, 0, 2.
TEST_P(BatchNormTest, normalises_and_differentiates_a_case_by_hand) {
    auto x = tensor({2, 1, 2, 2}, {1, 2, 3, 2, 5, 4, 7, 4});
    auto weight = tensor({2}, {2, 1}), bias = tensor({2}, {10, -1});
    auto dy = tensor({2, 1, 2, 2}, {1, 0, 0, 0, 0, 0, 0, 2});
    const Run r = run({.channels = 2, .eps = 0}, x, weight, bias, dy);
    // Channel 0: mean 4, variance 5; channel 1: mean 3, variance 1.
    const double s = std::sqrt(5.0);
    expect_near(r.y.values(), {10 - 6 / s, -2, 10 - 2 / s, -2, 10 + 2 / s, 0, 10 + 6 / s, 0}, tolerance());
    expect_near(r.dweight.values(), {-3 / s, 2}, tolerance());
    expect_near(r.dbias.values(), {1, 2}, tolerance());
    // w/σ·(dy − mean(dy) − x̂·mean(dy·x̂)), channel 0: x̂ = (−3, −1, 1, 3)/√5, mean(dy·x̂) = −3/(4√5).
    expect_near(r.dx.values(), {0.6 / s, 0, -0.8 / s, 0, -0.2 / s, -1, 0.4 / s, 1}, tolerance());
    // {rows, mean, 1/σ}, and {rows, weight, rows·mean, weight·unbiased variance}.
    expect_near(r.normalizer.values(), {4, 4, 3, 1 / s, 1}, 1e-15);
    expect_near(r.statistics.values(), {4, 4, 16, 12, 4 * 20.0 / 3, 4 * 4.0 / 3}, 1e-15);
}

TEST_P(BatchNormTest, the_running_statistics_follow_with_momentum_and_the_unbiased_variance) {
    const auto op = ops_->batch_norm({.channels = 1, .eps = 0, .momentum = 0.25});
    TestTensor statistics(DType::f64, {4}, {4, 4, 16, 24});  // mean 4, variance 6
    auto mean = tensor({1}, {8}), variance = tensor({1}, {2});
    TestTensor batches(DType::i64, {}, {7});
    track(statistics, mean, variance, batches);
    expect_equal(mean, {7});
    expect_equal(variance, {3});
    expect_equal(batches, {8});
    TestTensor normalizer(DType::f64, {3});
    op->running_normalizer(mean.view(), variance.view(), normalizer.view());
    expect_near(normalizer.values(), {0, 7, 1 / std::sqrt(3.0)}, 1e-15);
}

// Of finite numbers, whose squares only a double holds: where fp32 keeps the running statistics they would be
// infinite from then on.
TEST_P(BatchNormTest, statistics_that_cannot_be_kept_are_not_followed) {
    const bool fits = GetParam().dtype == DType::f64;
    for (const std::vector<double>& values :
         {std::vector<double>{4, 4, 4, 4, 4, 4e40}, std::vector<double>{4, 4, 4e40, 4, 4, 4}}) {
        TestTensor statistics(DType::f64, {6}, values);
        auto mean = tensor({2}, {1, 2}), variance = tensor({2}, {1, 1});
        TestTensor batches(DType::i64, {}, {7});
        track(statistics, mean, variance, batches);
        expect_equal(batches, {fits ? 8.0 : 7.0});
        if (fits) continue;
        expect_equal(mean, {1, 2});
        expect_equal(variance, {1, 1});
    }
    // Sums over many rows are larger than what is followed.
    TestTensor statistics(DType::f64, {6}, {1024, 1024, 0, 0, 1024 * 0x1p120, 1024 * 0x1p120});
    auto mean = tensor({2}, {0, 0}), variance = tensor({2}, {0, 0});
    TestTensor batches(DType::i64, {}, {7});
    track(statistics, mean, variance, batches);
    expect_equal(variance, {0x1p118, 0x1p118});
}

TEST_P(BatchNormTest, an_empty_batch_changes_nothing) {
    auto x = tensor({0, 2, 2, 3}), dy = tensor({0, 2, 2, 3});
    auto weight = tensor({3}, {1, 1, 1}), bias = tensor({3}, {0, 0, 0});
    Run r = run({.channels = 3}, x, weight, bias, dy);
    expect_equal(r.dweight, {0, 0, 0});
    expect_equal(r.dbias, {0, 0, 0});
    expect_equal(r.statistics, {0, 0, 0, 0, 0, 0, 0, 0});
    auto mean = tensor({3}, {1, 2, 3}), variance = tensor({3}, {4, 5, 6});
    TestTensor batches(DType::i64, {}, {7});
    track(r.statistics, mean, variance, batches);
    expect_equal(mean, {1, 2, 3});
    expect_equal(variance, {4, 5, 6});
    expect_equal(batches, {7});
}

TEST_P(BatchNormTest, a_single_row_gives_the_bias_and_no_variance) {
    auto x = tensor({1, 2}, {5, -3}), dy = tensor({1, 2}, {1, 2});
    auto weight = tensor({2}, {2, 2}), bias = tensor({2}, {0.5, 0.25});
    const Run r = run({.channels = 2}, x, weight, bias, dy);
    expect_equal(r.y, {0.5, 0.25});
    expect_equal(r.dx, {0, 0});
    expect_equal(r.statistics, {1, 0, 5, -3, 0, 0});
}

TEST_P(BatchNormTest, a_nan_shows) {
    auto x = tensor({2, 1}, {1, std::numeric_limits<double>::quiet_NaN()}), dy = tensor({2, 1}, {1, 1});
    auto weight = tensor({1}, {1}), bias = tensor({1}, {0});
    const Run r = run({.channels = 1}, x, weight, bias, dy);
    EXPECT_TRUE(std::isnan(r.y.get(0)));
}

struct Extent {
    std::int64_t rows, channels;
};
// Remainders of four rows and of vectors, one channel, few rows, and enough for threads.
const std::vector<Extent> extents = {{1, 3}, {2, 1}, {7, 17}, {64, 32}, {5, 1000}, {3000, 33}};

TEST_P(BatchNormTest, agrees_with_the_definition) {
    for (const auto [rows, channels] : extents) {
        SCOPED_TRACE(testing::Message() << rows << " rows, " << channels << " channels");
        auto x = random({rows, channels}, 1), dy = random({rows, channels}, 2);
        auto weight = random({channels}, 3), bias = random({channels}, 4);
        const double eps = 1e-5;
        const Run r = run({.channels = channels, .eps = eps}, x, weight, bias, dy, 0.25);
        const std::vector<double> xs = x.values(), dys = dy.values(), weights = weight.values(),
                                  biases = bias.values();
        const std::vector<double> ys = r.y.values(), dxs = r.dx.values(), dweights = r.dweight.values(),
                                  dbiases = r.dbias.values();
        const double n = static_cast<double>(rows);
        const auto at = [channels = channels](std::int64_t row, std::int64_t c) {
            return static_cast<std::size_t>(row * channels + c);
        };
        for (std::int64_t c = 0; c < channels; ++c) {
            const auto i = static_cast<std::size_t>(c);
            double mean = 0, variance = 0, plain = 0, weighted = 0;
            for (std::int64_t row = 0; row < rows; ++row) mean += xs[at(row, c)] / n;
            for (std::int64_t row = 0; row < rows; ++row) variance += std::pow(xs[at(row, c)] - mean, 2) / n;
            const double inverse = 1 / std::sqrt(variance + eps);
            const auto normalised = [&](std::int64_t row) { return (xs[at(row, c)] - mean) * inverse; };
            for (std::int64_t row = 0; row < rows; ++row) {
                plain += dys[at(row, c)];
                weighted += dys[at(row, c)] * normalised(row);
            }
            // A rounding error of x counts 1/σ times; the sums, in double on both sides, bring √n of them.
            const double bound = (16 * unit_roundoff_ + std::sqrt(n) * 0x1p-52) * std::max(1.0, inverse);
            ASSERT_NEAR(dbiases[i], plain, 8 * bound * std::sqrt(n));
            ASSERT_NEAR(dweights[i], weighted, 8 * bound * std::sqrt(n));
            for (std::int64_t row = 0; row < rows; ++row) {
                ASSERT_NEAR(ys[at(row, c)], normalised(row) * weights[i] + biases[i], bound);
                const double dx =
                    weights[i] * inverse * (dys[at(row, c)] - plain / n - normalised(row) * weighted / n);
                ASSERT_NEAR(dxs[at(row, c)], dx, 8 * bound * std::max(1.0, inverse))
                    << "row " << row << ", channel " << c;
            }
        }
    }
}

// Of a scale and a shift that depend on no row.
TEST_P(BatchNormTest, by_running_statistics_the_gradient_is_dy_times_the_scale) {
    for (const auto [rows, channels] : extents) {
        SCOPED_TRACE(testing::Message() << rows << " rows, " << channels << " channels");
        auto x = random({rows, channels}, 1), dy = random({rows, channels}, 2), dx = tensor({rows, channels});
        auto weight = random({channels}, 3), mean = random({channels}, 4), variance = random({channels}, 5);
        auto dweight = tensor({channels}), dbias = tensor({channels});
        const double eps = 1.5;  // variances are above −1
        TestTensor normalizer(DType::f64, {1 + 2 * channels}), sums(DType::f64, {2 * channels});
        const auto op = ops_->batch_norm({.channels = channels, .eps = eps});
        op->running_normalizer(mean.view(), variance.view(), normalizer.view());
        op->backward_sums(x.view(), dy.view(), normalizer.view(), sums.view(), dweight.view(), dbias.view());
        op->backward(x.view(), dy.view(), normalizer.view(), weight.view(), sums.view(), dx.view());
        const std::vector<double> dxs = dx.values(), dys = dy.values(), weights = weight.values(),
                                  variances = variance.values();
        for (std::size_t i = 0; i < dxs.size(); ++i) {
            const std::size_t c = i % weights.size();
            const double expected = weights[c] / std::sqrt(variances[c] + eps) * dys[i];
            ASSERT_NEAR(dxs[i], expected, 8 * unit_roundoff_) << "element " << i;
        }
    }
}

TEST_P(BatchNormTest, with_relu_it_has_the_bits_of_relu_behind_it) {
    if (!ops_->fuses_relu()) GTEST_SKIP() << "this backend leaves the ReLU to its own pass";
    for (const auto [rows, channels] : extents) {
        SCOPED_TRACE(testing::Message() << rows << " rows, " << channels << " channels");
        const BatchNormShape shape{.channels = channels}, fused{.channels = channels, .relu = true};
        auto x = random({rows, channels}, 1), dy = random({rows, channels}, 2);
        auto weight = random({channels}, 3), bias = random({channels}, 4);
        if (rows > 100) x.set(5, std::numeric_limits<double>::quiet_NaN());
        Run r = run(shape, x, weight, bias, dy);
        auto y = tensor({rows, channels}), expected_dx = tensor_like(x), dx = tensor_like(x);
        auto dweight = tensor({channels}), dbias = tensor({channels}), expected_dweight = tensor({channels}),
             expected_dbias = tensor({channels});
        TestTensor sums(DType::f64, {2 * channels});
        ops_->relu_forward(r.y.view(), r.y.view());
        auto masked = dy;
        ops_->relu_backward(r.y.view(), dy.view(), masked.view());
        const auto plain = ops_->batch_norm(shape), op = ops_->batch_norm(fused);
        plain->backward_sums(x.view(), masked.view(), r.normalizer.view(), sums.view(),
                             expected_dweight.view(), expected_dbias.view());
        plain->backward(x.view(), masked.view(), r.normalizer.view(), weight.view(), sums.view(),
                        expected_dx.view());
        op->forward(x.view(), r.normalizer.view(), weight.view(), bias.view(), y.view());
        op->relu_backward_sums(x.view(), dy.view(), r.normalizer.view(), weight.view(), bias.view(),
                               sums.view(), dweight.view(), dbias.view());
        op->relu_backward(x.view(), dy.view(), r.normalizer.view(), weight.view(), bias.view(), sums.view(),
                          dx.view());
        EXPECT_EQ(y.bytes(), r.y.bytes());
        EXPECT_EQ(dweight.bytes(), expected_dweight.bytes());
        EXPECT_EQ(dbias.bytes(), expected_dbias.bytes());
        EXPECT_EQ(dx.bytes(), expected_dx.bytes());
    }
}

class BatchNormReferenceTest : public BatchNormTest {};
TUTTI_TEST_ON(BatchNormReferenceTest, reference_backends);

TEST_P(BatchNormReferenceTest, the_gradient_agrees_with_finite_differences) {
    auto x = random({6, 5}, 1), dy = random({6, 5}, 2), weight = random({5}, 3), bias = random({5}, 4);
    const BatchNormShape shape{.channels = 5};
    const auto loss = [&] { return dot(run(shape, x, weight, bias, dy).y, dy); };
    const Run r = run(shape, x, weight, bias, dy);
    expect_near(r.dx.values(), numeric_gradient(x, 1e-6, loss), 1e-8);
    expect_near(r.dweight.values(), numeric_gradient(weight, 1e-6, loss), 1e-8);
    expect_near(r.dbias.values(), numeric_gradient(bias, 1e-6, loss), 1e-8);
}

TEST_P(BatchNormReferenceTest, a_good_guess_of_a_large_mean_keeps_the_variance) {
    auto x = tensor({2, 1}, {1e6 + 1, 1e6 - 1}), dy = tensor({2, 1}, {0, 0});
    auto weight = tensor({1}, {1}), bias = tensor({1}, {0});
    const Run r = run({.channels = 1, .eps = 0}, x, weight, bias, dy, 1e6);
    expect_near(r.y.values(), {1, -1}, 1e-12);
}

TEST_P(BatchNormReferenceTest, a_batch_far_from_the_guess_keeps_the_variance) {
    auto x = tensor({4, 2}, {1e8 + 1, 1e7, 1e8 - 1, -1e7, 1e8 + 2, -1e7, 1e8 - 2, -1e7});
    TestTensor shift(DType::f64, {2}, {0, 0}), moments(DType::f64, {5}), normalizer(DType::f64, {5}),
        statistics(DType::f64, {6});
    const auto op = ops_->batch_norm({.channels = 2, .eps = 0});
    op->normalizer_of_batch(x.view(), shift.view(), moments.view(), normalizer.view(), statistics.view());
    const std::vector<double> found = normalizer.values();
    EXPECT_EQ(found[1], 1e8);
    EXPECT_EQ(found[2], -5e6);
    EXPECT_NEAR(found[3], 1 / std::sqrt(2.5), 1e-15);
    EXPECT_NEAR(found[4], 1 / std::sqrt(7.5e13), 1e-22);
}

}  // namespace
}  // namespace tutti::test
