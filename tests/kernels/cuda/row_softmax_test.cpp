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
        cuda::row_softmax_forward(scores.view(), {}, stream_);
        expect_near(scores.values(), expected, 1e-6);
    }
}

TEST_P(CudaRowSoftmaxTest, forward_bears_large_scores) {
    TestTensor scores(DType::f32, {1, 3}, {1e4, 1e4, -1e4});
    cuda::row_softmax_forward(scores.view(), {}, stream_);
    expect_equal(scores, {0.5, 0.5, 0});
}

TEST_P(CudaRowSoftmaxTest, tokens_are_counted_up_to_the_first_zero) {
    for (const DType dtype : storage_types)
        for (const std::int64_t tokens : {1, 5, 32, 33, 700}) {
            SCOPED_TRACE(testing::Message() << name_of(dtype) << ", " << tokens << " tokens");
            // One more sample than a block counts; what is behind the first 0 plays no part.
            const std::int64_t samples = 9;
            TestTensor mask(dtype, {samples, tokens},
                            std::vector<double>(static_cast<std::size_t>(samples * tokens), 0.5)),
                existing(DType::i64, {samples});
            std::vector<double> expected;
            for (std::int64_t n = 0; n < samples; ++n) {
                const std::int64_t first = n * tokens / (samples - 1);
                expected.push_back(static_cast<double>(first));
                for (const std::int64_t zero : {first, first + 1, first + 40})
                    if (zero < tokens) mask.set(static_cast<std::size_t>(n * tokens + zero), 0);
            }
            mask.set(0, 0);
            cuda::count_existing(mask.view(), existing.view(), stream_);
            expect_equal(existing, expected);
        }
    TestTensor odd(DType::f32, {1, 3}, {nan, -1, -0.0}), existing(DType::i64, {1});
    cuda::count_existing(odd.view(), existing.view(), stream_);
    expect_equal(existing, {2});
}

TEST_P(CudaRowSoftmaxTest, padding_is_zero_and_the_rest_the_softmax_of_what_exists) {
    struct Case {
        std::int64_t tokens;
        std::vector<double> existing;
    };
    // A warp to a row and a block.
    for (const Case& one :
         {Case{1, {1, 0}}, Case{5, {0, 1, 4, 5}}, Case{70, {33, 70, 0, 32}}, Case{1030, {3}}}) {
        SCOPED_TRACE(testing::Message() << one.tokens << " tokens");
        const auto samples = static_cast<std::int64_t>(one.existing.size()), tokens = one.tokens;
        auto scores = TestTensor::random(DType::f32, {samples, tokens, tokens}, 1);
        TestTensor existing(DType::i64, {samples}, one.existing);
        const std::vector<double> before = scores.values();
        std::vector<double> expected(before.size(), 0);
        for (std::int64_t n = 0; n < samples; ++n) {
            const auto count = static_cast<std::int64_t>(one.existing[static_cast<std::size_t>(n)]);
            for (std::int64_t query = 0; query < count; ++query) {
                const std::int64_t first = (n * tokens + query) * tokens;
                const std::vector<double> row =
                    softmax({before.begin() + first, before.begin() + first + count}, count);
                std::copy(row.begin(), row.end(), expected.begin() + first);
            }
        }
        cuda::row_softmax_forward(scores.view(), existing.view(), stream_);
        expect_near(scores.values(), expected, 1e-6);
        for (std::size_t i = 0; i < expected.size(); ++i)
            if (expected[i] == 0) {
                ASSERT_EQ(scores.view().as<float>()[i], 0) << i;
            }
    }
}

TEST_P(CudaRowSoftmaxTest, that_all_tokens_exist_changes_no_bit) {
    for (const std::int64_t tokens : {5, 70}) {
        auto scores = TestTensor::random(DType::f32, {1, tokens, tokens}, 1), all = scores;
        TestTensor existing(DType::i64, {1}, {static_cast<double>(tokens)});
        cuda::row_softmax_forward(scores.view(), {}, stream_);
        cuda::row_softmax_forward(all.view(), existing.view(), stream_);
        EXPECT_TRUE(all.bytes() == scores.bytes());
    }
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
        cuda::row_softmax_backward(p.view(), {}, 0.125f, gradient.view(), stream_);
        expect_near(gradient.values(), expected, 1e-5);
    }
}

}  // namespace
}  // namespace tutti::test
