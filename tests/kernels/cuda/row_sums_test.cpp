#include "row_sums.hpp"

#include <cmath>

#include "storage_cases.hpp"
#include "tutti/base/bf16.hpp"

namespace tutti::test {
namespace {

class CudaRowSumsTest : public CudaKernelTest {};
TUTTI_KERNEL_TEST(CudaRowSumsTest);

/// As the CPU adds what its ranks send (comm/compression.hpp).
std::vector<double> sums(const TestTensor& rows, std::int64_t row_count, std::int64_t count) {
    const std::vector<double> values = rows.values();
    std::vector<double> result;
    for (std::int64_t i = 0; i < count; ++i) {
        float sum = static_cast<float>(values[static_cast<std::size_t>(i)]);
        for (std::int64_t row = 1; row < row_count; ++row)
            sum += static_cast<float>(values[static_cast<std::size_t>(row * count + i)]);
        result.push_back(float_of_bf16(bf16_bits(sum)));
    }
    return result;
}

TEST_P(CudaRowSumsTest, are_added_in_fp32_in_order_and_rounded_once) {
    for (const std::int64_t ranks : {1, 2, 3, 8})
        for (const std::int64_t count : {0, 1, 8, 9, 2056, 2067}) {
            auto rows = TestTensor::random(DType::bf16, {ranks, count}, 1);
            TestTensor sum(DType::bf16, {count});
            cuda::add_rows(rows.view(), sum.view(), stream_);
            expect_equal(sum, sums(rows, ranks, count));
        }
}

TEST_P(CudaRowSumsTest, do_not_lose_small_parts_one_by_one) {
    // 1/256 is half of what bf16 can tell from 1.
    std::vector<double> values(9 * 8, 1.0 / 256);
    std::fill_n(values.begin(), 8, 1.0);
    TestTensor rows(DType::bf16, {9, 8}, values), sum(DType::bf16, {8});
    cuda::add_rows(rows.view(), sum.view(), stream_);
    expect_equal(sum, std::vector<double>(8, 1.03125));
}

TEST_P(CudaRowSumsTest, may_lie_in_one_of_the_rows) {
    for (const std::int64_t row : {0, 2}) {
        constexpr std::int64_t count = 2056;
        auto rows = TestTensor::random(DType::bf16, {3, count}, 2);
        const std::vector<double> expected = sums(rows, 3, count);
        TensorView whole = rows.view();
        const TensorView sum{whole.data + 2 * row * count, DType::bf16, {count}};
        cuda::add_rows(whole, sum, stream_);
        const std::vector<double> values = rows.values();
        for (std::size_t i = 0; i < expected.size(); ++i)
            ASSERT_EQ(values[static_cast<std::size_t>(row * count) + i], expected[i]) << i;
    }
}

TEST_P(CudaRowSumsTest, keep_what_is_not_finite) {
    TestTensor rows(DType::bf16, {3, 3}, {1, INFINITY, -INFINITY, NAN, 1, 1, 1, 1, 1}), sum(DType::bf16, {3});
    cuda::add_rows(rows.view(), sum.view(), stream_);
    expect_equal(sum, {NAN, INFINITY, -INFINITY});
}

}  // namespace
}  // namespace tutti::test
