#include "sum_of_squares.hpp"

#include <cmath>

#include "kernel_test.hpp"

namespace tutti::test {
namespace {

class CudaSumOfSquaresTest : public CudaKernelTest {
  protected:
    double run(TestTensor& x) {
        TestTensor workspace(DType::f64, {cuda::sum_of_squares_workspace(x.view().count())});
        TestTensor sum(DType::f64, {1});
        cuda::sum_of_squares(x.view(), workspace.view(), sum.view(), stream_);
        return sum.get(0);
    }
    double expected(TestTensor& x) {
        TestTensor sum(DType::f64, {1});
        cpu_.sum_of_squares(x.view(), sum.view());
        return sum.get(0);
    }
};
TUTTI_KERNEL_TEST(CudaSumOfSquaresTest);

TEST_P(CudaSumOfSquaresTest, has_the_bits_of_the_cpu) {
    for (const std::int64_t count : {0, 1, 7, 9, 31, 33, 4095, 4096, 4097, 5 * 4096 + 3, 33 * 4096 + 100}) {
        SCOPED_TRACE(count);
        auto x = TestTensor::random(DType::f32, {count}, 1);
        EXPECT_EQ(run(x), expected(x));
    }
}

TEST_P(CudaSumOfSquaresTest, reads_bf16) {
    auto x = TestTensor::random(DType::bf16, {4133}, 2);
    TestTensor same(DType::f32, {4133}, x.values());
    EXPECT_EQ(run(x), expected(same));
}

TEST_P(CudaSumOfSquaresTest, a_value_that_is_not_finite_shows) {
    TestTensor x(DType::f32, {3}, {1, NAN, 2});
    EXPECT_TRUE(std::isnan(run(x)));
}

}  // namespace
}  // namespace tutti::test
