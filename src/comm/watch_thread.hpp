#pragma once
// Private to comm: a thread that looks after something while another waits in a library.

#include <condition_variable>
#include <functional>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "tutti/base/signals_blocked.hpp"

namespace tutti {

/// Takes no signals, which are for the process's first thread. Ends with this object, which waits for it.
class WatchThread {
  public:
    WatchThread() = default;
    ~WatchThread() {
        if (!thread_.joinable()) return;
        {
            const std::lock_guard lock(mutex_);
            over_ = true;
        }
        changed_.notify_one();
        thread_.join();
    }
    WatchThread(const WatchThread&) = delete;
    WatchThread& operator=(const WatchThread&) = delete;

    /// Once. `watch` looks between calls of is_over_within, and returns when that says so. Throws
    /// std::system_error where no thread is to be had.
    void start(std::function<void()> watch) {
        const SignalsBlocked blocked;
        thread_ = std::thread(std::move(watch));
    }
    /// The same, but then nobody looks.
    void start_if_possible(std::function<void()> watch) {
        try {
            start(std::move(watch));
        } catch (const std::system_error&) {
        }
    }

    /// For `watch`: waits that long, a std::chrono::duration; at once true when this object ends.
    template <class Duration>
    bool is_over_within(Duration time) {
        std::unique_lock lock(mutex_);
        return changed_.wait_for(lock, time, [this] { return over_; });
    }

  private:
    std::mutex mutex_;
    std::condition_variable changed_;
    bool over_ = false;
    std::thread thread_;
};

}  // namespace tutti
