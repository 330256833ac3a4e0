#include "short_waits.hpp"

#include <omp.h>

#include <algorithm>
#include <system_error>

namespace tutti {

std::atomic<int> ShortWaits::living_{0};

bool ShortWaits::held() {
    return living_.load(std::memory_order_relaxed) > 0;
}

ShortWaits::ShortWaits(int threads) {
    living_.fetch_add(1, std::memory_order_relaxed);
    // Counted are the team's threads and those that this one adds to its first.
    const int sleepers = std::max(omp_get_num_procs() - threads + 2, 2);
    // Then most cores are nobody's of this process, and the system has others for its threads.
    constexpr int most_sleepers = 64;
    if (sleepers > most_sleepers) return;
    try {
        thread_ = std::thread([this, sleepers] { hold(sleepers); });
    } catch (const std::system_error&) {
        return;
    }
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return there_; });
}

ShortWaits::~ShortWaits() {
    living_.fetch_sub(1, std::memory_order_relaxed);
    if (!thread_.joinable()) return;
    {
        const std::lock_guard lock(mutex_);
        over_ = true;
    }
    changed_.notify_all();
    thread_.join();  // whose end ends its team
}

void ShortWaits::hold(int sleepers) {
#pragma omp parallel num_threads(sleepers)
    {
        std::unique_lock lock(mutex_);
        if (omp_get_thread_num() == 0) {
            there_ = true;
            changed_.notify_all();
        }
        changed_.wait(lock, [this] { return over_; });
    }
}

}  // namespace tutti
