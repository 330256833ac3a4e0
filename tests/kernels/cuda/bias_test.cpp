#include "bias.hpp"

#include "storage_cases.hpp"

namespace tutti::test {
namespace {

using cuda::BiasActivation;
using BiasSizes = std::pair<std::int64_t, std::int64_t>;  // rows, channels

constexpr BiasSizes bias_sizes[] = {{0, 3}, {1, 1}, {37, 70}, {67, 40}};
constexpr BiasActivation activations[] = {BiasActivation::none, BiasActivation::relu, BiasActivation::gelu};

class CudaBiasTest : public CudaKernelTest {
  protected:
    /// x + bias, by the CPU
    TestTensor with_bias(TestTensor& x, TestTensor& bias) {
        TestTensor repeated(DType::f32, x.view().shape), sum = repeated;
        for (std::size_t i = 0; i < repeated.size(); ++i) repeated.set(i, bias.get(i % bias.size()));
        cpu_.sum(x.view(), repeated.view(), sum.view());
        return sum;
    }
    static void expect_values(BiasActivation activation, TestTensor& found, TestTensor& expected,
                              DType dtype) {
        if (activation == BiasActivation::gelu) return expect_gelu(found, expected, dtype);
        expect_equal(found, stored(expected, dtype));
    }
    void activate(BiasActivation activation, TestTensor& x) {
        if (activation == BiasActivation::relu) cpu_.relu_forward(x.view(), x.view());
        if (activation == BiasActivation::gelu) cpu_.gelu_forward(GeluForm::exact, x.view(), x.view());
    }
};
TUTTI_KERNEL_TEST(CudaBiasTest);

TEST_P(CudaBiasTest, forward_has_the_bits_of_the_cpu) {
    for (const DType dtype : storage_types)
        for (const auto& [rows, channels] : bias_sizes)
            for (const BiasActivation activation : activations) {
                auto x = TestTensor::random(dtype, {rows, channels}, 1), exact_x = converted(x, DType::f32);
                auto bias = TestTensor::random(DType::f32, {channels}, 2);
                auto expected = with_bias(exact_x, bias);
                activate(activation, expected);
                cuda::bias_forward(activation, x.view(), bias.view(), x.view(), stream_);
                expect_values(activation, x, expected, dtype);
            }
}

/// A thread adds at most 64 terms of magnitude below 2 in fp32, the rest is in double.
constexpr double bias_tolerance = 64 * 0x1p-24 * 8;

TEST_P(CudaBiasTest, backward_agrees_with_the_cpu) {
    for (const DType dtype : storage_types)
        for (const auto& [rows, channels] : bias_sizes)
            for (const BiasActivation activation : activations) {
                SCOPED_TRACE(std::string(name_of(dtype)) + " " + std::to_string(rows) + "×" +
                             std::to_string(channels) + " " + std::to_string(static_cast<int>(activation)));
                auto kept = TestTensor::random(dtype, {rows, channels}, 1);
                auto dy = TestTensor::random(dtype, {rows, channels}, 2);
                auto bias = TestTensor::random(DType::f32, {channels}, 3);
                auto exact = converted(kept, DType::f32), expected = converted(dy, DType::f32);
                if (activation == BiasActivation::relu)
                    cpu_.relu_backward(exact.view(), expected.view(), expected.view());
                if (activation == BiasActivation::gelu) {
                    auto sum = with_bias(exact, bias);
                    cpu_.gelu_backward(GeluForm::exact, sum.view(), expected.view(), expected.view());
                }
                std::vector<double> sums(static_cast<std::size_t>(channels));
                for (std::size_t i = 0; i < expected.size(); ++i) sums[i % sums.size()] += expected.get(i);

                const bool alone = activation == BiasActivation::none;
                TestTensor dbias(DType::f32, {channels});
                TestTensor workspace(DType::f64, {cuda::bias_workspace(dy.view(), channels)});
                cuda::bias_backward(activation, alone ? TensorView{} : kept.view(), bias.view(), dy.view(),
                                    alone ? TensorView{} : dy.view(), dbias.view(), workspace.view(),
                                    stream_);
                expect_values(activation, dy, expected, dtype);
                const bool fast = activation == BiasActivation::gelu && dtype == DType::bf16;
                expect_near(dbias.values(), sums,
                            bias_tolerance + (fast ? static_cast<double>(rows) * fast_gelu_tolerance : 0));
            }
}

TEST_P(CudaBiasTest, backward_takes_what_already_has_the_bias) {
    for (const DType dtype : storage_types) {
        auto kept = TestTensor::random(dtype, {67, 40}, 1), dy = TestTensor::random(dtype, {67, 40}, 2);
        TestTensor zeros(DType::f32, {40}, std::vector<double>(40)), dbias(DType::f32, {40}),
            expected_dbias = dbias, dx(dtype, {67, 40}), expected_dx = dx;
        TestTensor workspace(DType::f64, {cuda::bias_workspace(dy.view(), 40)});
        cuda::bias_backward(BiasActivation::gelu, kept.view(), {}, dy.view(), dx.view(), dbias.view(),
                            workspace.view(), stream_);
        cuda::bias_backward(BiasActivation::gelu, kept.view(), zeros.view(), dy.view(), expected_dx.view(),
                            expected_dbias.view(), workspace.view(), stream_);
        EXPECT_EQ(dx.bytes(), expected_dx.bytes());
        EXPECT_EQ(dbias.bytes(), expected_dbias.bytes());
    }
}

/// So many tiles of channels that a thread has five or six rows of one: some under way at a time, some alone.
TEST_P(CudaBiasTest, sums_alone_of_several_rows_per_thread_are_complete) {
    constexpr std::int64_t rows = 45, channels = 32001;
    auto dy = TestTensor::random(DType::bf16, {rows, channels}, 1);
    TestTensor dbias(DType::f32, {channels});
    TestTensor workspace(DType::f64, {cuda::bias_workspace(dy.view(), channels)});
    cuda::bias_backward(BiasActivation::none, {}, {}, dy.view(), {}, dbias.view(), workspace.view(), stream_);
    std::vector<double> sums(channels);
    const auto values = dy.values();
    for (std::size_t i = 0; i < values.size(); ++i) sums[i % channels] += values[i];
    expect_near(dbias.values(), sums, bias_tolerance);
}

}  // namespace
}  // namespace tutti::test
