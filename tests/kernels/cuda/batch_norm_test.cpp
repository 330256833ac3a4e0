#include "batch_norm.hpp"

#include <cmath>

#include "kernel_test.hpp"

namespace tutti::test {
namespace {

using NormSizes = std::pair<std::int64_t, std::int64_t>;  // rows, channels

/// None, one, fewer and more than a warp, a tile and a block; vectors and single elements.
constexpr NormSizes norm_sizes[] = {{0, 3}, {1, 1}, {1, 8}, {5, 3}, {37, 64}, {129, 70}, {700, 8}, {67, 272}};

class CudaBatchNormTest : public CudaKernelTest {
  protected:
    /// Everything that one batch of training has, with inputs of the storage type.
    struct Batch {
        std::int64_t channels;
        BatchNormShape shape;
        TestTensor x, dy, residual, weight, bias, shift, moments, normalizer, statistics, sums, dweight,
            dbias, y, dx, dresidual;
        Batch(DType dtype, std::int64_t rows, std::int64_t c)
            : channels(c),
              shape{.channels = c, .eps = 1e-3, .momentum = 0.25},
              x(TestTensor::random(dtype, {rows, c}, 1)),
              dy(TestTensor::random(dtype, {rows, c}, 2)),
              residual(TestTensor::random(dtype, {rows, c}, 3)),
              weight(TestTensor::random(DType::f32, {c}, 4)),
              bias(TestTensor::random(DType::f32, {c}, 5)),
              shift(TestTensor::random(DType::f32, {c}, 6)),
              moments(DType::f64, {1 + 2 * c}),
              normalizer(DType::f64, {1 + 2 * c}),
              statistics(DType::f64, {2 + 2 * c}),
              sums(DType::f64, {2 * c}),
              dweight(DType::f32, {c}),
              dbias(DType::f32, {c}),
              y(dtype, {rows, c}),
              dx(dtype, {rows, c}),
              dresidual(dtype, {rows, c}) {}
        TestTensor workspace() { return {DType::f64, {cuda::batch_norm_workspace(x.view(), channels)}}; }
    };

    void forward_on_cpu(EigenOps<float>& ops, Batch& b, bool add, bool relu) {
        const auto op = ops.batch_norm(b.shape);
        op->moments(b.x.view(), b.shift.view(), b.moments.view());
        op->normalizer(b.moments.view(), b.shift.view(), b.normalizer.view(), b.statistics.view());
        op->forward(b.x.view(), b.normalizer.view(), b.weight.view(), b.bias.view(), b.y.view());
        if (add) ops.sum(b.y.view(), b.residual.view(), b.y.view());
        if (relu) ops.relu_forward(b.y.view(), b.y.view());
    }
    void backward_on_cpu(EigenOps<float>& ops, Batch& b, bool relu) {
        const auto op = ops.batch_norm(b.shape);
        ops.copy(b.dy.view(), b.dresidual.view());
        if (relu) ops.relu_backward(b.y.view(), b.dy.view(), b.dresidual.view());
        op->backward_sums(b.x.view(), b.dresidual.view(), b.normalizer.view(), b.sums.view(),
                          b.dweight.view(), b.dbias.view());
        op->backward(b.x.view(), b.dresidual.view(), b.normalizer.view(), b.weight.view(), b.sums.view(),
                     b.dx.view());
    }
    /// As f32, the same numbers.
    static void widen(TestTensor& tensor) {
        tensor = TestTensor(DType::f32, tensor.view().shape, tensor.values());
    }
    static void copy_inputs(const Batch& from, Batch& to) {
        to.x = from.x;
        to.dy = from.dy;
        to.residual = from.residual;
        for (TestTensor* tensor : {&to.x, &to.dy, &to.residual}) widen(*tensor);
    }
};
TUTTI_KERNEL_TEST(CudaBatchNormTest);

TEST_P(CudaBatchNormTest, moments_agree_with_the_cpu) {
    for (const DType dtype : {DType::f32, DType::bf16})
        for (const auto& [rows, channels] : norm_sizes) {
            SCOPED_TRACE(testing::Message() << name_of(dtype) << ", " << rows << " x " << channels);
            Batch b(dtype, rows, channels), expected(DType::f32, rows, channels);
            copy_inputs(b, expected);
            auto workspace = b.workspace();
            cuda::batch_norm_moments(b.x.view(), b.shift.view(), workspace.view(), b.moments.view(), stream_);
            cpu_.batch_norm(b.shape)->moments(expected.x.view(), b.shift.view(), expected.moments.view());
            // 64 terms up to 4 in fp32, the rest in double.
            expect_near(b.moments.values(), expected.moments.values(), 64 * 4 * 0x1p-24);

            // What they come to has the same bits in one go.
            cuda::batch_norm_normalizer(b.shape, b.moments.view(), b.shift.view(), b.normalizer.view(),
                                        b.statistics.view(), stream_);
            cuda::batch_norm_normalizer_of_batch(b.shape, b.x.view(), b.shift.view(), workspace.view(),
                                                 expected.normalizer.view(), expected.statistics.view(),
                                                 stream_);
            EXPECT_EQ(expected.normalizer.bytes(), b.normalizer.bytes());
            EXPECT_EQ(expected.statistics.bytes(), b.statistics.bytes());
        }
}

TEST_P(CudaBatchNormTest, statistics_have_the_bits_of_the_cpu) {
    for (const std::int64_t channels : {1, 33, 300}) {
        Batch b(DType::f32, 7, channels), expected(DType::f32, 7, channels);
        forward_on_cpu(cpu_, expected, false, false);
        cuda::batch_norm_normalizer(b.shape, expected.moments.view(), b.shift.view(), b.normalizer.view(),
                                    b.statistics.view(), stream_);
        EXPECT_EQ(b.normalizer.bytes(), expected.normalizer.bytes());
        EXPECT_EQ(b.statistics.bytes(), expected.statistics.bytes());

        cuda::batch_norm_running_normalizer(b.shape, b.shift.view(), b.weight.view(), b.normalizer.view(),
                                            stream_);
        cpu_.batch_norm(b.shape)->running_normalizer(b.shift.view(), b.weight.view(),
                                                     expected.normalizer.view());
        EXPECT_EQ(b.normalizer.bytes(), expected.normalizer.bytes());
    }
}

TEST_P(CudaBatchNormTest, forward_has_the_bits_of_the_cpu_with_addition_and_relu_fused) {
    for (const auto& [rows, channels] : norm_sizes)
        for (const bool add : {false, true})
            for (const bool relu : {false, true}) {
                SCOPED_TRACE(testing::Message()
                             << rows << " x " << channels << ", add " << add << ", relu " << relu);
                Batch b(DType::f32, rows, channels), expected(DType::f32, rows, channels);
                forward_on_cpu(cpu_, expected, add, relu);
                cuda::batch_norm_forward(
                    b.x.view(), expected.normalizer.view(), b.weight.view(), b.bias.view(),
                    {.residual = add ? b.residual.view() : TensorView{}, .relu = relu}, b.y.view(), stream_);
                EXPECT_EQ(b.y.bytes(), expected.y.bytes());
            }
}

TEST_P(CudaBatchNormTest, backward_agrees_with_the_cpu) {
    for (const auto& [rows, channels] : norm_sizes)
        for (const bool relu : {false, true}) {
            SCOPED_TRACE(testing::Message() << rows << " x " << channels << ", relu " << relu);
            Batch b(DType::f32, rows, channels), expected(DType::f32, rows, channels);
            forward_on_cpu(cpu_, expected, true, relu);
            backward_on_cpu(cpu_, expected, relu);
            auto workspace = b.workspace();
            const cuda::BatchNormRelu gate{.y = relu ? expected.y.view() : TensorView{}};
            cuda::batch_norm_backward_sums(b.x.view(), b.dy.view(), gate, expected.normalizer.view(),
                                           b.dresidual.view(), workspace.view(), b.sums.view(),
                                           b.dweight.view(), b.dbias.view(), stream_);
            // 1/√(variance + eps) is at most 32.
            const double tolerance = 64 * 4 * 32 * 0x1p-24;
            expect_near(b.sums.values(), expected.sums.values(), tolerance);
            expect_near(b.dweight.values(), expected.dweight.values(), tolerance);
            expect_near(b.dbias.values(), expected.dbias.values(), tolerance);
            EXPECT_EQ(b.dresidual.bytes(), expected.dresidual.bytes());
            cuda::batch_norm_backward(b.x.view(), b.dresidual.view(), {}, expected.normalizer.view(),
                                      b.weight.view(), expected.sums.view(), b.dx.view(), stream_);
            EXPECT_EQ(b.dx.bytes(), expected.dx.bytes());
        }
}

TEST_P(CudaBatchNormTest, bf16_agrees_up_to_its_rounding) {
    for (const auto& [rows, channels] : norm_sizes) {
        SCOPED_TRACE(testing::Message() << rows << " x " << channels);
        Batch b(DType::bf16, rows, channels), expected(DType::f32, rows, channels);
        copy_inputs(b, expected);
        forward_on_cpu(cpu_, expected, true, true);
        // The mask of ReLU comes from the same numbers.
        TestTensor y(DType::bf16, {rows, channels}, expected.y.values());
        expected.y = y;
        widen(expected.y);
        backward_on_cpu(cpu_, expected, true);
        auto workspace = b.workspace();
        cuda::batch_norm_forward(b.x.view(), expected.normalizer.view(), b.weight.view(), b.bias.view(),
                                 {.residual = b.residual.view(), .relu = true}, b.y.view(), stream_);
        EXPECT_EQ(b.y.bytes(), y.bytes());
        cuda::batch_norm_backward_sums(b.x.view(), b.dy.view(), {.y = y.view()}, expected.normalizer.view(),
                                       b.dresidual.view(), workspace.view(), b.sums.view(), b.dweight.view(),
                                       b.dbias.view(), stream_);
        expect_near(b.sums.values(), expected.sums.values(), 64 * 4 * 32 * 0x1p-24);
        cuda::batch_norm_backward(b.x.view(), b.dresidual.view(), {}, expected.normalizer.view(),
                                  b.weight.view(), expected.sums.view(), b.dx.view(), stream_);
        EXPECT_EQ(b.dx.bytes(), TestTensor(DType::bf16, {rows, channels}, expected.dx.values()).bytes());
        EXPECT_EQ(b.dresidual.bytes(),
                  TestTensor(DType::bf16, {rows, channels}, expected.dresidual.values()).bytes());
    }
}

// Zero, the signs of both, and NaN are all there: the ReLU must be the one that forward applied.
TEST_P(CudaBatchNormTest, a_relu_computed_again_has_the_bits_of_one_seen_in_the_output) {
    for (const DType dtype : {DType::f32, DType::bf16})
        for (const auto& [rows, channels] : norm_sizes) {
            SCOPED_TRACE(testing::Message() << name_of(dtype) << ", " << rows << " x " << channels);
            Batch b(dtype, rows, channels), seen(dtype, rows, channels), exact(DType::f32, rows, channels);
            copy_inputs(b, exact);
            forward_on_cpu(cpu_, exact, false, false);
            b.bias.set(0, 0);
            if (b.x.size() > 0) b.x.set(0, exact.normalizer.get(1));  // f32: x = mean, so y is 0
            if (b.x.size() > 9) b.x.set(9, NAN);
            cuda::batch_norm_forward(b.x.view(), exact.normalizer.view(), b.weight.view(), b.bias.view(),
                                     {.residual = {}, .relu = true}, b.y.view(), stream_);
            auto workspace = b.workspace();
            const auto backward = [&](const cuda::BatchNormRelu& relu, Batch& to, const TensorView& g) {
                cuda::batch_norm_backward_sums(b.x.view(), b.dy.view(), relu, exact.normalizer.view(), g,
                                               workspace.view(), to.sums.view(), to.dweight.view(),
                                               to.dbias.view(), stream_);
                const bool passed = g.defined();
                cuda::batch_norm_backward(b.x.view(), passed ? g : b.dy.view(),
                                          passed ? cuda::BatchNormRelu{} : relu, exact.normalizer.view(),
                                          b.weight.view(), to.sums.view(), to.dx.view(), stream_);
            };
            backward({.y = b.y.view()}, seen, seen.dresidual.view());
            backward({.weight = b.weight.view(), .bias = b.bias.view()}, b, {});
            EXPECT_EQ(b.sums.bytes(), seen.sums.bytes());
            EXPECT_EQ(b.dweight.bytes(), seen.dweight.bytes());
            EXPECT_EQ(b.dbias.bytes(), seen.dbias.bytes());
            EXPECT_EQ(b.dx.bytes(), seen.dx.bytes());
        }
}

TEST_P(CudaBatchNormTest, gradients_may_take_the_place_of_dy) {
    Batch b(DType::f32, 37, 70), expected(DType::f32, 37, 70);
    forward_on_cpu(cpu_, expected, true, true);
    backward_on_cpu(cpu_, expected, true);
    auto workspace = b.workspace();
    cuda::batch_norm_backward_sums(b.x.view(), b.dy.view(), {.y = expected.y.view()},
                                   expected.normalizer.view(), b.dy.view(), workspace.view(), b.sums.view(),
                                   b.dweight.view(), b.dbias.view(), stream_);
    EXPECT_EQ(b.dy.bytes(), expected.dresidual.bytes());
    cuda::batch_norm_backward(b.x.view(), b.dy.view(), {}, expected.normalizer.view(), b.weight.view(),
                              expected.sums.view(), b.dy.view(), stream_);
    EXPECT_EQ(b.dy.bytes(), expected.dx.bytes());
}

}  // namespace
}  // namespace tutti::test
