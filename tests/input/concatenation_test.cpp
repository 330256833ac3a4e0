#include "input/concatenation.hpp"

#include <gtest/gtest.h>

#include <utility>

#include "hdf5_file.hpp"
#include "support/temp_dir.hpp"
#include "tutti/input/transforms.hpp"

namespace tutti {
namespace {

using test::Hdf5File;
using test::ImageFile;

std::unique_ptr<Dataset> open_with_targets(const std::string& path, const std::vector<float>& targets) {
    ImageFile{
        .samples = targets.size(),
        .change =
            [&](Hdf5File& file) {
                file.remove_table("labels");
                file.remove_attribute("classes");
                file.table("targets", H5T_IEEE_F32LE, H5T_NATIVE_FLOAT, {targets.size(), 1}, targets.data());
            }}
        .write(path);
    return open_hdf5_dataset(path);
}

/// One pixel of which nobody asks.
class Alone final : public Dataset {
  public:
    explicit Alone(bool reads_alone, std::vector<float> mean = {}, float std = 1)
        : reads_alone_(reads_alone) {
        info_.std.assign(mean.size(), std);
        info_.mean = std::move(mean);
        info_.samples = 1;
        info_.sample_shape = {1, 1, 1};
        info_.classes = 1;
    }
    const DatasetInfo& info() const override { return info_; }
    std::string name() const override { return "alone"; }
    void read(std::span<const std::int64_t>, std::span<std::byte>, std::span<std::int64_t>) const override {}
    bool reads_alone() const override { return reads_alone_; }

  private:
    DatasetInfo info_;
    bool reads_alone_;
};

TEST(Concatenation, IsReadAloneWhereAPartIs) {
    for (const bool alone : {false, true}) {
        std::vector<std::unique_ptr<Dataset>> parts;
        parts.push_back(std::make_unique<Alone>(false));
        parts.push_back(std::make_unique<Alone>(alone));
        std::unique_ptr<Dataset> all = concatenate(std::move(parts));
        EXPECT_EQ(all->reads_alone(), alone);
        TransformSpec flip;
        flip.kind = TransformSpec::Kind::horizontal_flip;
        all = transform_images(std::move(all), std::vector{flip}, 0, TransformUse::training);
        EXPECT_EQ(all->reads_alone(), alone) << "transformed";
    }
}

TEST(Concatenation, SaysWhichPartIsNormalisedByTheFirstOnes) {
    using Mean = std::vector<float>;
    const auto said = [](const std::vector<Mean>& means) {
        std::vector<std::unique_ptr<Dataset>> parts;
        for (const Mean& mean : means) parts.push_back(std::make_unique<Alone>(false, mean));
        return concatenate(std::move(parts))->info().other_normalisation;
    };
    EXPECT_EQ(said({Mean{0.5F}, Mean{0.5F}}), "");
    EXPECT_EQ(said({Mean{}, Mean{}}), "");
    const std::string warning =
        "alone says another mean and std, or none, than alone, whose are taken for all; set "
        "data.normalize, or pack them alike";
    EXPECT_EQ(said({Mean{0.5F}, Mean{0.5F}, Mean{0.25F}}), warning);
    EXPECT_EQ(said({Mean{}, Mean{0.5F}}), warning);
    EXPECT_EQ(said({Mean{0.5F}, Mean{}}), warning);
    std::vector<std::unique_ptr<Dataset>> of_other_std;
    for (const float std : {1.0F, 2.0F})
        of_other_std.push_back(std::make_unique<Alone>(false, Mean{0.5F}, std));
    EXPECT_EQ(concatenate(std::move(of_other_std))->info().other_normalisation, warning);
}

TEST(Concatenation, KeepsTheTargetsOfItsPartsInTheirStead) {
    const test::TempDir folder;
    std::vector<std::unique_ptr<Dataset>> parts;
    parts.push_back(open_with_targets(folder.path() + "/a.h5", {1, 2, 3}));
    parts.push_back(open_with_targets(folder.path() + "/b.h5", {4, 5}));
    const Dataset &first = *parts[0], &second = *parts[1];
    EXPECT_EQ(first.targets().size(), 3U);
    const std::unique_ptr<Dataset> all = concatenate(std::move(parts));
    EXPECT_EQ(std::vector(all->targets().begin(), all->targets().end()), (std::vector<float>{1, 2, 3, 4, 5}));
    EXPECT_TRUE(first.targets().empty()) << "twice in memory";
    EXPECT_TRUE(second.targets().empty()) << "twice in memory";
}

/// Knows nothing of handing over.
class TwoTargets final : public Dataset {
  public:
    TwoTargets() {
        info_.samples = 2;
        info_.sample_shape = {1};
        info_.dtype = DType::f32;
        info_.labelled = false;
        info_.targets = 1;
    }
    const DatasetInfo& info() const override { return info_; }
    std::string name() const override { return "two"; }
    void read(std::span<const std::int64_t>, std::span<std::byte>, std::span<std::int64_t>) const override {}
    std::span<const float> targets() const override { return targets_; }

  private:
    DatasetInfo info_;
    std::vector<float> targets_{8, 9};
};

TEST(Concatenation, TakesPartsThatKeepTheirTargets) {
    std::vector<std::unique_ptr<Dataset>> parts;
    parts.push_back(std::make_unique<TwoTargets>());
    parts.push_back(std::make_unique<TwoTargets>());
    const std::unique_ptr<Dataset> all = concatenate(std::move(parts));
    EXPECT_EQ(std::vector(all->targets().begin(), all->targets().end()), (std::vector<float>{8, 9, 8, 9}));
}

}  // namespace
}  // namespace tutti
