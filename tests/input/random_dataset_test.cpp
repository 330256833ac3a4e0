#include "tutti/input/random_dataset.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "tutti/base/error.hpp"

namespace tutti {
namespace {

struct Samples {
    std::vector<std::byte> bytes;
    std::vector<std::int64_t> labels;
    friend bool operator==(const Samples&, const Samples&) = default;
};

Samples read(const Dataset& data, std::vector<std::int64_t> indices) {
    Samples samples{
        std::vector<std::byte>(indices.size() * static_cast<std::size_t>(data.info().sample_bytes())),
        std::vector<std::int64_t>(indices.size())};
    data.read(indices, samples.bytes, samples.labels);
    return samples;
}

TEST(RandomDataset, IsTheSameForTheSameSeedOnly) {
    const auto one = make_random_dataset({3, 5, 2}, 100, 7, 1);
    EXPECT_EQ(read(*one, {0, 99, 3}), read(*make_random_dataset({3, 5, 2}, 100, 7, 1), {0, 99, 3}));
    EXPECT_NE(read(*one, {0, 99, 3}), read(*make_random_dataset({3, 5, 2}, 100, 7, 2), {0, 99, 3}));
    EXPECT_EQ(one->info().samples, 100);
    EXPECT_EQ(one->info().sample_bytes(), 30);
}

TEST(RandomDataset, SamplesDifferAndEveryClassOccurs) {
    const auto data = make_random_dataset({16}, 200, 5, 3);
    std::set<std::string> different;
    std::set<std::int64_t> classes;
    for (std::int64_t i = 0; i < 200; ++i) {
        const Samples sample = read(*data, {i});
        different.emplace(reinterpret_cast<const char*>(sample.bytes.data()), sample.bytes.size());
        classes.insert(sample.labels[0]);
    }
    EXPECT_EQ(different.size(), 200u);
    EXPECT_EQ(classes, (std::set<std::int64_t>{0, 1, 2, 3, 4}));
    std::vector<std::int64_t> labels(2);
    data->read_labels(std::vector<std::int64_t>{7, 150}, labels);
    EXPECT_EQ(labels, read(*data, {7, 150}).labels);
}

TEST(RandomDataset, MoreSamplesThanMemoryRepeatTheirBytes) {
    constexpr std::int64_t sample = 1 << 20, in_memory = 16;
    const auto data = make_random_dataset({sample}, 1'000'000'000, 10, 3);
    EXPECT_EQ(read(*data, {5}).bytes, read(*data, {5 + in_memory}).bytes);
    EXPECT_NE(read(*data, {5}).bytes, read(*data, {6}).bytes);
}

TEST(RandomDataset, RefusesWhatIsNoData) {
    EXPECT_THROW(make_random_dataset({}, 1, 1, 0), UsageError);
    EXPECT_THROW(make_random_dataset({3, 0}, 1, 1, 0), UsageError);
    EXPECT_THROW(make_random_dataset({3}, 0, 1, 0), UsageError);
    EXPECT_THROW(make_random_dataset({3}, 1, 0, 0), UsageError);
}

}  // namespace
}  // namespace tutti
