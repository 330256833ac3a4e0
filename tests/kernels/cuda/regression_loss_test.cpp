#include "regression_loss.hpp"

#include <cmath>

#include "storage_cases.hpp"

namespace tutti::test {
namespace {

constexpr RegressionLoss every_loss[] = {RegressionLoss::squared, RegressionLoss::absolute,
                                         RegressionLoss::huber};
// A thread, a warp or a block to a row, and the widths between.
constexpr std::pair<std::int64_t, std::int64_t> regression_batches[] = {
    {0, 3},  {1, 1},   {600, 1}, {300, 2},  {257, 8},  {33, 9},
    {9, 31}, {10, 32}, {5, 129}, {3, 1024}, {2, 1025}, {3, 3001}};

class CudaRegressionLossTest : public CudaKernelTest {
  protected:
    struct Batch {
        TestTensor outputs, targets, differences, sums, doutputs;
        Batch(DType dtype, std::int64_t rows, std::int64_t width)
            : outputs(TestTensor::random(dtype, {rows, width}, 1)),
              targets(TestTensor::random(DType::f32, {rows, width}, 2)),
              differences(DType::f32, {rows, width}),
              sums(DType::f64, {3}),
              doutputs(dtype, {rows, width}) {
            for (std::size_t i = 0; i < targets.size(); i += 5) targets.set(i, outputs.get(i));
        }
    };
    void forward(const TensorView& outputs, Batch& b, RegressionLoss kind, const TensorView& differences) {
        TestTensor workspace(DType::f64, {outputs.shape[0]});
        cuda::regression_loss_forward(outputs, b.targets.view(), workspace.view(), kind, differences,
                                      b.sums.view(), stream_);
    }
    void backward(const TensorView& differences, RegressionLoss kind, double scale,
                  const TensorView& doutputs) {
        TestTensor factor(DType::f64, {1}, {scale});
        cuda::regression_loss_backward(differences, factor.view(), kind, doutputs, stream_);
    }
};
TUTTI_KERNEL_TEST(CudaRegressionLossTest);

TEST_P(CudaRegressionLossTest, agrees_with_the_cpu) {
    for (const DType dtype : storage_types)
        for (const RegressionLoss kind : every_loss)
            for (const auto& [rows, width] : regression_batches) {
                SCOPED_TRACE(testing::Message() << name_of(dtype) << ", " << rows << " x " << width
                                                << ", loss " << static_cast<int>(kind));
                Batch b(dtype, rows, width);
                forward(b.outputs.view(), b, kind, b.differences.view());
                TestTensor outputs = converted(b.outputs, DType::f32), d = outputs, doutputs = outputs;
                TestTensor sums(DType::f64, {3});
                cpu_.regression_loss_forward(outputs.view(), b.targets.view(), kind, d.view(), sums.view());
                EXPECT_EQ(b.differences.bytes(), d.bytes());
                // In double, added in another order.
                expect_near(b.sums.values(), sums.values(), 1e-13);

                backward(b.differences.view(), kind, 0.3, b.doutputs.view());
                cpu_.regression_loss_backward(d.view(), kind, 0.3, doutputs.view());
                EXPECT_EQ(b.doutputs.bytes(), converted(doutputs, dtype).bytes());
            }
}

TEST_P(CudaRegressionLossTest, more_rows_than_the_grid_has_threads_take_several_rounds) {
    constexpr std::int64_t rows = 2048 * 256 + 3;
    Batch b(DType::f32, rows, 1);
    forward(b.outputs.view(), b, RegressionLoss::absolute, b.differences.view());
    TestTensor d(DType::f32, {rows, 1}), sums(DType::f64, {3});
    cpu_.regression_loss_forward(b.outputs.view(), b.targets.view(), RegressionLoss::absolute, d.view(),
                                 sums.view());
    EXPECT_EQ(b.differences.bytes(), d.bytes());
    expect_near(b.sums.values(), sums.values(), 1e-11);
}

TEST_P(CudaRegressionLossTest, memory_that_allows_no_wide_accesses) {
    for (const DType dtype : storage_types) {
        Batch aligned(dtype, 1, 40), shifted(dtype, 1, 41);
        const auto behind_first = [](TestTensor& tensor) {
            return without_first(tensor.view().reshaped({tensor.view().count()})).reshaped({1, 40});
        };
        for (std::size_t i = 0; i < 40; ++i) aligned.differences.set(i, 0.1 * static_cast<double>(i) - 2);
        for (std::size_t i = 0; i < 40; ++i) shifted.differences.set(i + 1, aligned.differences.get(i));
        backward(aligned.differences.view(), RegressionLoss::huber, 2, aligned.doutputs.view());
        backward(behind_first(shifted.differences), RegressionLoss::huber, 2, behind_first(shifted.doutputs));
        std::vector<double> behind = shifted.doutputs.values();
        behind.erase(behind.begin());
        EXPECT_EQ(behind, aligned.doutputs.values());
    }
}

TEST_P(CudaRegressionLossTest, targets_of_more_digits_than_the_outputs_have_are_not_rounded) {
    Batch b(DType::bf16, 1, 1);
    b.outputs.set(0, 300);
    b.targets.set(0, 300.125);
    forward(b.outputs.view(), b, RegressionLoss::squared, b.differences.view());
    EXPECT_EQ(b.differences.get(0), -0.125);
    EXPECT_EQ(b.sums.get(0), 0.015625);
}

TEST_P(CudaRegressionLossTest, without_targets_they_are_zeros) {
    for (const DType dtype : storage_types)
        for (const auto& [rows, width] : regression_batches) {
            Batch b(dtype, rows, width);
            TestTensor workspace(DType::f64, {rows}), expected(DType::f32, {rows, width}, b.outputs.values());
            cuda::regression_loss_forward(b.outputs.view(), {}, workspace.view(), RegressionLoss::squared,
                                          b.differences.view(), b.sums.view(), stream_);
            EXPECT_EQ(b.differences.values(), expected.values());
            EXPECT_NEAR(b.sums.get(0), dot(expected, expected) / static_cast<double>(width), 1e-12);
        }
}

TEST_P(CudaRegressionLossTest, works_in_place) {
    for (const RegressionLoss kind : every_loss) {
        Batch b(DType::f32, 9, 31);
        forward(b.outputs.view(), b, kind, b.differences.view());
        backward(b.differences.view(), kind, 2, b.doutputs.view());
        const auto separate = b.sums.values();
        forward(b.outputs.view(), b, kind, b.outputs.view());
        EXPECT_EQ(b.outputs.bytes(), b.differences.bytes());
        EXPECT_EQ(b.sums.values(), separate);
        backward(b.outputs.view(), kind, 2, b.outputs.view());
        EXPECT_EQ(b.outputs.bytes(), b.doutputs.bytes());
    }
}

}  // namespace
}  // namespace tutti::test
