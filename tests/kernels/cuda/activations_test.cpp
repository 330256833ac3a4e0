#include "activations.hpp"

#include <cmath>

#include "storage_cases.hpp"

namespace tutti::test {
namespace {

class CudaActivationsTest : public CudaKernelTest {};
TUTTI_KERNEL_TEST(CudaActivationsTest);

constexpr std::int64_t activation_counts[] = {0, 1, 7, 8, 31, 259, 2100};

TEST_P(CudaActivationsTest, forward_has_the_bits_of_the_cpu) {
    for (const DType dtype : storage_types)
        for (const std::int64_t count : activation_counts) {
            SCOPED_TRACE(std::string(name_of(dtype)) + " " + std::to_string(count));
            auto x = TestTensor::random(dtype, {count}, 1);
            auto exact_x = converted(x, DType::f32);
            TestTensor y(dtype, {count}), expected(DType::f32, {count});
            cuda::relu_forward(x.view(), y.view(), stream_);
            cpu_.relu_forward(exact_x.view(), expected.view());
            expect_equal(y, stored(expected, dtype));
            for (const GeluForm form : {GeluForm::exact, GeluForm::tanh}) {
                cuda::gelu_forward(form, x.view(), y.view(), stream_);
                cpu_.gelu_forward(form, exact_x.view(), expected.view());
                expect_equal(y, stored(expected, dtype));
            }
        }
}

TEST_P(CudaActivationsTest, backward_has_the_bits_of_the_cpu) {
    for (const DType dtype : storage_types)
        for (const std::int64_t count : activation_counts) {
            SCOPED_TRACE(std::string(name_of(dtype)) + " " + std::to_string(count));
            auto x = TestTensor::random(dtype, {count}, 2), dy = TestTensor::random(dtype, {count}, 3);
            auto exact_x = converted(x, DType::f32), exact_dy = converted(dy, DType::f32);
            TestTensor dx(dtype, {count}), expected(DType::f32, {count});
            cuda::relu_backward(x.view(), dy.view(), dx.view(), stream_);
            cpu_.relu_backward(exact_x.view(), exact_dy.view(), expected.view());
            expect_equal(dx, stored(expected, dtype));
            for (const GeluForm form : {GeluForm::exact, GeluForm::tanh}) {
                cuda::gelu_backward(form, x.view(), dy.view(), dx.view(), stream_);
                cpu_.gelu_backward(form, exact_x.view(), exact_dy.view(), expected.view());
                expect_equal(dx, stored(expected, dtype));
            }
        }
}

TEST_P(CudaActivationsTest, relu_of_a_sum_has_the_bits_of_the_cpu_forward_and_backward) {
    for (const DType dtype : storage_types)
        for (const std::int64_t count : activation_counts) {
            SCOPED_TRACE(std::string(name_of(dtype)) + " " + std::to_string(count));
            auto a = TestTensor::random(dtype, {count}, 4), b = TestTensor::random(dtype, {count}, 5);
            if (count > 7) a.set(3, NAN), b.set(5, -a.get(5));
            auto exact_a = converted(a, DType::f32), exact_b = converted(b, DType::f32);
            TestTensor y(dtype, {count}), expected(DType::f32, {count}), db(dtype, {count});
            cuda::sum_relu(a.view(), b.view(), y.view(), stream_);
            cpu_.sum_relu(exact_a.view(), exact_b.view(), expected.view());
            expect_equal(y, stored(expected, dtype));
            auto dy = TestTensor::random(dtype, {count}, 6), exact_dy = converted(dy, DType::f32);
            auto exact_y = converted(y, DType::f32);
            cpu_.relu_backward(exact_y.view(), exact_dy.view(), expected.view());
            cuda::sum_relu_backward(y.view(), dy.view(), dy.view(), db.view(), stream_);
            expect_equal(dy, stored(expected, dtype));
            expect_equal(db, stored(expected, dtype));
        }
}

TEST_P(CudaActivationsTest, work_in_place_and_where_the_memory_allows_no_wide_accesses) {
    auto x = TestTensor::random(DType::bf16, {38}, 4);
    TestTensor expected(DType::bf16, {37});
    auto copy = x;
    const auto all = x.values();
    TestTensor rest(DType::bf16, {37}, {all.begin() + 1, all.end()});
    cuda::gelu_forward(GeluForm::exact, rest.view(), expected.view(), stream_);
    cuda::gelu_forward(GeluForm::exact, without_first(copy.view()), without_first(copy.view()), stream_);
    for (std::size_t i = 0; i < 37; ++i) EXPECT_EQ(copy.get(i + 1), expected.get(i)) << i;
    EXPECT_EQ(copy.get(0), x.get(0));
}

TEST_P(CudaActivationsTest, nan_stays_nan) {
    TestTensor x(DType::f32, {4}, {NAN, -1, 2, -NAN}), y(DType::f32, {4});
    cuda::relu_forward(x.view(), y.view(), stream_);
    expect_equal(y, {NAN, 0, 2, NAN});
    cuda::gelu_forward(GeluForm::exact, x.view(), y.view(), stream_);
    EXPECT_TRUE(std::isnan(y.get(0)));
}

}  // namespace
}  // namespace tutti::test
