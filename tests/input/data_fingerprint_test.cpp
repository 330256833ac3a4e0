#include "tutti/input/data_fingerprint.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "surroundings_alone.hpp"

namespace tutti::test {
namespace {

TEST(LabelsFingerprint, TellsDataApartByWhatSurroundsTheSamples) {
    const std::vector<std::int64_t> labels{0, 1, 2, 1};
    const std::vector<float> targets{1, 2, 3, 4};
    const std::string some = labels_fingerprint(SurroundingsAlone(labels, {}));
    EXPECT_EQ(some.size(), 16U);
    EXPECT_EQ(labels_fingerprint(SurroundingsAlone(labels, {})), some);
    const std::set<std::string> all{some,
                                    labels_fingerprint(SurroundingsAlone({0, 1, 1, 2}, {})),
                                    labels_fingerprint(SurroundingsAlone({0, 1, 2, 1, 0}, {})),
                                    labels_fingerprint(SurroundingsAlone(labels, {}, {4})),
                                    labels_fingerprint(SurroundingsAlone({}, {})),
                                    labels_fingerprint(SurroundingsAlone({}, targets)),
                                    labels_fingerprint(SurroundingsAlone({}, {1, 2, 3, 5}))};
    EXPECT_EQ(all.size(), 7U);
}

TEST(LabelsFingerprint, CoversAllPiecesOfManyLabels) {
    std::vector<std::int64_t> labels(200'000);
    const std::string zeros = labels_fingerprint(SurroundingsAlone(labels, {}));
    for (const std::size_t at : {std::size_t{0}, std::size_t{65536}, labels.size() - 1}) {
        std::vector<std::int64_t> other = labels;
        other[at] = 1;
        EXPECT_NE(labels_fingerprint(SurroundingsAlone(other, {})), zeros) << at;
    }
}

/// Samples of one byte.
class Bytes final : public Dataset {
  public:
    Bytes(std::vector<std::uint8_t> samples, std::vector<float> mean = {}, std::int64_t stored = 1)
        : samples_(std::move(samples)), stored_(stored) {
        info_.samples = std::ssize(samples_);
        info_.sample_shape = {1};
        info_.dtype = DType::u8;
        info_.mean = std::move(mean);
    }
    const DatasetInfo& info() const override { return info_; }
    std::string name() const override { return "bytes"; }
    std::int64_t stored_sample_bytes() const override { return stored_; }
    void read(std::span<const std::int64_t> indices, std::span<std::byte> samples,
              std::span<std::int64_t> labels) const override {
        for (std::size_t i = 0; i < indices.size(); ++i) {
            samples[i] = std::byte{samples_[static_cast<std::size_t>(indices[i])]};
            labels[i] = 0;
        }
    }
    void read_labels(std::span<const std::int64_t> indices, std::span<std::int64_t> labels) const override {
        ++label_reads;
        Dataset::read_labels(indices, labels);
    }
    mutable int label_reads = 0;

  private:
    DatasetInfo info_;
    const std::vector<std::uint8_t> samples_;
    const std::int64_t stored_;
};

TEST(DataFingerprint, TellsApartDataOfTheSameLabels) {
    const std::string some = data_fingerprint(Bytes({1, 2, 3, 4, 5}));
    EXPECT_EQ(data_fingerprint(Bytes({1, 2, 3, 4, 5})), some);
    EXPECT_EQ(data_fingerprint(Bytes({1, 0, 3, 0, 5})), some) << "not all are looked at";
    for (const auto& other : {Bytes({0, 2, 3, 4, 5}), Bytes({1, 2, 0, 4, 5}), Bytes({1, 2, 3, 4, 0}),
                              Bytes({1, 2, 3, 4, 5}, {0.5F})})
        EXPECT_NE(data_fingerprint(other), some);
    EXPECT_EQ(data_fingerprint(Bytes({1, 2, 3}, {}, 4)), data_fingerprint(Bytes({3, 2, 1}, {}, 4)))
        << "a crop of them must change nothing";
}

TEST(DataFingerprint, IsTheSameByLabelsThatAreKnownAndDoesNotReadThemAgain) {
    const Bytes data({1, 2, 3, 4, 5});
    EXPECT_EQ(data_fingerprint(data, labels_fingerprint(data)), data_fingerprint(data));
    EXPECT_NE(data_fingerprint(data, "0123456789abcdef"), data_fingerprint(data));
    const int before = data.label_reads;
    data_fingerprint(data, labels_fingerprint(data));
    EXPECT_EQ(data.label_reads, before + 1);
}

}  // namespace
}  // namespace tutti::test
