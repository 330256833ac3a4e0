#include <cmath>

#include "backend.hpp"

namespace tutti::test {
namespace {

class SoftmaxCrossEntropyTest : public KernelTest {
  protected:
    static TestTensor labels(const std::vector<double>& values) {
        return {DType::i64, {static_cast<std::int64_t>(values.size())}, values};
    }
    TestTensor sums_{DType::f64, {3}};
};
class SoftmaxCrossEntropyReferenceTest : public SoftmaxCrossEntropyTest {};
TUTTI_TEST_ON(SoftmaxCrossEntropyTest, backends);
TUTTI_TEST_ON(SoftmaxCrossEntropyReferenceTest, reference_backends);

TEST_P(SoftmaxCrossEntropyTest, computes_a_hand_sized_case) {
    // Rows exp(x)/Σ = {1/2, 1/2}, {1/4, 3/4}.
    auto logits = tensor({2, 2}, {0, 0, 0, std::log(3.0)}), probabilities = tensor({2, 2});
    auto label = labels({1, 1});
    ops_->softmax_cross_entropy_forward(logits.view(), label.view(), probabilities.view(), sums_.view());
    const double tolerance = 8 * unit_roundoff_;
    expect_near(probabilities.values(), {0.5, 0.5, 0.25, 0.75}, tolerance);
    EXPECT_NEAR(sums_.get(0), std::log(2.0) + std::log(4.0 / 3.0), tolerance);
    EXPECT_EQ(sums_.get(1), 2);
    EXPECT_EQ(sums_.get(2), 1);  // in the first row the first maximum is class 0

    auto dlogits = tensor({2, 2});
    ops_->softmax_cross_entropy_backward(probabilities.view(), label.view(), 0.5, dlogits.view());
    expect_near(dlogits.values(), {0.25, -0.25, 0.125, -0.125}, tolerance);
}

TEST_P(SoftmaxCrossEntropyTest, is_stable_for_large_logits) {
    auto logits = tensor({3, 3}, {1e4, 0, -1e4, 1e4, 0, -1e4, 1e4, 1e4, 1e4}), probabilities = tensor({3, 3});
    auto label = labels({0, 1, 2});
    ops_->softmax_cross_entropy_forward(logits.view(), label.view(), probabilities.view(), sums_.view());
    expect_near(probabilities.values(), {1, 0, 0, 1, 0, 0, 1 / 3.0, 1 / 3.0, 1 / 3.0}, 2 * unit_roundoff_);
    EXPECT_DOUBLE_EQ(sums_.get(0), 1e4 + std::log(3.0));
    EXPECT_EQ(sums_.get(2), 1);
}

// e^x is computed for whole vectors of classes, by a polynomial in fp32; far below the maximum it is 0.
TEST_P(SoftmaxCrossEntropyTest, follows_the_exponential_over_all_its_range) {
    const std::int64_t classes = 2001;
    auto logits = tensor({1, classes}), probabilities = tensor({1, classes});
    std::vector<double> expected(logits.size());
    double sum = 0;
    for (std::size_t k = 0; k < logits.size(); ++k) {
        logits.set(k, -0.06 * static_cast<double>(k));
        sum += expected[k] = std::exp(logits.get(k));
    }
    auto label = labels({0});
    ops_->softmax_cross_entropy_forward(logits.view(), label.view(), probabilities.view(), sums_.view());
    EXPECT_NEAR(sums_.get(0), std::log(sum), 8 * unit_roundoff_);
    for (std::size_t k = 0; k < logits.size(); ++k) {
        const double p = expected[k] / sum, least = std::exp(-87.0);  // the smallest of fp32 are not normal
        EXPECT_NEAR(probabilities.get(k), p, 8 * unit_roundoff_ * p + least) << "class " << k;
    }
}

TEST_P(SoftmaxCrossEntropyTest, works_in_place) {
    auto logits = random({5, 7}, 1), probabilities = tensor({5, 7}), dlogits = tensor({5, 7});
    auto label = labels({0, 6, 3, 3, 1});
    ops_->softmax_cross_entropy_forward(logits.view(), label.view(), probabilities.view(), sums_.view());
    ops_->softmax_cross_entropy_backward(probabilities.view(), label.view(), 2.0, dlogits.view());
    const auto separate = sums_.values();
    ops_->softmax_cross_entropy_forward(logits.view(), label.view(), logits.view(), sums_.view());
    EXPECT_EQ(logits.bytes(), probabilities.bytes());
    EXPECT_EQ(sums_.values(), separate);
    ops_->softmax_cross_entropy_backward(logits.view(), label.view(), 2.0, logits.view());
    EXPECT_EQ(logits.bytes(), dlogits.bytes());
}

TEST_P(SoftmaxCrossEntropyTest, agrees_with_the_definition_at_a_size_that_threads_share) {
    const std::int64_t rows = 700, classes = 100;
    auto logits = random({rows, classes}, 1), probabilities = tensor({rows, classes});
    TestTensor label(DType::i64, {rows});
    std::vector<double> expected(logits.size());
    double loss = 0;
    int correct = 0;
    for (std::size_t row = 0; row < label.size(); ++row) {
        const std::size_t first = row * classes, target = row * 37 % classes;
        label.set(row, static_cast<double>(target));
        double sum = 0;
        std::size_t best = 0;
        for (std::size_t k = 0; k < classes; ++k) {
            sum += std::exp(logits.get(first + k));
            if (logits.get(first + k) > logits.get(first + best)) best = k;
        }
        for (std::size_t k = 0; k < classes; ++k) expected[first + k] = std::exp(logits.get(first + k)) / sum;
        loss -= std::log(expected[first + target]);
        correct += best == target;
    }
    ops_->softmax_cross_entropy_forward(logits.view(), label.view(), probabilities.view(), sums_.view());
    // x − max is rounded at magnitude up to 2, then exp and the quotient by one unit or two.
    expect_near(probabilities.values(), expected, 8 * unit_roundoff_);
    EXPECT_NEAR(sums_.get(0), loss, 8 * unit_roundoff_ * loss);
    EXPECT_EQ(sums_.get(1), rows);
    EXPECT_EQ(sums_.get(2), correct);
}

TEST_P(SoftmaxCrossEntropyTest, a_nan_spreads_over_its_row_and_is_no_hit) {
    auto logits = tensor({2, 3}, {0, nan, 1, 0, 0, 1}), probabilities = tensor({2, 3});
    auto label = labels({0, 2});
    ops_->softmax_cross_entropy_forward(logits.view(), label.view(), probabilities.view(), sums_.view());
    for (const std::size_t i : {0U, 1U, 2U}) EXPECT_TRUE(std::isnan(probabilities.get(i)));
    for (const std::size_t i : {3U, 4U, 5U}) EXPECT_FALSE(std::isnan(probabilities.get(i)));
    EXPECT_TRUE(std::isnan(sums_.get(0)));
    EXPECT_EQ(sums_.get(2), 1);
}

TEST_P(SoftmaxCrossEntropyTest, an_empty_batch_sums_to_zero) {
    auto logits = tensor({0, 3}), label = labels({});
    ops_->softmax_cross_entropy_forward(logits.view(), label.view(), logits.view(), sums_.view());
    ops_->softmax_cross_entropy_backward(logits.view(), label.view(), 1.0, logits.view());
    expect_equal(sums_, {0, 0, 0});
}

TEST_P(SoftmaxCrossEntropyTest, smoothing_spreads_part_of_the_target_over_all_classes) {
    // p = {1/4, 3/4}; with s = 0.2 and K = 2 the target is {0.1, 0.9}.
    auto logits = tensor({1, 2}, {0, std::log(3.0)}), probabilities = tensor({1, 2}),
         dlogits = tensor({1, 2});
    auto label = labels({1});
    ops_->softmax_cross_entropy_forward(logits.view(), label.view(), probabilities.view(), sums_.view(), 0.2);
    const double tolerance = 8 * unit_roundoff_;
    expect_near(probabilities.values(), {0.25, 0.75}, tolerance);
    EXPECT_NEAR(sums_.get(0), 0.1 * std::log(4.0) + 0.9 * std::log(4.0 / 3.0), tolerance);
    EXPECT_EQ(sums_.get(1), 1);
    EXPECT_EQ(sums_.get(2), 1);
    ops_->softmax_cross_entropy_backward(probabilities.view(), label.view(), 2, dlogits.view(), 0.2);
    expect_near(dlogits.values(), {0.3, -0.3}, tolerance);
}

// torch 2.15: F.cross_entropy(x, y, label_smoothing=0.1, reduction='sum') in fp64.
TEST_P(SoftmaxCrossEntropyTest, smoothing_gives_pytorchs_loss_and_gradient) {
    auto logits = tensor({2, 3}, {1, -2, 0.5, 3, 0, -1}), probabilities = tensor({2, 3}),
         dlogits = tensor({2, 3});
    auto label = labels({2, 0});
    ops_->softmax_cross_entropy_forward(logits.view(), label.view(), probabilities.view(), sums_.view(), 0.1);
    EXPECT_NEAR(sums_.get(0), 1.3704808060997125, 8 * unit_roundoff_);
    ops_->softmax_cross_entropy_backward(probabilities.view(), label.view(), 1, dlogits.view(), 0.1);
    expect_near(dlogits.values(),
                {0.5704155628152925, -0.00327444576375931, -0.5671411170515331, 0.002906218543172412,
                 0.013279289244640557, -0.016185507787812945},
                8 * unit_roundoff_);
}

TEST_P(SoftmaxCrossEntropyTest, each_class_counts_by_its_weight) {
    // p = {1/4, 3/4}; K = 2, s = 0.2, w = {3, 0.5}: w·q = {0.3, 0.45} where the label is 1, {2.7, 0.05} where
    // it is 0.
    auto logits = tensor({2, 2}, {0, std::log(3.0), 0, std::log(3.0)}), probabilities = tensor({2, 2}),
         dlogits = tensor({2, 2});
    auto label = labels({1, 0});
    TestTensor weights(DType::f64, {2}, {3, 0.5});
    const double tolerance = 32 * unit_roundoff_, cost[] = {std::log(4.0), std::log(4.0 / 3.0)};
    const auto check = [&](double smoothing, const std::vector<double>& wq) {
        const CrossEntropyTarget target(smoothing, weights.view(), 3.5);
        ops_->softmax_cross_entropy_forward(logits.view(), label.view(), probabilities.view(), sums_.view(),
                                            target);
        expect_near(probabilities.values(), {0.25, 0.75, 0.25, 0.75}, tolerance);
        EXPECT_NEAR(sums_.get(0), (wq[0] + wq[2]) * cost[0] + (wq[1] + wq[3]) * cost[1], tolerance);
        EXPECT_EQ(sums_.get(1), 2);
        EXPECT_EQ(sums_.get(2), 1);
        ops_->softmax_cross_entropy_backward(probabilities.view(), label.view(), 2, dlogits.view(), target);
        const double first = wq[0] + wq[1], second = wq[2] + wq[3];
        expect_near(dlogits.values(),
                    {2 * (0.25 * first - wq[0]), 2 * (0.75 * first - wq[1]), 2 * (0.25 * second - wq[2]),
                     2 * (0.75 * second - wq[3])},
                    tolerance);
    };
    check(0, {0, 0.5, 3, 0});
    check(0.2, {0.3, 0.45, 2.7, 0.05});
}

// torch 2.15: F.cross_entropy(x, y, weight=[0.2, 1, 3], label_smoothing=0.1, reduction='sum') in fp64.
TEST_P(SoftmaxCrossEntropyTest, weights_and_smoothing_give_pytorchs_loss_and_gradient) {
    auto logits = tensor({2, 3}, {1, -2, 0.5, 3, 0, -1}), probabilities = tensor({2, 3}),
         dlogits = tensor({2, 3});
    auto label = labels({2, 0});
    TestTensor weights(DType::f64, {3}, {0.2, 1, 3});
    const CrossEntropyTarget target(0.1, weights.view(), 4.2);
    ops_->softmax_cross_entropy_forward(logits.view(), label.view(), probabilities.view(), sums_.view(),
                                        target);
    EXPECT_NEAR(sums_.get(0), 3.454138051854462, 32 * unit_roundoff_);
    ops_->softmax_cross_entropy_backward(probabilities.view(), label.view(), 1, dlogits.view(), target);
    expect_near(dlogits.values(),
                {1.7079801983954308, 0.0520339073642569, -1.7600141057596876, 0.11292998993381517,
                 -0.018417294108381686, -0.09451269582543348},
                32 * unit_roundoff_);
}

// torch 2.15: F.cross_entropy(x, y, weight=[0.2, 0, 3], label_smoothing=s, reduction='sum') in fp64; with s
// of 1 the label tells nothing.
TEST_P(SoftmaxCrossEntropyTest, weights_of_zero_and_a_smoothing_of_one_give_pytorchs_loss_and_gradient) {
    auto logits = tensor({3, 3}, {1, -2, 0.5, 3, 0, -1, -0.5, 2, 1}), probabilities = tensor({3, 3}),
         dlogits = tensor({3, 3});
    auto label = labels({2, 0, 1});
    TestTensor weights(DType::f64, {3}, {0.2, 0, 3});
    const auto check = [&](const CrossEntropyTarget& target, double loss, const std::vector<double>& slope) {
        ops_->softmax_cross_entropy_forward(logits.view(), label.view(), probabilities.view(), sums_.view(),
                                            target);
        EXPECT_NEAR(sums_.get(0), loss, 32 * unit_roundoff_);
        EXPECT_EQ(sums_.get(1), 3);
        ops_->softmax_cross_entropy_backward(probabilities.view(), label.view(), 1, dlogits.view(), target);
        expect_near(dlogits.values(), slope, 32 * unit_roundoff_);
    };
    check({0, weights.view(), 3.2}, 3.026967487778336,
          {1.8112466884458773, 0.09017666270872207, -1.9014233511545995, -0.01275208962469885,
           0.009322524515594779, 0.0034295651091040776, 0, 0, 0});
    check({0.1, weights.view(), 3.2}, 3.3914195217154246,
          {1.6878552351904768, 0.08436527777860443, -1.772220512969081, 0.08172200487126499,
           0.013362285139019183, -0.09508429001028416, -0.0006280818943497302, 0.07356502251994705,
           -0.07293694062559732});
    check({1, weights.view(), 3.2}, 6.671487827149221,
          {0.5773321558918675, 0.032062813407545625, -0.6093949692994132, 0.9319888553349395,
           0.04972013074983882, -0.9817089860847783, -0.006280818943497302, 0.7356502251994705,
           -0.7293694062559731});
    check(1, 5.608686504619062,
          {0.2704155628152925, -0.3032744457637593, 0.032858882948466894, 0.6029062185431724,
           -0.28672071075535943, -0.3161855077878129, -0.27672160109286204, 0.3563387527911703,
           -0.07961715169830808});
}

// PyTorch's mean over such a batch is 0/0.
TEST_P(SoftmaxCrossEntropyTest, a_batch_whose_samples_all_count_zero_has_no_loss_and_no_gradient) {
    auto logits = tensor({2, 3}, {1, -2, 0.5, 3, 0, -1}), probabilities = tensor({2, 3}),
         dlogits = tensor({2, 3});
    auto label = labels({1, 1});
    TestTensor weights(DType::f64, {3}, {0.2, 0, 3});
    const CrossEntropyTarget target(0, weights.view(), 3.2);
    ops_->softmax_cross_entropy_forward(logits.view(), label.view(), probabilities.view(), sums_.view(),
                                        target);
    expect_equal(sums_, {0, 2, 0});
    ops_->softmax_cross_entropy_backward(probabilities.view(), label.view(), 0.5, dlogits.view(), target);
    expect_equal(dlogits, {0, 0, 0, 0, 0, 0});
}

TEST_P(SoftmaxCrossEntropyReferenceTest, the_weighted_gradient_agrees_with_finite_differences) {
    auto logits = random({4, 5}, 1), probabilities = tensor({4, 5}), dlogits = tensor({4, 5});
    auto label = labels({0, 4, 2, 2});
    TestTensor weights(DType::f64, {5}, {0.5, 1, 4, 0.1, 2});
    const CrossEntropyTarget target(0.3, weights.view(), 7.6);
    const auto loss = [&] {
        ops_->softmax_cross_entropy_forward(logits.view(), label.view(), probabilities.view(), sums_.view(),
                                            target);
        return sums_.get(0);
    };
    loss();
    ops_->softmax_cross_entropy_backward(probabilities.view(), label.view(), 1, dlogits.view(), target);
    expect_near(dlogits.values(), numeric_gradient(logits, 1e-5, loss), 1e-8);
}

TEST_P(SoftmaxCrossEntropyReferenceTest, the_smoothed_gradient_agrees_with_finite_differences) {
    auto logits = random({4, 5}, 1), probabilities = tensor({4, 5}), dlogits = tensor({4, 5});
    auto label = labels({0, 4, 2, 2});
    const auto loss = [&] {
        ops_->softmax_cross_entropy_forward(logits.view(), label.view(), probabilities.view(), sums_.view(),
                                            0.3);
        return sums_.get(0);
    };
    loss();
    ops_->softmax_cross_entropy_backward(probabilities.view(), label.view(), 1, dlogits.view(), 0.3);
    expect_near(dlogits.values(), numeric_gradient(logits, 1e-5, loss), 1e-9);
}

TEST_P(SoftmaxCrossEntropyReferenceTest, the_gradient_agrees_with_finite_differences) {
    auto logits = random({4, 5}, 1), probabilities = tensor({4, 5}), dlogits = tensor({4, 5});
    auto label = labels({0, 4, 2, 2});
    const auto loss = [&] {
        ops_->softmax_cross_entropy_forward(logits.view(), label.view(), probabilities.view(), sums_.view());
        return 0.25 * sums_.get(0);
    };
    loss();
    ops_->softmax_cross_entropy_backward(probabilities.view(), label.view(), 0.25, dlogits.view());
    // Truncation step²/6 times a third derivative below 1, rounding 1e-16/step.
    expect_near(dlogits.values(), numeric_gradient(logits, 1e-5, loss), 1e-10);
}

}  // namespace
}  // namespace tutti::test
