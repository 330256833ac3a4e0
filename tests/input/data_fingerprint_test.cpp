#include "tutti/input/data_fingerprint.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace tutti::test {
namespace {

/// Labels and targets without samples, which nobody may read.
class SurroundingsAlone final : public Dataset {
  public:
    SurroundingsAlone(std::vector<std::int64_t> labels, std::vector<float> targets, Shape sample = {3})
        : labels_(std::move(labels)), targets_(std::move(targets)) {
        info_.samples = std::max<std::int64_t>(std::ssize(labels_), 4);
        info_.labelled = !labels_.empty();
        info_.targets = std::ssize(targets_) / info_.samples;
        info_.sample_shape = sample;
    }
    const DatasetInfo& info() const override { return info_; }
    std::string name() const override { return "surroundings"; }
    void read(std::span<const std::int64_t>, std::span<std::byte>, std::span<std::int64_t>) const override {
        ADD_FAILURE() << "samples are read";
    }
    void read_labels(std::span<const std::int64_t> indices, std::span<std::int64_t> labels) const override {
        for (std::size_t i = 0; i < indices.size(); ++i)
            labels[i] = labels_[static_cast<std::size_t>(indices[i])];
    }
    std::span<const float> targets() const override { return targets_; }

  private:
    DatasetInfo info_;
    const std::vector<std::int64_t> labels_;
    const std::vector<float> targets_;
};

TEST(DataFingerprint, TellsDataApartByWhatSurroundsTheSamples) {
    const std::vector<std::int64_t> labels{0, 1, 2, 1};
    const std::vector<float> targets{1, 2, 3, 4};
    const std::string some = data_fingerprint(SurroundingsAlone(labels, {}));
    EXPECT_EQ(some.size(), 16U);
    EXPECT_EQ(data_fingerprint(SurroundingsAlone(labels, {})), some);
    const std::set<std::string> all{some,
                                    data_fingerprint(SurroundingsAlone({0, 1, 1, 2}, {})),
                                    data_fingerprint(SurroundingsAlone({0, 1, 2, 1, 0}, {})),
                                    data_fingerprint(SurroundingsAlone(labels, {}, {4})),
                                    data_fingerprint(SurroundingsAlone({}, {})),
                                    data_fingerprint(SurroundingsAlone({}, targets)),
                                    data_fingerprint(SurroundingsAlone({}, {1, 2, 3, 5}))};
    EXPECT_EQ(all.size(), 7U);
}

TEST(DataFingerprint, CoversAllPiecesOfManyLabels) {
    std::vector<std::int64_t> labels(200'000);
    const std::string zeros = data_fingerprint(SurroundingsAlone(labels, {}));
    for (const std::size_t at : {std::size_t{0}, std::size_t{65536}, labels.size() - 1}) {
        std::vector<std::int64_t> other = labels;
        other[at] = 1;
        EXPECT_NE(data_fingerprint(SurroundingsAlone(other, {})), zeros) << at;
    }
}

}  // namespace
}  // namespace tutti::test
