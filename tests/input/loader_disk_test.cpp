// What the loader tells data sets that lie on a disk.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#include "tutti/input/loader.hpp"

namespace tutti {
namespace {

using Clock = BringInPatience::Clock;

/// Notes what it is asked.
class NotedDataset final : public Dataset {
  public:
    struct BringIn {
        Clock::time_point end, called;
    };

    NotedDataset() {
        info_.samples = 40;
        info_.sample_shape = {1};
        info_.classes = 1;
    }
    const DatasetInfo& info() const override { return info_; }
    std::string name() const override { return "noted"; }
    void read(std::span<const std::int64_t> indices, std::span<std::byte>,
              std::span<std::int64_t>) const override {
        const std::lock_guard lock(mutex);
        read_indices.insert(read_indices.end(), indices.begin(), indices.end());
    }
    void read_at(const EpochPositions& at, std::span<const std::int64_t> indices,
                 std::span<std::byte> samples, std::span<std::int64_t> labels) const override {
        const Clock::time_point begin = Clock::now();
        std::this_thread::sleep_for(transforms_for);
        if (at.transforming) *at.transforming += Clock::now() - begin;
        read(indices, samples, labels);
    }
    void bring_in(BringInPatience& patience) const override {
        const std::lock_guard lock(mutex);
        brought.push_back({patience.end, Clock::now()});
        patience.more_to_bring = more_to_bring;
    }
    bool waits_for_disk() const override { return waits; }
    void announce(std::span<const std::int64_t> indices) const override {
        const std::lock_guard lock(mutex);
        announced.insert(announced.end(), indices.begin(), indices.end());
    }

    bool waits = false, more_to_bring = false;
    std::chrono::milliseconds transforms_for{0};
    mutable std::mutex mutex;
    mutable std::vector<std::int64_t> read_indices, announced;
    mutable std::vector<BringIn> brought;

  private:
    DatasetInfo info_;
};

/// Batches of 4, in an order that is not the file's.
void load_all(Loader& loader, std::int64_t samples) {
    std::vector<std::int64_t> order;
    for (std::int64_t i = 0; i < samples; ++i) order.push_back(i * 7 % samples);
    loader.start(std::move(order),
                 epoch_windows({.limit = samples, .batch_size = 4, .world_size = 1, .rank = 0}));
    while (loader.next()) {
    }
}

class LoaderOnDisk : public testing::TestWithParam<int> {
  protected:
    void load() {
        Loader loader(data_, 4, GetParam(), 2);
        load_all(loader, data_.info().samples);
    }
    NotedDataset data_;
};

TEST_P(LoaderOnDisk, AnnouncesTheBatchesThatNoThreadReadsYet) {
    data_.waits = true;
    load();
    const std::int64_t first = 4 * std::max(GetParam(), 1);
    std::vector<std::int64_t> expected;
    for (std::int64_t i = first; i < 40; ++i) expected.push_back(i * 7 % 40);
    // Workers may overtake each other.
    if (GetParam() > 0) {
        std::ranges::sort(expected);
        std::ranges::sort(data_.announced);
    }
    EXPECT_EQ(data_.announced, expected);
    EXPECT_EQ(data_.read_indices.size(), 40U);
}

TEST_P(LoaderOnDisk, AnnouncesNothingThatIsInMemory) {
    load();
    EXPECT_TRUE(data_.announced.empty());
}

TEST_P(LoaderOnDisk, AnnouncesNothingWhileFilesAreBroughtIn) {
    data_.waits = data_.more_to_bring = true;
    load();
    EXPECT_TRUE(data_.announced.empty());
}

TEST_P(LoaderOnDisk, OnlyTheFirstBatchesWaitASecondForFilesThatAreBroughtIn) {
    const Clock::time_point begin = Clock::now();
    load();
    ASSERT_EQ(data_.brought.size(), 10U);
    EXPECT_GE(data_.brought.front().end, begin + std::chrono::seconds(1));
    // At most four times as long as reading such a batch takes: microseconds.
    EXPECT_TRUE(std::ranges::any_of(data_.brought, [](const NotedDataset::BringIn& one) {
        return one.end < one.called + std::chrono::milliseconds(500);
    }));
}

// A run that computes more than it reads would wait for the disk all the same.
TEST_P(LoaderOnDisk, TheTimeOfTransformsDoesNotLengthenTheWaitForFilesThatAreBroughtIn) {
    data_.transforms_for = std::chrono::milliseconds(50);
    load();
    EXPECT_TRUE(std::ranges::any_of(data_.brought, [this](const NotedDataset::BringIn& one) {
        return one.end < one.called + 2 * data_.transforms_for;
    }));
}

INSTANTIATE_TEST_SUITE_P(Workers, LoaderOnDisk, testing::Values(0, 1, 3), testing::PrintToStringParamName());

}  // namespace
}  // namespace tutti
