#include "location_loss.hpp"

#include "storage_cases.hpp"

namespace tutti::test {
namespace {

class CudaLocationLossTest : public CudaKernelTest {
  protected:
    struct Batch {
        TestTensor outputs, wanted, differences, sums, gradient;
        Batch(DType dtype, const Shape& shape)
            : outputs(TestTensor::random(dtype, shape, 1)),
              wanted(TestTensor::random(DType::f32, {shape[0], 3}, 2)),
              differences(DType::f32, shape),
              sums(DType::f64, {3}),
              gradient(dtype, shape) {
            for (std::size_t n = 0; n < wanted.size() / 3; ++n) {
                wanted.set(3 * n, n % 3 == 1 ? 0 : 1);
                wanted.set(3 * n + 1, 2 * static_cast<double>(shape[2]) * (wanted.get(3 * n + 1) + 0.9));
                wanted.set(3 * n + 2, 2 * static_cast<double>(shape[1]) * (wanted.get(3 * n + 2) + 0.9));
            }
        }
    };
    void forward(const TensorView& outputs, Batch& b, const LocationLoss& loss,
                 const TensorView& differences) {
        TestTensor workspace(DType::f64, {2 * outputs.shape[0]});
        cuda::location_loss_forward(outputs, b.wanted.view(), workspace.view(), loss, differences,
                                    b.sums.view(), stream_);
    }
    void backward(const TensorView& differences, const LocationLoss& loss, double scale,
                  const TensorView& gradient) {
        TestTensor factor(DType::f64, {1}, {scale});
        cuda::location_loss_backward(differences, factor.view(), loss, gradient, stream_);
    }
};
TUTTI_KERNEL_TEST(CudaLocationLossTest);

TEST_P(CudaLocationLossTest, agrees_with_the_cpu) {
    const LocationLoss loss{.stride = 2, .sigma = 3.5, .heat_map_weight = 7, .presence_weight = 0.5};
    for (const DType dtype : storage_types)
        for (const Shape& shape : {Shape{0, 3, 3, 2}, Shape{1, 1, 1, 2}, Shape{5, 3, 4, 2},
                                   Shape{3, 16, 16, 2}, Shape{4, 5, 57, 2}, Shape{2, 33, 31, 2}}) {
            SCOPED_TRACE(testing::Message() << name_of(dtype) << ", " << to_string(shape));
            Batch b(dtype, shape);
            forward(b.outputs.view(), b, loss, b.differences.view());
            TestTensor outputs = converted(b.outputs, DType::f32), d(DType::f32, shape),
                       sums(DType::f64, {3});
            cpu_.location_loss_forward(outputs.view(), b.wanted.view(), loss, d.view(), sums.view());
            // A product less a number may be rounded once or twice.
            expect_near(b.differences.values(), d.values(), 0x1p-23);
            expect_near(b.sums.values(), sums.values(), 1e-6);
            EXPECT_EQ(b.sums.get(1), sums.get(1));
            EXPECT_EQ(b.sums.get(2), sums.get(2));

            backward(b.differences.view(), loss, 0.3, b.gradient.view());
            TestTensor gradient(DType::f32, shape);
            cpu_.location_loss_backward(b.differences.view(), loss, 0.3, gradient.view());
            EXPECT_EQ(b.gradient.bytes(), converted(gradient, dtype).bytes());
        }
}

TEST_P(CudaLocationLossTest, more_samples_than_the_grid_has_blocks_take_several_rounds) {
    constexpr std::int64_t samples = 2048 + 3;
    Batch b(DType::f32, {samples, 1, 1, 2});
    forward(b.outputs.view(), b, {}, b.differences.view());
    TestTensor d(DType::f32, {samples, 1, 1, 2}), sums(DType::f64, {3});
    cpu_.location_loss_forward(b.outputs.view(), b.wanted.view(), {}, d.view(), sums.view());
    expect_near(b.differences.values(), d.values(), 0x1p-23);
    EXPECT_EQ(b.sums.get(2), sums.get(2));
}

TEST_P(CudaLocationLossTest, works_in_place) {
    Batch b(DType::f32, {3, 9, 31, 2});
    forward(b.outputs.view(), b, {}, b.differences.view());
    backward(b.differences.view(), {}, 2, b.gradient.view());
    const auto separate = b.sums.values();
    forward(b.outputs.view(), b, {}, b.outputs.view());
    EXPECT_EQ(b.outputs.bytes(), b.differences.bytes());
    EXPECT_EQ(b.sums.values(), separate);
    backward(b.outputs.view(), {}, 2, b.outputs.view());
    EXPECT_EQ(b.outputs.bytes(), b.gradient.bytes());
}

}  // namespace
}  // namespace tutti::test
