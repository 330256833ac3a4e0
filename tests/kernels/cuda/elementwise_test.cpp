#include "elementwise.hpp"

#include "storage_cases.hpp"

namespace tutti::test {
namespace {

class CudaElementwiseTest : public CudaKernelTest {};
TUTTI_KERNEL_TEST(CudaElementwiseTest);

constexpr std::int64_t element_counts[] = {0, 1, 9, 255, 2067};

TEST_P(CudaElementwiseTest, fill_writes_each_element) {
    for (const DType dtype : storage_types)
        for (const std::int64_t count : element_counts) {
            TestTensor x(dtype, {count});
            cuda::fill(x.view(), -0.75, stream_);
            expect_equal(x, std::vector<double>(static_cast<std::size_t>(count), -0.75));
        }
}

TEST_P(CudaElementwiseTest, sum_has_the_bits_of_the_cpu_and_may_be_in_place) {
    for (const DType dtype : storage_types)
        for (const std::int64_t count : element_counts) {
            auto a = TestTensor::random(dtype, {count}, 1), b = TestTensor::random(dtype, {count}, 2);
            auto exact_a = converted(a, DType::f32), exact_b = converted(b, DType::f32);
            TestTensor y(dtype, {count}), exact_y(DType::f32, {count});
            cuda::sum(a.view(), b.view(), y.view(), stream_);
            cpu_.sum(exact_a.view(), exact_b.view(), exact_y.view());
            const std::vector<double> expected = stored(exact_y, dtype);
            expect_equal(y, expected);
            cuda::sum(a.view(), b.view(), b.view(), stream_);
            expect_equal(b, expected);
        }
}

TEST_P(CudaElementwiseTest, swap_exchanges_whatever_the_alignment) {
    for (const DType dtype : storage_types)
        for (const std::int64_t count : {1, 9, 255, 2067}) {
            auto x = TestTensor::random(dtype, {count}, 1), y = TestTensor::random(dtype, {count}, 2);
            const auto old_x = x.values(), old_y = y.values();
            cuda::swap(x.view(), y.view(), stream_);
            expect_equal(x, old_y);
            expect_equal(y, old_x);
            cuda::swap(without_first(x.view()), without_first(y.view()), stream_);
            auto expected = old_x;
            expected[0] = old_y[0];
            expect_equal(x, expected);
        }
}

TEST_P(CudaElementwiseTest, scale_samples_has_the_bits_of_the_cpu) {
    const std::vector<double> factors{0, 1.0 / 3, -2};
    TestTensor device_factors(DType::f64, {3}, factors);
    for (const DType dtype : storage_types)
        for (const std::int64_t size : {1, 7, 16, 300}) {
            auto x = TestTensor::random(dtype, {3, size}, 1), exact_x = converted(x, DType::f32);
            TestTensor y(dtype, {3, size}), exact_y(DType::f32, {3, size});
            cuda::scale_samples(x.view(), device_factors.view(), y.view(), stream_);
            cpu_.scale_samples(exact_x.view(), factors, exact_y.view());
            expect_equal(y, stored(exact_y, dtype));
        }
}

}  // namespace
}  // namespace tutti::test
