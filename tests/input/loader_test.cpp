#include "tutti/input/loader.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <utility>

#include "tutti/base/error.hpp"

namespace tutti {
namespace {

/// Slow reads take twice to four times as long as those that the loader leaves to its caller.
enum class Pace { quick, slow };

/// Sample i has the bytes i, i+1, i+2 (modulo 256) and the label i mod 5. Index `bad` cannot be read.
class FakeDataset final : public Dataset {
  public:
    explicit FakeDataset(std::int64_t samples, std::int64_t bad = -1, Pace pace = Pace::quick)
        : bad_(bad), pace_(pace) {
        info_.samples = samples;
        info_.sample_shape = {3};
        info_.classes = 5;
    }
    const DatasetInfo& info() const override { return info_; }
    std::string name() const override { return "fake"; }
    void read(std::span<const std::int64_t> indices, std::span<std::byte> samples,
              std::span<std::int64_t> labels) const override {
        ++reads;
        if (pace_ == Pace::slow) compute(100 + indices.front() % 3 * 50);
        for (std::size_t i = 0; i < indices.size(); ++i) {
            if (indices[i] == bad_)
                throw DataError("fake: sample " + std::to_string(bad_) + " cannot be read");
            for (std::size_t k = 0; k < 3; ++k)
                samples[3 * i + k] = static_cast<std::byte>(static_cast<std::size_t>(indices[i]) + k);
            labels[i] = indices[i] % 5;
            std::this_thread::yield();  // lets workers overtake each other
        }
    }
    mutable std::atomic<int> reads = 0;

  private:
    static void compute(std::int64_t microseconds) {
        const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(microseconds);
        while (std::chrono::steady_clock::now() < end) std::this_thread::yield();
    }

    DatasetInfo info_;
    std::int64_t bad_;
    Pace pace_;
};

struct Epoch {
    std::vector<std::int64_t> order;
    std::vector<BatchWindow> windows;
};

Epoch make_epoch(std::int64_t samples, std::int64_t ranks, std::int64_t rank, std::int64_t epoch = 0) {
    return {epoch_order({.samples = samples, .world_size = ranks, .epoch = epoch}),
            epoch_windows({.limit = samples, .batch_size = 4, .world_size = ranks, .rank = rank})};
}

void expect_batch(const HostBatch& batch, const Epoch& epoch, std::size_t w) {
    const BatchWindow& window = epoch.windows[w];
    const auto count = static_cast<std::size_t>(window.count);
    EXPECT_EQ(batch.window.begin, window.begin);
    ASSERT_EQ(batch.samples.size(), 3 * count);
    ASSERT_EQ(batch.labels.size(), count);
    ASSERT_EQ(batch.positions.size(), count);
    ASSERT_EQ(batch.indices.size(), count);
    for (std::size_t i = 0; i < count; ++i) {
        const std::int64_t position = window.first + static_cast<std::int64_t>(i) * window.stride;
        const std::int64_t index = epoch.order[static_cast<std::size_t>(position)];
        EXPECT_EQ(batch.positions[i], position);
        EXPECT_EQ(batch.indices[i], index);
        EXPECT_EQ(batch.labels[i], index % 5);
        for (std::size_t k = 0; k < 3; ++k)
            EXPECT_EQ(batch.samples[3 * i + k], static_cast<std::byte>(static_cast<std::size_t>(index) + k));
    }
}

void expect_epoch(Loader& loader, const Epoch& epoch) {
    for (std::size_t w = 0; w < epoch.windows.size(); ++w) {
        const std::optional<HostBatch> batch = loader.next();
        ASSERT_TRUE(batch) << "batch " << w;
        expect_batch(*batch, epoch, w);
    }
    EXPECT_FALSE(loader.next());
    EXPECT_FALSE(loader.next());
}

struct Workers {
    int workers, prefetch;
};

class LoaderWith : public testing::TestWithParam<std::tuple<Workers, Pace>> {
  protected:
    static Workers threads() { return std::get<Workers>(GetParam()); }
    static FakeDataset data(std::int64_t samples, std::int64_t bad = -1) {
        return FakeDataset(samples, bad, std::get<Pace>(GetParam()));
    }
    static Loader make(const Dataset& dataset) { return {dataset, 4, threads().workers, threads().prefetch}; }
};

TEST_P(LoaderWith, GivesBatchesInTheOrderOfTheWindows) {
    const FakeDataset dataset = data(203);
    Loader loader = make(dataset);
    for (std::int64_t rank = 0; rank < 3; ++rank) {
        const Epoch epoch = make_epoch(203, 3, rank);
        loader.start(epoch.order, epoch.windows);
        expect_epoch(loader, epoch);
    }
}

TEST_P(LoaderWith, RestartInTheMiddleDropsTheOldEpoch) {
    const FakeDataset dataset = data(100);
    Loader loader = make(dataset);
    for (std::int64_t e = 0; e < 5; ++e) {
        const Epoch abandoned = make_epoch(100, 1, 0, e);
        loader.start(abandoned.order, abandoned.windows);
        for (std::size_t w = 0; w < static_cast<std::size_t>(e); ++w) {
            const std::optional<HostBatch> batch = loader.next();
            ASSERT_TRUE(batch);
            expect_batch(*batch, abandoned, w);
        }
    }
    const Epoch epoch = make_epoch(100, 1, 0, 9);
    loader.start(epoch.order, epoch.windows);
    expect_epoch(loader, epoch);
}

TEST_P(LoaderWith, ErrorComesAtItsBatchAndTheNextBatchesCanBeRead) {
    const Epoch epoch = make_epoch(40, 1, 0);
    const std::size_t bad_window = 3;
    const FakeDataset dataset = data(40, epoch.order[4 * bad_window + 1]);
    Loader loader = make(dataset);
    loader.start(epoch.order, epoch.windows);
    for (std::size_t w = 0; w < epoch.windows.size(); ++w) {
        if (w == bad_window) {
            EXPECT_THROW(loader.next(), DataError);
            continue;
        }
        const std::optional<HostBatch> batch = loader.next();
        ASSERT_TRUE(batch);
        expect_batch(*batch, epoch, w);
    }
    EXPECT_FALSE(loader.next());
}

TEST_P(LoaderWith, ErrorOfAnAbandonedEpochIsForgotten) {
    const Epoch epoch = make_epoch(40, 1, 0);
    const FakeDataset dataset = data(80, epoch.order[0]);
    Loader loader = make(dataset);
    loader.start(epoch.order, epoch.windows);
    Epoch good;
    for (std::int64_t i = 40; i < 80; ++i) good.order.push_back(i);
    good.windows = epoch_windows({.limit = 40, .batch_size = 4});
    loader.start(good.order, good.windows);
    expect_epoch(loader, good);
}

TEST_P(LoaderWith, EmptyWindowGivesAnEmptyBatch) {
    const FakeDataset dataset = data(9);
    Loader loader = make(dataset);
    const Epoch epoch =
        make_epoch(9, 2, 1);  // global batches [0, 8) and [8, 9): rank 1 has none in the second
    ASSERT_EQ(epoch.windows.back().count, 0);
    loader.start(epoch.order, epoch.windows);
    expect_epoch(loader, epoch);
}

TEST_P(LoaderWith, HasNoBatchBeforeStartAndInAnEmptyEpoch) {
    const FakeDataset dataset = data(9);
    Loader loader = make(dataset);
    EXPECT_FALSE(loader.next());
    loader.start({}, {});
    EXPECT_FALSE(loader.next());
}

TEST_P(LoaderWith, CanBeDestroyedWhileWorkersAreBusy) {
    const FakeDataset dataset = data(1000);
    for (int round = 0; round < 20; ++round) {
        Loader loader = make(dataset);
        const Epoch epoch = make_epoch(1000, 1, 0, round);
        loader.start(epoch.order, epoch.windows);
        for (int i = 0; i < round % 3; ++i) loader.next();
    }
}

TEST_P(LoaderWith, BatchStaysUntouchedUntilTheNextCall) {
    const FakeDataset dataset = data(400);
    Loader loader = make(dataset);
    const Epoch epoch = make_epoch(400, 1, 0);
    loader.start(epoch.order, epoch.windows);
    const std::optional<HostBatch> batch = loader.next();
    ASSERT_TRUE(batch);
    // Waits until the workers have read all that they may read ahead; the batch in hand is not among it. What
    // is read quickly they leave to the caller.
    const int ahead = threads().workers == 0 ? 1 : 1 + threads().prefetch;
    if (std::get<Pace>(GetParam()) == Pace::slow)
        while (dataset.reads < ahead) std::this_thread::yield();
    expect_batch(*batch, epoch, 0);
    EXPECT_LE(dataset.reads, ahead);
}

TEST_P(LoaderWith, UsesTheSameBuffersInEveryEpoch) {
    const FakeDataset dataset = data(100);
    Loader loader = make(dataset);
    // Which of them a batch gets depends on who reads it; there are no more.
    std::set<const std::byte*> seen;
    for (std::int64_t e = 0; e < 3; ++e) {
        const Epoch epoch = make_epoch(100, 1, 0, e);
        loader.start(epoch.order, epoch.windows);
        while (const std::optional<HostBatch> batch = loader.next()) seen.insert(batch->samples.data());
    }
    EXPECT_LE(seen.size(), threads().workers == 0 ? 1U : static_cast<std::size_t>(threads().prefetch) + 1);
}

TEST_P(LoaderWith, WindowsThatDoNotFitAreRefused) {
    const FakeDataset dataset = data(100);
    Loader loader = make(dataset);
    const std::vector<std::int64_t> order(10, 0);
    EXPECT_THROW(loader.start(order, {{.first = 0, .stride = 1, .count = 5}}),
                 RunError);  // more than a buffer
    EXPECT_THROW(loader.start(order, {{.first = 8, .stride = 1, .count = 3}}), RunError);  // beyond the list
    EXPECT_THROW(loader.start(order, {{.first = -1, .stride = 1, .count = 1}}), RunError);
}

INSTANTIATE_TEST_SUITE_P(Loader, LoaderWith,
                         testing::Combine(testing::Values(Workers{0, 1}, Workers{0, 3}, Workers{1, 1},
                                                          Workers{1, 3}, Workers{2, 1}, Workers{2, 3},
                                                          Workers{4, 1}, Workers{4, 3}),
                                          testing::Values(Pace::quick, Pace::slow)),
                         [](const testing::TestParamInfo<std::tuple<Workers, Pace>>& test) {
                             const Workers threads = std::get<Workers>(test.param);
                             return std::to_string(threads.workers) + "WorkersPrefetch" +
                                    std::to_string(threads.prefetch) +
                                    (std::get<Pace>(test.param) == Pace::slow ? "SlowReads" : "QuickReads");
                         });

/// Samples that are in memory; counts the reads of other threads than the one that made it.
class InstantDataset final : public Dataset {
  public:
    explicit InstantDataset(std::int64_t samples) {
        info_.samples = samples;
        info_.sample_shape = {3};
        info_.classes = 5;
    }
    const DatasetInfo& info() const override { return info_; }
    std::string name() const override { return "instant"; }
    void read(std::span<const std::int64_t>, std::span<std::byte>, std::span<std::int64_t>) const override {
        if (std::this_thread::get_id() != owner_) ++reads_of_workers;
    }
    mutable std::atomic<int> reads_of_workers = 0;

  private:
    DatasetInfo info_;
    std::thread::id owner_ = std::this_thread::get_id();
};

TEST(Loader, TheBufferGivenBackLastIsUsedNext) {
    const InstantDataset dataset(400);
    for (const int workers : {1, 2}) {
        Loader loader(dataset, 4, workers, 3);
        // The loader learns in the first epochs that reads are quick and leaves them all to its caller, but
        // where the machine holds one up: then the epoch does not count.
        std::set<const std::byte*> seen;
        bool alone = false;
        for (std::int64_t e = 0; e < 1000 && !alone; ++e) {
            const Epoch epoch = make_epoch(400, 1, 0, e);
            const int before = dataset.reads_of_workers;
            loader.start(epoch.order, epoch.windows);
            seen.clear();
            while (const std::optional<HostBatch> batch = loader.next()) seen.insert(batch->samples.data());
            alone = dataset.reads_of_workers == before;
        }
        ASSERT_TRUE(alone) << "workers read in every epoch";
        EXPECT_EQ(seen.size(), 1U) << workers << " workers";
    }
}

TEST(Loader, ImpossibleOptionsAreRefused) {
    const FakeDataset dataset(10);
    EXPECT_THROW(Loader(dataset, 0, 1, 1), UsageError);
    EXPECT_THROW(Loader(dataset, 1, -1, 1), UsageError);
    EXPECT_THROW(Loader(dataset, 1, 1, 0), UsageError);
}

TEST(Loader, that_skips_goes_without_what_cannot_be_read) {
    const FakeDataset data(23, 7);
    for (const int workers : {0, 2}) {
        Loader loader(data, 4, workers, 3, nullptr, OnError::skip);
        const Epoch epoch = make_epoch(23, 2, 1);
        const Epoch other = make_epoch(23, 2, 0);
        std::int64_t there = 0, skipped = 0;
        for (const Epoch& one : {epoch, other}) {
            loader.start(one.order, one.windows);
            for (const BatchWindow& window : one.windows) {
                const auto batch = loader.next();
                ASSERT_TRUE(batch);
                EXPECT_EQ(batch->window.begin, window.begin);
                EXPECT_EQ(batch->window.end, window.end);
                const auto count = static_cast<std::size_t>(batch->window.count);
                ASSERT_EQ(count + batch->skipped.size(), static_cast<std::size_t>(window.count));
                ASSERT_EQ(batch->samples.size(), 3 * count);
                ASSERT_EQ(batch->labels.size(), count);
                ASSERT_EQ(batch->positions.size(), count);
                for (std::size_t i = 0; i < count; ++i) {
                    const std::int64_t index = one.order[static_cast<std::size_t>(batch->positions[i])];
                    EXPECT_EQ(batch->indices[i], index);
                    EXPECT_EQ(batch->labels[i], index % 5);
                    EXPECT_EQ(batch->samples[3 * i], static_cast<std::byte>(index));
                    EXPECT_NE(index, 7);
                }
                for (const SkippedSample& sample : batch->skipped) {
                    EXPECT_EQ(sample.index, 7);
                    EXPECT_EQ(sample.reason, "fake: sample 7 cannot be read");
                }
                there += batch->window.count;
                skipped += static_cast<std::int64_t>(batch->skipped.size());
            }
            EXPECT_FALSE(loader.next());
        }
        EXPECT_EQ(there, 22);
        EXPECT_EQ(skipped, 1);
    }
}

/// As FakeDataset, but in place of a label sample i has the targets i + 0.5 and −3 i, and several samples
/// cannot be read: those ahead of the first bad one of a batch have been read when it throws.
class FakeTargets final : public Dataset {
  public:
    FakeTargets(std::int64_t samples, std::set<std::int64_t> bad, Pace pace = Pace::quick)
        : features_(samples, -1, pace), info_(features_.info()), bad_(std::move(bad)) {
        info_.classes = 0;
        info_.labelled = false;
        info_.targets = 2;
        for (std::int64_t i = 0; i < samples; ++i) {
            targets_.push_back(static_cast<float>(i) + 0.5F);
            targets_.push_back(-3 * static_cast<float>(i));
        }
    }
    const DatasetInfo& info() const override { return info_; }
    std::string name() const override { return "fake"; }
    void read(std::span<const std::int64_t> indices, std::span<std::byte> samples,
              std::span<std::int64_t> labels) const override {
        const auto bad = std::ranges::find_if(indices, [this](std::int64_t i) { return bad_.contains(i); });
        const auto good = static_cast<std::size_t>(bad - indices.begin());
        if (good > 0) features_.read(indices.first(good), samples.first(3 * good), labels.first(good));
        std::ranges::fill(labels, 0);
        if (bad != indices.end()) throw DataError("fake: sample " + std::to_string(*bad) + " cannot be read");
    }
    std::span<const float> targets() const override { return targets_; }

  private:
    FakeDataset features_;
    DatasetInfo info_;
    std::set<std::int64_t> bad_;
    std::vector<float> targets_;
};

/// What is in the batch belongs to its indices.
void expect_targets(const HostBatch& batch, const Epoch& epoch) {
    const auto count = static_cast<std::size_t>(batch.window.count);
    ASSERT_EQ(batch.indices.size(), count);
    ASSERT_EQ(batch.positions.size(), count);
    ASSERT_EQ(batch.samples.size(), 3 * count);
    ASSERT_EQ(batch.targets.size(), 2 * count);
    for (std::size_t i = 0; i < count; ++i) {
        const std::int64_t index = batch.indices[i];
        EXPECT_EQ(epoch.order[static_cast<std::size_t>(batch.positions[i])], index);
        EXPECT_EQ(batch.samples[3 * i], static_cast<std::byte>(index));
        EXPECT_EQ(batch.targets[2 * i], static_cast<float>(index) + 0.5F);
        EXPECT_EQ(batch.targets[2 * i + 1], -3 * static_cast<float>(index));
    }
}

TEST_P(LoaderWith, TargetsBelongToTheSamplesOfTheirBatch) {
    const FakeTargets dataset(203, {}, std::get<Pace>(GetParam()));
    Loader loader = make(dataset);
    for (std::int64_t rank = 0; rank < 3; ++rank) {
        const Epoch epoch = make_epoch(203, 3, rank, rank);
        ASSERT_FALSE(std::ranges::is_sorted(epoch.order));
        loader.start(epoch.order, epoch.windows);
        for (const BatchWindow& window : epoch.windows) {
            const std::optional<HostBatch> batch = loader.next();
            ASSERT_TRUE(batch);
            EXPECT_EQ(batch->window.count, window.count);
            expect_targets(*batch, epoch);
        }
        EXPECT_FALSE(loader.next());
    }
}

TEST_P(LoaderWith, WhereSamplesAreSkippedThoseBehindThemMoveUpWithTheirTargets) {
    const Epoch epoch = make_epoch(43, 1, 0);
    // Which of the four of a batch: the middle ones, the first, the last, two apart, all.
    const std::vector<std::set<std::size_t>> skipped{{1, 2}, {}, {0}, {3}, {0, 2}, {0, 1, 2, 3}, {1}};
    std::set<std::int64_t> bad;
    for (std::size_t w = 0; w < skipped.size(); ++w)
        for (const std::size_t place : skipped[w]) bad.insert(epoch.order[4 * w + place]);
    const FakeTargets dataset(43, bad, std::get<Pace>(GetParam()));
    Loader loader(dataset, 4, threads().workers, threads().prefetch, nullptr, OnError::skip);
    // Again in buffers that hold other targets.
    for (int round = 0; round < 2; ++round) {
        loader.start(epoch.order, epoch.windows);
        for (std::size_t w = 0; w < epoch.windows.size(); ++w) {
            const std::optional<HostBatch> batch = loader.next();
            ASSERT_TRUE(batch);
            std::vector<std::int64_t> left;
            for (std::size_t place = 0; place < static_cast<std::size_t>(epoch.windows[w].count); ++place)
                if (w >= skipped.size() || !skipped[w].contains(place))
                    left.push_back(epoch.order[4 * w + place]);
            EXPECT_TRUE(std::ranges::equal(batch->indices, left)) << "batch " << w;
            EXPECT_EQ(batch->skipped.size(), w < skipped.size() ? skipped[w].size() : 0U);
            expect_targets(*batch, epoch);
        }
        EXPECT_FALSE(loader.next());
    }
}

}  // namespace
}  // namespace tutti
