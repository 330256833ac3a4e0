#include "row_softmax.hpp"

#include <algorithm>
#include <cmath>

#include "storage_cases.hpp"

namespace tutti::test {
namespace {

class CudaRowSoftmaxTest : public CudaKernelTest {};
TUTTI_KERNEL_TEST(CudaRowSoftmaxTest);

constexpr std::int64_t rows = 9;

std::vector<double> softmax(const std::vector<double>& scores, std::int64_t width) {
    std::vector<double> result(scores);
    for (auto row = result.begin(); row != result.end(); row += width) {
        const double maximum = *std::max_element(row, row + width);
        double sum = 0;
        for (auto x = row; x != row + width; ++x) sum += * x = std::exp(*x - maximum);
        for (auto x = row; x != row + width; ++x) *x /= sum;
    }
    return result;
}

TEST_P(CudaRowSoftmaxTest, forward_agrees_with_the_definition) {
    for (const std::int64_t width : {1, 5, 64, 197, 1100}) {
        auto scores = TestTensor::random(DType::f32, {3, 3, width}, 1);
        const std::vector<double> expected = softmax(scores.values(), width);
        cuda::row_softmax_forward(scores.view(), stream_);
        expect_near(scores.values(), expected, 1e-6);
    }
}

TEST_P(CudaRowSoftmaxTest, forward_bears_large_scores) {
    TestTensor scores(DType::f32, {1, 3}, {1e4, 1e4, -1e4});
    cuda::row_softmax_forward(scores.view(), stream_);
    expect_equal(scores, {0.5, 0.5, 0});
}

TEST_P(CudaRowSoftmaxTest, backward_agrees_with_the_definition) {
    for (const std::int64_t width : {1, 5, 64, 197, 1100}) {
        auto p = TestTensor::random(DType::f32, {rows, width}, 1);
        auto gradient = TestTensor::random(DType::f32, {rows, width}, 2);
        const std::vector<double> dp = gradient.values(), weights = p.values();
        std::vector<double> expected(dp.size());
        for (std::size_t r = 0; r < rows; ++r) {
            const auto size = static_cast<std::size_t>(width);
            double sum = 0;
            for (std::size_t k = r * size; k < (r + 1) * size; ++k) sum += weights[k] * dp[k];
            for (std::size_t k = r * size; k < (r + 1) * size; ++k)
                expected[k] = 0.125 * weights[k] * (dp[k] - sum);
        }
        cuda::row_softmax_backward(p.view(), 0.125f, gradient.view(), stream_);
        expect_near(gradient.values(), expected, 1e-5);
    }
}

}  // namespace
}  // namespace tutti::test
