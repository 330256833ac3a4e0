#include <omp.h>

#include <cmath>

#include "backend.hpp"

namespace tutti::test {
namespace {

constexpr RegressionLoss every_loss[] = {RegressionLoss::squared, RegressionLoss::absolute,
                                         RegressionLoss::huber};

class RegressionLossTest : public KernelTest {
  protected:
    static TestTensor targets(const Shape& shape, const std::vector<double>& values) {
        return {DType::f32, shape, values};
    }
    TestTensor sums_{DType::f64, {3}};
};
class RegressionLossReferenceTest : public RegressionLossTest {};
TUTTI_TEST_ON(RegressionLossTest, backends);
TUTTI_TEST_ON(RegressionLossReferenceTest, reference_backends);

TEST_P(RegressionLossTest, computes_a_hand_sized_case) {
    auto outputs = tensor({2, 2}, {3, 1, 0, -2}), differences = tensor({2, 2}), doutputs = tensor({2, 2});
    auto target = targets({2, 2}, {1, 1, 0.5, 1});
    const auto check = [&](RegressionLoss kind, double sum, const std::vector<double>& gradient) {
        ops_->regression_loss_forward(outputs.view(), target.view(), kind, differences.view(), sums_.view());
        expect_equal(differences, {2, 0, -0.5, -3});
        expect_equal(sums_, {sum, 2, 0});
        ops_->regression_loss_backward(differences.view(), kind, 0.5, doutputs.view());
        expect_equal(doutputs, gradient);
    };
    // Of the rows: (4 + 0)/2 + (0.25 + 9)/2, and so on; 0.5/2 times the slope.
    check(RegressionLoss::squared, 2 + 4.625, {1, 0, -0.25, -1.5});
    check(RegressionLoss::absolute, 1 + 1.75, {0.25, 0, -0.25, -0.25});
    check(RegressionLoss::huber, 0.75 + 1.3125, {0.25, 0, -0.125, -0.25});
}

TEST_P(RegressionLossTest, of_one_number_per_sample) {
    auto outputs = tensor({3, 1}, {0.5, 4, -1}), differences = tensor({3, 1}), doutputs = tensor({3, 1});
    auto target = targets({3, 1}, {0, 1, -1});
    const auto check = [&](RegressionLoss kind, double sum, const std::vector<double>& gradient) {
        ops_->regression_loss_forward(outputs.view(), target.view(), kind, differences.view(), sums_.view());
        expect_equal(sums_, {sum, 3, 0});
        ops_->regression_loss_backward(differences.view(), kind, 2, doutputs.view());
        expect_equal(doutputs, gradient);
    };
    check(RegressionLoss::squared, 9.25, {2, 12, 0});
    check(RegressionLoss::absolute, 3.5, {2, 2, 0});
    check(RegressionLoss::huber, 2.625, {1, 2, 0});
}

TEST_P(RegressionLossTest, hubers_parabola_and_lines_meet_at_one) {
    auto outputs = tensor({1, 4}, {1, -1, 1 - 0x1p-20, -1 - 0x1p-20}), differences = tensor({1, 4}),
         doutputs = tensor({1, 4});
    auto target = targets({1, 4}, {0, 0, 0, 0});
    ops_->regression_loss_forward(outputs.view(), target.view(), RegressionLoss::huber, differences.view(),
                                  sums_.view());
    EXPECT_DOUBLE_EQ(sums_.get(0), (0.5 + 0.5 + (1 - 0x1p-19 + 0x1p-40) / 2 + 0.5 + 0x1p-20) / 4);
    ops_->regression_loss_backward(differences.view(), RegressionLoss::huber, 4, doutputs.view());
    expect_equal(doutputs, {1, -1, 1 - 0x1p-20, -1});
}

TEST_P(RegressionLossTest, works_in_place) {
    for (const RegressionLoss kind : every_loss) {
        auto outputs = random({5, 7}, 1), differences = tensor({5, 7}), doutputs = tensor({5, 7});
        auto target = TestTensor::random(DType::f32, {5, 7}, 2);
        ops_->regression_loss_forward(outputs.view(), target.view(), kind, differences.view(), sums_.view());
        ops_->regression_loss_backward(differences.view(), kind, 2, doutputs.view());
        const auto separate = sums_.values();
        ops_->regression_loss_forward(outputs.view(), target.view(), kind, outputs.view(), sums_.view());
        EXPECT_EQ(outputs.bytes(), differences.bytes());
        EXPECT_EQ(sums_.values(), separate);
        ops_->regression_loss_backward(outputs.view(), kind, 2, outputs.view());
        EXPECT_EQ(outputs.bytes(), doutputs.bytes());
    }
}

TEST_P(RegressionLossTest, agrees_with_the_definition_at_sizes_that_threads_share) {
    for (const auto& [rows, width] :
         {std::pair<std::int64_t, std::int64_t>{700, 100}, {40'000, 2}, {3, 30'000}})
        for (const RegressionLoss kind : every_loss) {
            SCOPED_TRACE(testing::Message() << rows << " x " << width << ", loss " << static_cast<int>(kind));
            auto outputs = random({rows, width}, 1), differences = tensor({rows, width}),
                 doutputs = differences;
            auto target = TestTensor::random(DType::f32, {rows, width}, 2);
            std::vector<double> expected(outputs.size()), gradient(outputs.size());
            double loss = 0;
            for (std::size_t i = 0; i < expected.size(); ++i) {
                const double d = outputs.get(i) - target.get(i), size = std::fabs(d), sign = d < 0 ? -1 : 1;
                const bool near = kind == RegressionLoss::huber && size < 1;
                expected[i] = d;
                loss += kind == RegressionLoss::squared ? d * d
                        : near                          ? d * d / 2
                        : kind == RegressionLoss::huber ? size - 0.5
                                                        : size;
                gradient[i] = 3.0 / static_cast<double>(width) *
                              (kind == RegressionLoss::squared ? 2 * d
                               : near                          ? d
                                                               : sign);
            }
            ops_->regression_loss_forward(outputs.view(), target.view(), kind, differences.view(),
                                          sums_.view());
            expect_near(differences.values(), expected, 2 * unit_roundoff_);
            loss /= static_cast<double>(width);
            EXPECT_NEAR(sums_.get(0), loss, 4 * unit_roundoff_ * loss + 1e-12 * loss);
            EXPECT_EQ(sums_.get(1), rows);
            EXPECT_EQ(sums_.get(2), 0);
            ops_->regression_loss_backward(differences.view(), kind, 3, doutputs.view());
            expect_near(doutputs.values(), gradient, 8 * unit_roundoff_);
        }
}

TEST_P(RegressionLossTest, no_bit_depends_on_the_number_of_threads) {
    for (const RegressionLoss kind : every_loss) {
        auto outputs = random({5001, 13}, 1), first = tensor({5001, 13}), differences = first;
        auto target = TestTensor::random(DType::f32, {5001, 13}, 2);
        TestTensor first_sums(DType::f64, {3});
        omp_set_num_threads(1);
        ops_->regression_loss_forward(outputs.view(), target.view(), kind, first.view(), first_sums.view());
        omp_set_num_threads(3);
        ops_->regression_loss_forward(outputs.view(), target.view(), kind, differences.view(), sums_.view());
        EXPECT_EQ(differences.bytes(), first.bytes());
        EXPECT_EQ(sums_.bytes(), first_sums.bytes());
    }
}

TEST_P(RegressionLossTest, without_targets_they_are_zeros) {
    for (const RegressionLoss kind : every_loss) {
        auto outputs = random({3, 7}, 1), with = tensor({3, 7}), without = tensor({3, 7});
        auto zeros = targets({3, 7}, std::vector<double>(21));
        TestTensor sums_with(DType::f64, {3});
        ops_->regression_loss_forward(outputs.view(), zeros.view(), kind, with.view(), sums_with.view());
        ops_->regression_loss_forward(outputs.view(), {}, kind, without.view(), sums_.view());
        EXPECT_EQ(without.bytes(), with.bytes());
        EXPECT_EQ(sums_.bytes(), sums_with.bytes());
        sums_ = TestTensor(DType::f64, {3});
        ops_->regression_loss_forward(without.view(), {}, kind, without.view(), sums_.view());
        EXPECT_EQ(without.bytes(), with.bytes());
        EXPECT_EQ(sums_.bytes(), sums_with.bytes());
    }
}

TEST_P(RegressionLossTest, squares_beyond_fp32_are_summed) {
    auto outputs = tensor({2, 1}, {0x1p100, -0x1p90}), differences = tensor({2, 1}),
         doutputs = tensor({2, 1});
    auto target = targets({2, 1}, {0, 0});
    ops_->regression_loss_forward(outputs.view(), target.view(), RegressionLoss::squared, differences.view(),
                                  sums_.view());
    expect_equal(sums_, {0x1p200 + 0x1p180, 2, 0});
    ops_->regression_loss_backward(differences.view(), RegressionLoss::squared, 0.5, doutputs.view());
    expect_equal(doutputs, {0x1p100, -0x1p90});
}

TEST_P(RegressionLossTest, a_nan_shows_in_the_sum_and_in_its_own_gradient) {
    for (const RegressionLoss kind : every_loss) {
        auto outputs = tensor({2, 2}, {0, nan, 1, 2}), doutputs = tensor({2, 2});
        auto target = targets({2, 2}, {0, 0, 0, 0});
        ops_->regression_loss_forward(outputs.view(), target.view(), kind, outputs.view(), sums_.view());
        EXPECT_TRUE(std::isnan(sums_.get(0)));
        ops_->regression_loss_backward(outputs.view(), kind, 1, doutputs.view());
        EXPECT_EQ(doutputs.get(0), 0);
        EXPECT_TRUE(std::isnan(doutputs.get(1)));
        EXPECT_GT(doutputs.get(2), 0);
        EXPECT_GT(doutputs.get(3), 0);
    }
}

TEST_P(RegressionLossTest, an_empty_batch_sums_to_zero) {
    auto outputs = tensor({0, 3}), target = targets({0, 3}, {});
    for (const RegressionLoss kind : every_loss) {
        sums_ = TestTensor(DType::f64, {3});
        ops_->regression_loss_forward(outputs.view(), target.view(), kind, outputs.view(), sums_.view());
        ops_->regression_loss_backward(outputs.view(), kind, 1, outputs.view());
        expect_equal(sums_, {0, 0, 0});
    }
}

// torch 2.15, fp64: 2·F.mse_loss(x, y), of F.l1_loss and of F.huber_loss, and their gradients.
TEST_P(RegressionLossTest, gives_pytorchs_losses_and_gradients) {
    auto outputs = tensor({2, 3}, {1, -2, 0.5, 299.25, 1.75, -4.5}), differences = tensor({2, 3}),
         doutputs = tensor({2, 3});
    auto target = targets({2, 3}, {1.5, -2, 0.25, 300, 0, -1});
    const auto check = [&](RegressionLoss kind, double sum, const std::vector<double>& gradient) {
        ops_->regression_loss_forward(outputs.view(), target.view(), kind, differences.view(), sums_.view());
        EXPECT_NEAR(sums_.get(0), sum, 1e-14);
        ops_->regression_loss_backward(differences.view(), kind, 1, doutputs.view());
        expect_near(doutputs.values(), gradient, 2 * unit_roundoff_);
    };
    check(RegressionLoss::squared, 5.395833333333333,
          {-0.3333333333333333, 0, 0.16666666666666666, -0.5, 1.1666666666666665, -2.333333333333333});
    check(RegressionLoss::absolute, 2.25,
          {-0.3333333333333333, 0, 0.3333333333333333, -0.3333333333333333, 0.3333333333333333,
           -0.3333333333333333});
    check(RegressionLoss::huber, 1.5625,
          {-0.16666666666666666, 0, 0.08333333333333333, -0.25, 0.3333333333333333, -0.3333333333333333});
}

TEST_P(RegressionLossReferenceTest, the_gradient_agrees_with_finite_differences) {
    for (const RegressionLoss kind : every_loss) {
        SCOPED_TRACE(static_cast<int>(kind));
        // Off the kinks by more than a step: |d| of 0, and of 1 where Huber's second derivative jumps.
        auto outputs = tensor({3, 3}, {0.3, -0.7, 1.9, 0.1, 2.5, -3, 0.999, -1.01, 0.01});
        auto target = targets({3, 3}, {0, 0, 0.5, -0.25, 0.125, 1, 0, 0, 0});
        auto differences = tensor({3, 3}), doutputs = tensor({3, 3});
        const auto loss = [&] {
            ops_->regression_loss_forward(outputs.view(), target.view(), kind, differences.view(),
                                          sums_.view());
            return 0.25 * sums_.get(0);
        };
        const auto expected = numeric_gradient(outputs, 1e-5, loss);
        loss();
        ops_->regression_loss_backward(differences.view(), kind, 0.25, doutputs.view());
        // Of pieces of parabolas: nothing is truncated, and 1e-16 · 4/step is rounded.
        expect_near(doutputs.values(), expected, 1e-10);
    }
}

}  // namespace
}  // namespace tutti::test
