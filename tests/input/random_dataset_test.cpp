#include "tutti/input/random_dataset.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "tutti/base/error.hpp"
#include "tutti/input/target_summary.hpp"

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

TEST(RandomDataset, TargetsTakeThePlaceOfLabels) {
    const auto data = make_random_dataset({3}, 5000, 10, 1, 3);
    EXPECT_EQ(data->info().targets, 3);
    EXPECT_FALSE(data->info().labelled);
    EXPECT_EQ(data->info().classes, 0);
    EXPECT_EQ(read(*data, {7, 8}).labels, (std::vector<std::int64_t>{0, 0}));
    ASSERT_EQ(data->targets().size(), 15000U);
    // Standard normal: seven standard errors of 5000 numbers' mean.
    for (const TargetSummary& target : summarize_targets(*data)) {
        EXPECT_NEAR(target.mean, 0, 0.1);
        EXPECT_NEAR(target.standard_deviation, 1, 0.1);
        EXPECT_GT(target.maximum, 2.5);
    }
    const auto places = make_random_dataset({4, 9, 1}, 1000, 1, 3, 2);
    EXPECT_EQ(places->info().target_names, (std::vector<std::string>{"x", "y"}));
    const auto of = summarize_targets(*places);
    EXPECT_GE(of[0].minimum, 0);
    EXPECT_GT(of[0].maximum, 7);
    EXPECT_LE(of[0].maximum, 8);
    EXPECT_GE(of[1].minimum, 0);
    EXPECT_GT(of[1].maximum, 2.5);
    EXPECT_LE(of[1].maximum, 3);
    const auto targets = [](std::int64_t samples, std::int64_t seed) {
        const auto made = make_random_dataset({3}, samples, 10, seed, 3);
        return std::vector(made->targets().begin(), made->targets().begin() + 30);
    };
    EXPECT_EQ(targets(5000, 1), targets(10, 1));
    EXPECT_NE(targets(10, 1), targets(10, 2));
    EXPECT_EQ(make_random_dataset({3}, 10, 10, 1)->targets().size(), 0U);
}

TEST(RandomDataset, RefusesWhatIsNoData) {
    EXPECT_THROW(make_random_dataset({3}, 1, 1, 0, -1), UsageError);
    EXPECT_THROW(make_random_dataset({3}, std::int64_t{1} << 29, 1, 0, 3), UsageError);
    EXPECT_THROW(make_random_dataset({}, 1, 1, 0), UsageError);
    EXPECT_THROW(make_random_dataset({3, 0}, 1, 1, 0), UsageError);
    EXPECT_THROW(make_random_dataset({std::int64_t{1} << 31, std::int64_t{1} << 31, 4}, 1, 1, 0), UsageError);
    EXPECT_THROW(make_random_dataset({3}, 0, 1, 0), UsageError);
    EXPECT_THROW(make_random_dataset({3}, 1, 0, 0), UsageError);
}

}  // namespace
}  // namespace tutti
