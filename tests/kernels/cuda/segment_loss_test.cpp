#include "segment_loss.hpp"

#include <cmath>

#include "segment_batch.hpp"
#include "storage_cases.hpp"

namespace tutti::test {
namespace {

class CudaSegmentLossTest : public CudaKernelTest {
  protected:
    void forward(SegmentBatch& b, const SegmentLoss& loss, const TensorView& gradients) {
        TestTensor workspace(DType::f64, {2 * b.outputs.view().shape[0]});
        cuda::segment_loss_forward(b.outputs.view(), b.wanted.view(), workspace.view(), loss, gradients,
                                   b.sums.view(), stream_);
    }
    void forward(SegmentBatch& b, const SegmentLoss& loss = {}) { forward(b, loss, b.gradients.view()); }
    void backward(const TensorView& gradients, double scale, const TensorView& doutputs) {
        TestTensor factor(DType::f64, {1}, {scale});
        cuda::segment_loss_backward(gradients, factor.view(), doutputs, stream_);
    }
    /// One sample of these seconds, and of what is wanted.
    static SegmentBatch sample(const std::vector<double>& outputs, const std::vector<double>& wanted) {
        SegmentBatch b(1, static_cast<std::int64_t>(outputs.size() / 4));
        for (std::size_t i = 0; i < outputs.size(); ++i) b.outputs.set(i, outputs[i]);
        for (std::size_t i = 0; i < wanted.size(); ++i) b.wanted.set(i, wanted[i]);
        return b;
    }
};
TUTTI_KERNEL_TEST(CudaSegmentLossTest);

TEST_P(CudaSegmentLossTest, agrees_with_the_cpu) {
    for (const SegmentLoss& loss : {SegmentLoss{}, SegmentLoss{0.25, 0, 1, 3}, SegmentLoss{0.5, 1.5, 2, 0.1}})
        for (const auto& [samples, seconds] :
             {std::pair<std::int64_t, std::int64_t>{0, 3}, {4, 1}, {9, 7}, {5, 33}, {3, 257}, {2, 600}}) {
            SCOPED_TRACE(testing::Message() << samples << " x " << seconds);
            SegmentBatch b(samples, seconds);
            forward(b, loss);
            SegmentBatch same(samples, seconds);
            cpu_.segment_loss_forward(same.outputs.view(), same.wanted.view(), loss, same.gradients.view(),
                                      same.sums.view());
            expect_near(b.gradients.values(), same.gradients.values(), 1e-6);
            TestTensor exact = converted(b.outputs, DType::f64), gradients(DType::f64, {samples, seconds, 4}),
                       sums(DType::f64, {3});
            exact_.segment_loss_forward(exact.view(), b.wanted.view(), loss, gradients.view(), sums.view());
            expect_near(b.gradients.values(), gradients.values(), 1e-6);
            // Both in double, within a sample in another order.
            expect_near(b.sums.values(), sums.values(), 1e-12);
            EXPECT_EQ(b.sums.get(1), static_cast<double>(samples));

            backward(b.gradients.view(), 0.3, b.doutputs.view());
            cpu_.segment_loss_backward(b.gradients.view(), 0.3, same.doutputs.view());
            EXPECT_EQ(b.doutputs.bytes(), same.doutputs.bytes());
        }
}

TEST_P(CudaSegmentLossTest, what_does_not_exist_counts_nothing) {
    // No second exists; one does, and what the others say is not looked at.
    SegmentBatch none = sample({nan, 1, 2, 0, 3, infinity, 0, 0}, {1, 2, nan, 1});
    forward(none);
    expect_equal(none.sums, {0, 1, 0});
    expect_equal(none.gradients, std::vector<double>(8, 0));
    SegmentBatch alone = sample({-0.5, 1, 2, 2}, {-1, -1}),
                 beside = sample({-0.5, 1, 2, 2, nan, nan, nan, 0}, {-1, -1, 3, 4});
    forward(alone);
    forward(beside);
    EXPECT_EQ(beside.sums.values(), alone.sums.values());
    EXPECT_EQ(alone.sums.get(2), 1);
    for (std::size_t i = 0; i < 8; ++i)
        EXPECT_EQ(beside.gradients.get(i), i < 4 ? alone.gradients.get(i) : 0);
}

TEST_P(CudaSegmentLossTest, what_is_no_number_shows) {
    // {z, l, r, m} of an inside second, and of one outside.
    struct Case {
        std::vector<double> outputs;
        bool inside;
    };
    for (const Case& one :
         {Case{{nan, 1, 1, 1}, true}, Case{{nan, 1, 1, 1}, false}, Case{{0, nan, 1, 1}, true},
          Case{{0, 1, nan, 1}, true}, Case{{0, infinity, 1, 1}, true}, Case{{-infinity, 1, 1, 1}, true},
          Case{{infinity, 1, 1, 1}, false}, Case{{nan, 1, 1, nan}, false}}) {
        SCOPED_TRACE(testing::PrintToString(one.outputs));
        std::vector<double> outputs = one.outputs;
        outputs.insert(outputs.end(), {1, 2, 3, 1});
        SegmentBatch b = sample(outputs, {one.inside ? 2.0 : -1.0, one.inside ? 3.0 : -1.0, 2, 3});
        forward(b);
        EXPECT_FALSE(std::isfinite(b.sums.get(0)));
    }
    // A logit that is infinitely right costs nothing.
    SegmentBatch right = sample({infinity, 2, 3, 1, -infinity, 0, 0, 1}, {2, 3, -1, -1});
    forward(right);
    expect_equal(right.sums, {0, 1, 1});
}

TEST_P(CudaSegmentLossTest, more_samples_than_the_grid_has_blocks_take_several_rounds) {
    constexpr std::int64_t samples = 2048 + 3;
    SegmentBatch b(samples, 2), same(samples, 2);
    forward(b);
    cpu_.segment_loss_forward(same.outputs.view(), same.wanted.view(), {}, same.gradients.view(),
                              same.sums.view());
    expect_near(b.gradients.values(), same.gradients.values(), 1e-6);
    expect_near(b.sums.values(), same.sums.values(), 1e-10);
}

TEST_P(CudaSegmentLossTest, works_in_place) {
    SegmentBatch b(5, 300);
    forward(b);
    backward(b.gradients.view(), 2, b.doutputs.view());
    const auto separate = b.sums.values();
    forward(b, {}, b.outputs.view());
    EXPECT_EQ(b.outputs.bytes(), b.gradients.bytes());
    EXPECT_EQ(b.sums.values(), separate);
    backward(b.outputs.view(), 2, b.outputs.view());
    EXPECT_EQ(b.outputs.bytes(), b.doutputs.bytes());
}

}  // namespace
}  // namespace tutti::test
