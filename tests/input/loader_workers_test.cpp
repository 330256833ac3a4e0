// Which threads read.

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <numeric>
#include <thread>
#include <vector>

#include "tutti/input/loader.hpp"

namespace tutti {
namespace {

/// Of samples without content. Made and watched by the loader's owner.
class WatchedDataset final : public Dataset {
  public:
    WatchedDataset() {
        info_.samples = 1000;
        info_.sample_shape = {1};
        info_.classes = 1;
    }
    const DatasetInfo& info() const override { return info_; }
    std::string name() const override { return "watched"; }

    void read(std::span<const std::int64_t>, std::span<std::byte>, std::span<std::int64_t>) const override {
        std::unique_lock lock(mutex_);
        if (!slow_) return;
        if (std::this_thread::get_id() != owner_) {
            worker_reads_ = true;
            changed_.notify_all();
        } else if (owner_waits_) {
            // Only so long where no worker wakes: the test fails then.
            changed_.wait_for(lock, std::chrono::seconds(10), [this] { return worker_reads_; });
        }
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
    bool worker_reads() const {
        const std::lock_guard lock(mutex_);
        return worker_reads_;
    }

  private:
    DatasetInfo info_;
    const std::thread::id owner_ = std::this_thread::get_id();
    mutable std::mutex mutex_;
    mutable std::condition_variable changed_;
    bool slow_ = false, owner_waits_ = false;
    mutable bool worker_reads_ = false;
};

class LoaderWorkers : public testing::TestWithParam<int> {
  protected:
    void start() {
        std::vector<std::int64_t> order(1000);
        std::iota(order.begin(), order.end(), std::int64_t{0});
        std::vector<BatchWindow> windows;
        for (std::int64_t first = 0; first < 1000; ++first)
            windows.push_back({.first = first, .stride = 1, .count = 1});
        loader_.start(std::move(order), std::move(windows));
    }
    void take(int batches) {
        for (int i = 0; i < batches; ++i) ASSERT_TRUE(loader_.next());
    }
    /// Enough batches for all that were read ahead to be taken and one more.
    void expect_worker_reads() {
        data_.let_owner_wait();
        for (int i = 0; i < 2 * (prefetch() + 1) && !data_.worker_reads(); ++i) take(1);
        EXPECT_TRUE(data_.worker_reads());
    }
    static int prefetch() { return GetParam(); }

    WatchedDataset data_;
    Loader loader_{data_, 1, 2, prefetch()};
};

TEST_P(LoaderWorkers, ReadWhatIsSlow) {
    data_.become_slow();
    start();
    take(20);
    expect_worker_reads();
}

TEST_P(LoaderWorkers, ReadAgainWhenQuickReadsBecomeSlow) {
    start();
    take(500);
    data_.become_slow();
    take(20);
    expect_worker_reads();
}

TEST_P(LoaderWorkers, ReadFromTheStartOfAnEpochAfterSlowReads) {
    start();
    take(500);
    data_.become_slow();
    take(20);
    start();
    expect_worker_reads();
}

INSTANTIATE_TEST_SUITE_P(Prefetch, LoaderWorkers, testing::Values(1, 3, 8),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace tutti
