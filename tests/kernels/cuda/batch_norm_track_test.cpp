#include "batch_norm_track.hpp"

#include <cmath>
#include <vector>

#include "kernel_test.hpp"

namespace tutti::test {
namespace {

/// A layer's running statistics, with what they are to follow.
struct Tracked {
    TestTensor statistics, mean, variance, batches{DType::i64, {}, {41}};
    double momentum;
    Tracked(std::int64_t channels, unsigned seed)
        : statistics(TestTensor::random(DType::f64, {2 + 2 * channels}, seed)),
          mean(TestTensor::random(DType::f32, {channels}, seed + 1)),
          variance(TestTensor::random(DType::f32, {channels}, seed + 2)),
          momentum(1.0 / (2 + seed % 3)) {
        statistics.set(0, 7);
        statistics.set(1, 7);
    }
    BatchNormTracking tracking() {
        return {statistics.view(), mean.view(), variance.view(), batches.view(), momentum};
    }
};

class CudaBatchNormTrackTest : public CudaKernelTest {};

// More than one launch takes, of which some have nothing to follow.
TEST_P(CudaBatchNormTrackTest, running_statistics_of_many_layers_have_the_bits_of_the_cpu) {
    constexpr std::int64_t widths[] = {1, 33, 300, 1100};
    constexpr std::size_t empty = 5, not_finite = 70, count = 130;
    std::vector<Tracked> layers;
    for (std::size_t i = 0; i < count; ++i) layers.emplace_back(widths[i % 4], static_cast<unsigned>(i));
    layers[empty].statistics.set(0, 0);
    layers[empty].statistics.set(1, 0);
    layers[not_finite].statistics.set(layers[not_finite].statistics.size() - 1, NAN);
    std::vector<Tracked> expected = layers;
    const auto all = [](std::vector<Tracked>& of) {
        std::vector<BatchNormTracking> views;
        for (Tracked& one : of) views.push_back(one.tracking());
        return views;
    };
    const std::vector<Tracked> before = layers;
    cuda::batch_norm_track(all(layers), stream_);
    cpu_.track_batch_norms(all(expected));
    for (std::size_t i = 0; i < count; ++i) {
        SCOPED_TRACE(i);
        EXPECT_EQ(layers[i].mean.bytes(), expected[i].mean.bytes());
        EXPECT_EQ(layers[i].variance.bytes(), expected[i].variance.bytes());
        const bool stays = i == empty || i == not_finite;
        EXPECT_EQ(layers[i].batches.get(0), stays ? 41 : 42);
        EXPECT_EQ(layers[i].mean.bytes() == before[i].mean.bytes(), stays);
    }
}

TUTTI_KERNEL_TEST(CudaBatchNormTrackTest);

}  // namespace
}  // namespace tutti::test
