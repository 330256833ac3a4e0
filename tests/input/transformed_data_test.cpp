// What transformed images leave to the data set that they are read from.
#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "tutti/input/transforms.hpp"

namespace tutti {
namespace {

struct Asked {
    std::vector<std::int64_t> announced;
    int brought_in = 0;
    double expected_reads = 0;
};

/// Images on a disk that nobody reads.
class OnDisk final : public Dataset {
  public:
    explicit OnDisk(Asked& asked) : asked_(asked) {
        info_.samples = 5;
        info_.sample_shape = {4, 4, 1};
        info_.classes = 1;
    }
    const DatasetInfo& info() const override { return info_; }
    std::string name() const override { return "on disk"; }
    void read(std::span<const std::int64_t>, std::span<std::byte>, std::span<std::int64_t>) const override {}
    void bring_in(BringInPatience& patience) const override {
        ++asked_.brought_in;
        patience.more_to_bring = true;
    }
    std::uint64_t mapped_bytes() const override { return 70; }
    std::uint64_t brought_in_bytes() const override { return 50; }
    bool waits_for_disk() const override { return true; }
    void announce(std::span<const std::int64_t> indices) const override {
        asked_.announced.assign(indices.begin(), indices.end());
    }
    void expect_reads(double samples) override { asked_.expected_reads = samples; }

  private:
    Asked& asked_;
    DatasetInfo info_;
};

TEST(TransformedData, LeavesToItsFileHowThatIsRead) {
    Asked asked;
    TransformSpec flip;
    flip.kind = TransformSpec::Kind::horizontal_flip;
    const std::unique_ptr<Dataset> data =
        transform_images(std::make_unique<OnDisk>(asked), std::vector{flip}, 0, TransformUse::training);
    EXPECT_EQ(data->mapped_bytes(), 70U);
    EXPECT_EQ(data->brought_in_bytes(), 50U);
    EXPECT_TRUE(data->waits_for_disk());
    const std::vector<std::int64_t> indices{4, 1};
    data->announce(indices);
    EXPECT_EQ(asked.announced, indices);
    BringInPatience patience;
    data->bring_in(patience);
    EXPECT_EQ(asked.brought_in, 1);
    EXPECT_TRUE(patience.more_to_bring);
    data->expect_reads(12);
    EXPECT_EQ(asked.expected_reads, 12);
}

}  // namespace
}  // namespace tutti
