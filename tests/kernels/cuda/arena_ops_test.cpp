#include "arena_ops.hpp"

#include <cmath>

#include "storage_cases.hpp"

namespace tutti::test {
namespace {

class CudaArenaOpsTest : public CudaKernelTest {};
TUTTI_KERNEL_TEST(CudaArenaOpsTest);

constexpr std::int64_t arena_counts[] = {0, 1, 9, 255, 2067};

TEST_P(CudaArenaOpsTest, cast_rounds_to_the_nearest) {
    for (const std::int64_t count : arena_counts) {
        auto x = TestTensor::random(DType::f32, {count}, 1);
        TestTensor y(DType::bf16, {count}), back(DType::f32, {count});
        cuda::cast(x.view(), y.view(), stream_);
        expect_equal(y, stored(x, DType::bf16));
        cuda::cast(y.view(), back.view(), stream_);
        expect_equal(back, y.values());
    }
}

TEST_P(CudaArenaOpsTest, cast_keeps_what_is_not_finite) {
    TestTensor x(DType::f32, {4}, {NAN, INFINITY, -INFINITY, 3.4e38}), y(DType::bf16, {4});
    cuda::cast(x.view(), y.view(), stream_);
    expect_equal(y, {NAN, INFINITY, -INFINITY, INFINITY});
}

TEST_P(CudaArenaOpsTest, accumulate_has_the_bits_of_the_cpu) {
    for (const DType dtype : storage_types)
        for (const std::int64_t count : arena_counts) {
            auto x = TestTensor::random(dtype, {count}, 1), exact_x = converted(x, DType::f32);
            auto y = TestTensor::random(DType::f32, {count}, 2), cpu_y = y;
            cuda::accumulate(x.view(), y.view(), stream_);
            cpu_.add(exact_x.view(), cpu_y.view());
            expect_equal(y, cpu_y.values());
        }
}

TEST_P(CudaArenaOpsTest, scale_and_lerp_have_the_bits_of_the_cpu) {
    TestTensor factor(DType::f64, {1}, {1.0 / 3});
    for (const DType dtype : storage_types)
        for (const std::int64_t count : arena_counts) {
            auto x = TestTensor::random(dtype, {count}, 1), exact_x = converted(x, DType::f32);
            auto y = TestTensor::random(dtype, {count}, 2);
            for (const double weight : {0.0, 0.1, 0.75, 1.0}) {
                auto exact_y = converted(y, DType::f32);
                cuda::lerp(weight, x.view(), y.view(), stream_);
                cpu_.lerp(weight, exact_x.view(), exact_y.view());
                expect_equal(y, stored(exact_y, dtype));
            }
            cuda::scale(factor.view(), x.view(), stream_);
            cpu_.scale(1.0 / 3, exact_x.view());
            expect_equal(x, stored(exact_x, dtype));
        }
}

}  // namespace
}  // namespace tutti::test
