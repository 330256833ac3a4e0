// Which threads read.

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <new>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tutti/base/error.hpp"
#include "tutti/input/loader.hpp"

namespace tutti {
namespace {

/// Of samples without content. Made and watched by the loader's owner.
class WatchedDataset final : public Dataset {
  public:
    explicit WatchedDataset(bool reads_alone = false) : reads_alone_(reads_alone) {
        info_.samples = 1000;
        info_.sample_shape = {1};
        info_.classes = 1;
    }
    const DatasetInfo& info() const override { return info_; }
    std::string name() const override { return "watched"; }
    bool reads_alone() const override { return reads_alone_; }

    void read(std::span<const std::int64_t>, std::span<std::byte>, std::span<std::int64_t>) const override {
        std::unique_lock lock(mutex_);
        if (std::this_thread::get_id() != owner_) {
            worker_reads_ = true;
            changed_.notify_all();
        } else if (owner_waits_) {
            owner_waits_ = wait(lock);
        }
        if (!slow_) return;
        lock.unlock();
        const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(200);
        while (std::chrono::steady_clock::now() < end) std::this_thread::yield();
    }

    /// From now on reads are longer than those that are left to the owner.
    void become_slow() {
        const std::lock_guard lock(mutex_);
        slow_ = true;
    }
    /// From now on the owner's reads do not end before a worker has begun one.
    void let_owner_wait() {
        const std::lock_guard lock(mutex_);
        owner_waits_ = true;
        worker_reads_ = false;
    }
    /// Whether a worker has begun a read since the owner was let wait.
    bool worker_reads() const {
        const std::lock_guard lock(mutex_);
        return worker_reads_;
    }
    /// The same, waited for.
    bool worker_will_read() const {
        std::unique_lock lock(mutex_);
        return wait(lock);
    }

  private:
    /// Only so long where no worker wakes: the test fails then.
    bool wait(std::unique_lock<std::mutex>& lock) const {
        return changed_.wait_for(lock, std::chrono::seconds(10), [this] { return worker_reads_; });
    }

    DatasetInfo info_;
    const bool reads_alone_;
    const std::thread::id owner_ = std::this_thread::get_id();
    mutable std::mutex mutex_;
    mutable std::condition_variable changed_;
    bool slow_ = false;
    mutable bool owner_waits_ = false, worker_reads_ = false;
};

/// An epoch of batches of one sample.
void start_epoch(Loader& loader, std::int64_t batches) {
    std::vector<std::int64_t> order(static_cast<std::size_t>(batches));
    std::iota(order.begin(), order.end(), std::int64_t{0});
    std::vector<BatchWindow> windows;
    for (std::int64_t first = 0; first < batches; ++first)
        windows.push_back({.first = first, .stride = 1, .count = 1});
    loader.start(std::move(order), std::move(windows));
}

class LoaderWorkers : public testing::TestWithParam<int> {
  protected:
    void start(std::int64_t batches) { start_epoch(loader_, batches); }
    void take(int batches) {
        for (int i = 0; i < batches; ++i) ASSERT_TRUE(loader_.next());
    }
    /// An epoch of quick reads that the worker takes part in. At its end it sleeps: nothing is left to read.
    void send_worker_to_sleep() {
        data_.let_owner_wait();
        start(500);
        take(500);
        ASSERT_TRUE(data_.worker_reads());
    }
    static int prefetch() { return GetParam(); }

    WatchedDataset data_;
    Loader loader_{data_, 1, 1, prefetch()};
};

/// Whose reads fail with what is no Error.
class UnluckyDataset final : public Dataset {
  public:
    explicit UnluckyDataset(bool lacks_memory) : lacks_memory_(lacks_memory) {
        info_.samples = 4;
        info_.sample_shape = {3};
    }
    const DatasetInfo& info() const override { return info_; }
    std::string name() const override { return "unlucky"; }
    void read(std::span<const std::int64_t>, std::span<std::byte>, std::span<std::int64_t>) const override {
        if (lacks_memory_) throw std::bad_alloc();
        throw std::runtime_error("the library has no idea");
    }

  private:
    DatasetInfo info_;
    bool lacks_memory_;
};

// Who trains tells its peers of an Error, and of nothing else.
TEST(Loader, WhateverAReadFailsWithIsAnError) {
    for (const int workers : {0, 1})
        for (const bool lacks_memory : {true, false}) {
            const UnluckyDataset dataset(lacks_memory);
            Loader loader(dataset, 2, workers, 2, nullptr, OnError::skip);
            loader.start({0, 1, 2, 3}, epoch_windows({.limit = 4, .batch_size = 2}));
            try {
                loader.next();
                FAIL() << "no error";
            } catch (const RunError& error) {
                EXPECT_EQ(std::string(error.what()),
                          lacks_memory ? "unlucky: not enough memory to read a batch; use a smaller "
                                         "train.batch_size, or fewer data.workers and data.prefetch"
                                       : "unlucky: the library has no idea");
            }
        }
}

TEST(Loader, HasNoWorkersForDataThatOnlyOneThreadMayRead) {
    WatchedDataset data(true);
    data.become_slow();
    Loader loader(data, 1, 2, 4);
    start_epoch(loader, 50);
    while (loader.next()) {
    }
    EXPECT_FALSE(data.worker_reads());
}

TEST_P(LoaderWorkers, ReadAheadBeforeAnyBatchIsAskedFor) {
    start(10);
    EXPECT_TRUE(data_.worker_will_read());
}

TEST_P(LoaderWorkers, WakeWhenQuickReadsBecomeSlow) {
    send_worker_to_sleep();
    start(1000);
    take(500);
    data_.become_slow();
    take(20);
    data_.let_owner_wait();
    // All that may have been read ahead, and as many again.
    for (int i = 0; i < 2 * (prefetch() + 1) && !data_.worker_reads(); ++i) take(1);
    EXPECT_TRUE(data_.worker_reads());
}

TEST_P(LoaderWorkers, WakeAtTheStartOfAnEpochAfterSlowReads) {
    send_worker_to_sleep();
    data_.become_slow();
    start(50);
    take(50);
    data_.let_owner_wait();
    start(50);
    EXPECT_TRUE(data_.worker_will_read());
}

INSTANTIATE_TEST_SUITE_P(Prefetch, LoaderWorkers, testing::Values(1, 3, 8),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace tutti
