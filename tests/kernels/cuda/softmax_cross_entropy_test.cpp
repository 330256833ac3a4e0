#include "softmax_cross_entropy.hpp"

#include <cmath>
#include <limits>

#include "kernel_test.hpp"

namespace tutti::test {
namespace {

constexpr std::pair<std::int64_t, std::int64_t> batch_sizes[] = {{0, 3},   {1, 1},   {1, 10},   {9, 31},
                                                                 {33, 40}, {5, 129}, {3, 1031}, {300, 7}};

class CudaSoftmaxCrossEntropyTest : public CudaKernelTest {
  protected:
    struct Batch {
        TestTensor logits, labels, probabilities, sums, dlogits;
        Batch(DType dtype, std::int64_t rows, std::int64_t classes)
            : logits(TestTensor::random(dtype, {rows, classes}, 1)),
              labels(DType::i64, {rows}),
              probabilities(DType::f32, {rows, classes}),
              sums(DType::f64, {3}),
              dlogits(dtype, {rows, classes}) {
            for (std::size_t row = 0; row < labels.size(); ++row)
                labels.set(row, static_cast<double>(row * 5 % static_cast<std::size_t>(classes)));
        }
    };
    void forward(Batch& b, const CrossEntropyTarget& target) {
        TestTensor workspace(DType::f64, {2 * b.labels.view().count()});
        cuda::softmax_cross_entropy_forward(b.logits.view(), b.labels.view(), workspace.view(),
                                            b.probabilities.view(), b.sums.view(), target, stream_);
    }
    void backward(Batch& b, double scale, const CrossEntropyTarget& target) {
        TestTensor factor(DType::f64, {1}, {scale});
        cuda::softmax_cross_entropy_backward(b.probabilities.view(), b.labels.view(), factor.view(),
                                             b.dlogits.view(), target, stream_);
    }
};
TUTTI_KERNEL_TEST(CudaSoftmaxCrossEntropyTest);

TEST_P(CudaSoftmaxCrossEntropyTest, agrees_with_the_cpu) {
    for (const DType dtype : {DType::f32, DType::bf16})
        for (const double smoothing : {0.0, 0.1, 1.0})
            for (const auto& [rows, classes] : batch_sizes) {
                SCOPED_TRACE(testing::Message() << name_of(dtype) << ", " << rows << " x " << classes
                                                << ", smoothing " << smoothing);
                Batch b(dtype, rows, classes);
                forward(b, smoothing);
                TestTensor logits(DType::f32, {rows, classes}, b.logits.values()), p = logits,
                                                                                   dlogits = logits;
                TestTensor sums(DType::f64, {3});
                cpu_.softmax_cross_entropy_forward(logits.view(), b.labels.view(), p.view(), sums.view(),
                                                   smoothing);
                expect_near(b.probabilities.values(), p.values(), 8 * 0x1p-24);
                expect_near(b.sums.values(), sums.values(), 1e-6);
                EXPECT_EQ(b.sums.get(2), sums.get(2));

                b.probabilities = p;
                backward(b, 0.25, smoothing);
                cpu_.softmax_cross_entropy_backward(p.view(), b.labels.view(), 0.25, dlogits.view(),
                                                    smoothing);
                EXPECT_EQ(b.dlogits.bytes(), TestTensor(dtype, {rows, classes}, dlogits.values()).bytes());
            }
}

TEST_P(CudaSoftmaxCrossEntropyTest, weights_of_classes_agree_with_the_cpu) {
    for (const DType dtype : {DType::f32, DType::bf16})
        for (const double smoothing : {0.0, 0.1, 1.0})
            for (const auto& [rows, classes] : batch_sizes) {
                SCOPED_TRACE(testing::Message() << name_of(dtype) << ", " << rows << " x " << classes
                                                << ", smoothing " << smoothing);
                TestTensor weights(DType::f64, {classes});
                double sum = 0;
                for (std::size_t k = 0; k < weights.size(); ++k) {
                    // Of one class nothing but smoothing is left.
                    weights.set(k, k == 5 ? 0 : 0.25 + static_cast<double>(k * 7 % 5));
                    sum += weights.get(k);
                }
                const CrossEntropyTarget target(smoothing, weights.view(), sum);
                Batch b(dtype, rows, classes);
                forward(b, target);
                TestTensor logits(DType::f32, {rows, classes}, b.logits.values()), p = logits,
                                                                                   dlogits = logits;
                TestTensor sums(DType::f64, {3});
                cpu_.softmax_cross_entropy_forward(logits.view(), b.labels.view(), p.view(), sums.view(),
                                                   target);
                // Up to 4.25 times as much as without, and sums of as many rounded gaps as there are classes.
                expect_near(b.sums.values(), sums.values(), 1e-5);
                EXPECT_EQ(b.sums.get(2), sums.get(2));

                b.probabilities = p;
                backward(b, 0.25, target);
                cpu_.softmax_cross_entropy_backward(p.view(), b.labels.view(), 0.25, dlogits.view(), target);
                EXPECT_EQ(b.dlogits.bytes(), TestTensor(dtype, {rows, classes}, dlogits.values()).bytes());
            }
}

TEST_P(CudaSoftmaxCrossEntropyTest, of_equal_maxima_the_first_counts_and_a_nan_is_the_greatest) {
    Batch b(DType::f32, 4, 40);
    for (std::size_t i = 0; i < b.logits.size(); ++i) b.logits.set(i, 0);
    b.logits.set(0 * 40 + 37, 1);  // twice, in different lanes
    b.logits.set(0 * 40 + 5, 1);
    b.logits.set(1 * 40 + 39, NAN);
    b.logits.set(1 * 40 + 2, 7);
    b.logits.set(3 * 40 + 39, 1);
    for (const auto& [row, label] : {std::pair{0, 5}, {1, 39}, {2, 0}, {3, 38}})
        b.labels.set(static_cast<std::size_t>(row), label);
    forward(b, 0);
    EXPECT_EQ(b.sums.get(2), 3);
    EXPECT_TRUE(std::isnan(b.sums.get(0)));
}

TEST_P(CudaSoftmaxCrossEntropyTest, large_logits_and_impossible_classes_stay_finite) {
    Batch b(DType::f32, 1, 3);
    b.logits.set(0, 1000);
    b.logits.set(1, 999);
    b.logits.set(2, -std::numeric_limits<double>::infinity());
    b.labels.set(0, 1);
    forward(b, 0);
    EXPECT_NEAR(b.sums.get(0), std::log(1 + std::exp(1.0)), 1e-6);
    EXPECT_EQ(b.probabilities.get(2), 0);
}

TEST_P(CudaSoftmaxCrossEntropyTest, works_in_place) {
    Batch b(DType::f32, 9, 31), separate(DType::f32, 9, 31);
    forward(separate, 0.1);
    backward(separate, 2, 0.1);
    TestTensor workspace(DType::f64, {18}), scale(DType::f64, {1}, {2});
    cuda::softmax_cross_entropy_forward(b.logits.view(), b.labels.view(), workspace.view(), b.logits.view(),
                                        b.sums.view(), 0.1, stream_);
    EXPECT_EQ(b.logits.bytes(), separate.probabilities.bytes());
    cuda::softmax_cross_entropy_backward(b.logits.view(), b.labels.view(), scale.view(), b.logits.view(), 0.1,
                                         stream_);
    EXPECT_EQ(b.logits.bytes(), separate.dlogits.bytes());
}

}  // namespace
}  // namespace tutti::test
