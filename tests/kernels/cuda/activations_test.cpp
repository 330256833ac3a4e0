#include "activations.hpp"

#include <cmath>
#include <numbers>

#include "fast_gelu.hpp"
#include "storage_cases.hpp"

namespace tutti::test {
namespace {

class CudaActivationsTest : public CudaKernelTest {};
TUTTI_KERNEL_TEST(CudaActivationsTest);

constexpr GeluForm gelu_forms[] = {GeluForm::exact, GeluForm::tanh};
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
            for (const GeluForm form : gelu_forms) {
                cuda::gelu_forward(form, x.view(), y.view(), stream_);
                cpu_.gelu_forward(form, exact_x.view(), expected.view());
                expect_gelu(y, expected, dtype);
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
            for (const GeluForm form : gelu_forms) {
                cuda::gelu_backward(form, x.view(), dy.view(), dx.view(), stream_);
                cpu_.gelu_backward(form, exact_x.view(), exact_dy.view(), expected.view());
                expect_gelu(dx, expected, dtype);
            }
        }
}

/// The part of x that GELU passes, and the derivative of GELU, in fp64.
struct GeluReference {
    double share, slope;
    GeluReference(GeluForm form, double x) {
        const double linear = 2 * std::sqrt(2 / std::numbers::pi), cubic = 0.044715 * linear;
        if (form == GeluForm::exact) {
            share = 0.5 * std::erfc(-x / std::numbers::sqrt2);
            slope = share + x * std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi);
        } else {
            const double twice_u = x * (linear + cubic * x * x);
            share = 1 / (1 + std::exp(-twice_u));
            const double steep = x * (linear + 3 * cubic * x * x) / (1 + std::exp(twice_u));
            slope = share * (1 + steep);
        }
    }
};

TEST(CudaFastGelu, is_far_within_a_rounding_at_all_numbers_of_bf16) {
    double worst[4] = {};
    // Below, e^(-x²/2) is no normal number of fp32.
    constexpr double nothing = 1e-35;
    const auto relative = [](double found, double expected, double size) {
        return std::max(0.0, std::abs(found - expected) - nothing) / (size + nothing);
    };
    for (unsigned bits = 0; bits < 0x10000; ++bits) {
        const float x = to_float(Bf16{static_cast<std::uint16_t>(bits)});
        if (!(std::abs(x) < 1e18f)) continue;  // x³ in fp64 and far beyond what follows
        for (int tanh = 0; tanh < 2; ++tanh) {
            const GeluReference at(gelu_forms[tanh], x);
            const float y = tanh ? cuda::fast_gelu_by_tanh(x) : cuda::fast_gelu(x);
            const float slope =
                tanh ? cuda::fast_gelu_by_tanh_gradient(x, 1) : cuda::fast_gelu_gradient(x, 1);
            const double expected = x * at.share;
            ASSERT_TRUE(std::isfinite(y) && std::isfinite(slope)) << x;
            worst[2 * tanh] = std::max(worst[2 * tanh], relative(y, expected, std::abs(expected)));
            worst[2 * tanh + 1] = std::max(worst[2 * tanh + 1],
                                           relative(slope, at.slope, std::max(std::abs(at.slope), at.share)));
        }
    }
    EXPECT_LT(worst[0], 3.3e-5);
    EXPECT_LT(worst[1], 3.3e-5);
    EXPECT_LT(worst[2], 1e-5);
    EXPECT_LT(worst[3], 1e-5);
    // The polynomial's own error: what is much better than that is measured wrongly.
    EXPECT_GT(worst[0], 2.9e-5);
}

TEST(CudaFastGelu, has_limits_and_passes_nan) {
    for (const float x : {1e20f, 3e38f, INFINITY}) {
        SCOPED_TRACE(x);
        EXPECT_EQ(cuda::fast_gelu(x), x);
        EXPECT_EQ(cuda::fast_gelu(-x), 0);
        EXPECT_EQ(cuda::fast_gelu_gradient(x, 3), 3);
        EXPECT_EQ(cuda::fast_gelu_gradient(-x, 3), 0);
        EXPECT_EQ(cuda::fast_gelu_by_tanh(x), x);
        EXPECT_EQ(cuda::fast_gelu_by_tanh_gradient(x, 3), 3);
        EXPECT_EQ(cuda::fast_gelu_by_tanh_gradient(-x, 3), 0);
    }
    EXPECT_EQ(cuda::fast_gelu_by_tanh(-3e38f), 0);
    EXPECT_TRUE(std::isnan(cuda::fast_gelu(NAN)) && std::isnan(cuda::fast_gelu_by_tanh(NAN)));
    EXPECT_TRUE(std::isnan(cuda::fast_gelu_gradient(NAN, 1)));
    EXPECT_TRUE(std::isnan(cuda::fast_gelu_by_tanh_gradient(NAN, 1)));
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
