#include "tutti/train/batch_stage.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "tutti/base/error.hpp"

namespace tutti {
namespace {

class BatchStageTest : public ::testing::Test {
  protected:
    DatasetInfo info_{4, {1, 2, 1}, DType::u8, 3, {}, {}, {}, true, 0, {}};
    std::unique_ptr<Device> device_ = make_cpu_device(1);
    std::array<std::byte, 4> pixels_{std::byte{0}, std::byte{255}, std::byte{51}, std::byte{102}};
    std::array<std::int64_t, 2> labels_{2, 1};
    std::array<std::int64_t, 2> positions_{0, 1};
    HostBatch batch_{{0, 1, 2, 0, 2}, pixels_, labels_, positions_, positions_, {}};

    std::vector<double> staged(const DataConfig& config) {
        BatchStage stage(*device_, info_, config, DType::f64, 2);
        std::vector<double> input(4);
        stage.load(batch_, view_of(std::span(input),
                                   info_.sample_shape.rank() == 3 ? Shape{2, 1, 2, 1} : Shape{2, 2}));
        EXPECT_EQ(stage.wanted().span<std::int64_t>()[0], 2);
        EXPECT_EQ(stage.wanted().count(), 2);
        return input;
    }
};

TEST_F(BatchStageTest, PixelsBecomeZeroToOne) {
    EXPECT_EQ(staged({}), (std::vector<double>{0.0, 1.0, 51.0F / 255.0F, 102.0F / 255.0F}));
}

TEST_F(BatchStageTest, LabelsThatAreKeptOutliveTheLoadersMemory) {
    BatchStage stage(*device_, info_, {}, DType::f64, 2);
    std::vector<double> input(4);
    stage.load(batch_, view_of(std::span(input), Shape{2, 1, 2, 1}));
    stage.keep_wanted();
    labels_ = {0, 0};
    EXPECT_EQ(stage.wanted().count(), 2);
    EXPECT_EQ(stage.wanted().span<std::int64_t>()[0], 2);
    EXPECT_EQ(stage.wanted().span<std::int64_t>()[1], 1);
}

TEST_F(BatchStageTest, TargetsComeInPlaceOfLabels) {
    std::vector<float> targets{1.5F, -2, 0.25F, 8, 3, 4};
    info_.classes = 0;
    info_.labelled = false;
    info_.targets = 3;
    batch_.targets = targets;
    BatchStage stage(*device_, info_, {}, DType::f64, 2);
    std::vector<double> input(4);
    stage.load(batch_, view_of(std::span(input), Shape{2, 1, 2, 1}));
    stage.keep_wanted();
    std::ranges::fill(targets, 0.0F);
    ASSERT_EQ(stage.wanted().shape, (Shape{2, 3}));
    ASSERT_EQ(stage.wanted().dtype, DType::f32);
    EXPECT_EQ(stage.wanted().span<float>()[1], -2);
    EXPECT_EQ(stage.wanted().span<float>()[5], 4);
    stage.load_nothing();
    EXPECT_EQ(stage.wanted().count(), 0);
}

TEST_F(BatchStageTest, FeaturesStayWhatTheyAre) {
    const std::array<float, 4> features{-7.5F, 0.25F, 300, 0};
    info_ = {4, {2}, DType::f32, 3, {}, {}, {}, true, 0, {}};
    batch_.samples = std::as_bytes(std::span(features));
    EXPECT_EQ(staged({}), (std::vector<double>{-7.5, 0.25, 300, 0}));
    info_.mean = {0.5F, 0.25F};
    info_.std = {2, 1};
    EXPECT_EQ(staged({}), (std::vector<double>{-4, 0, 149.75, -0.25}));
}

TEST_F(BatchStageTest, TheLastFeatureOfASequenceStaysWhatItIs) {
    // Two samples of one step of two features.
    const std::array<float, 4> features{-7.5F, 1, 300, 0};
    info_ = {4, {1, 2}, DType::f32, 3, {}, {}, {}, true, 0, {}};
    batch_.samples = std::as_bytes(std::span(features));
    info_.mean = {0.5F, 0};
    info_.std = {2, 1};
    EXPECT_EQ(staged({}), (std::vector<double>{-4, 1, 149.75, 0}));
    DataConfig config;
    config.normalize = Normalize{{2.5, 0}, {10, 1}};
    EXPECT_EQ(staged(config), (std::vector<double>{-1, 1, 29.75, 0}));
    for (const Normalize& changes : {Normalize{{0.5}, {1}}, Normalize{{0}, {2}}, Normalize{{2, 0}, {1, 2}}}) {
        config.normalize = changes;
        EXPECT_THROW(staged(config), UsageError);
    }
    config.normalize = Normalize{{0}, {1}};
    EXPECT_EQ(staged(config)[2], 300);
}

TEST_F(BatchStageTest, TheFilesNormalisationApplies) {
    info_.mean = {0.5F};
    info_.std = {0.25F};
    EXPECT_EQ(staged({})[1], 2.0);
}

TEST_F(BatchStageTest, TheConfigsNormalisationComesBeforeTheFiles) {
    info_.mean = {0.5F};
    info_.std = {0.25F};
    DataConfig config;
    config.normalize = Normalize{{0.0}, {0.5}};
    EXPECT_EQ(staged(config)[1], 2.0);
    EXPECT_EQ(staged(config)[0], 0.0);
}

TEST_F(BatchStageTest, ANormalisationOfTheWrongLengthIsRefused) {
    DataConfig config;
    config.normalize = Normalize{{0.1, 0.2, 0.3}, {1.0}};
    EXPECT_THROW(staged(config), UsageError);
}

}  // namespace
}  // namespace tutti
