#pragma once
// Work on several threads whose results are taken in order.

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace tutti {

/// Calls make(0), …, make(count − 1) on `threads` threads, which are at most 2 · threads results ahead of
/// those that were taken; where they are one or less, next() calls it. make() may throw, and must bear
/// several callers.
template <class Result>
class InOrder {
  public:
    InOrder(std::size_t count, int threads, std::function<Result(std::size_t)> make)
        : make_(std::move(make)), count_(count) {
        if (threads <= 1) return;
        places_.resize(2 * static_cast<std::size_t>(threads));
        try {
            for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { work(); });
        } catch (...) {
            stop();
            throw;
        }
    }
    /// Waits for the calls of make() that have begun.
    ~InOrder() { stop(); }
    InOrder(const InOrder&) = delete;
    InOrder& operator=(const InOrder&) = delete;

    /// The result of make(0), at the next call that of make(1), …: count of them, or what it threw. Calls
    /// look() first and, where threads make them, ten times a second while it waits; what that throws ends
    /// the call, and the result is there for the next one. One thread.
    template <class Look>
    Result next(const Look& look) {
        look();
        if (threads_.empty()) return make_(taken_++);
        std::unique_lock lock(mutex_);
        Place& place = places_[taken_ % places_.size()];
        while (!changed_.wait_for(lock, std::chrono::milliseconds(100), [&place] { return place.ready; })) {
            lock.unlock();
            look();
            lock.lock();
        }
        const std::exception_ptr error = std::exchange(place.error, nullptr);
        std::optional<Result> result = std::exchange(place.result, std::nullopt);
        place.ready = false;
        ++taken_;
        changed_.notify_all();
        lock.unlock();
        if (error) std::rethrow_exception(error);
        return std::move(*result);
    }

  private:
    struct Place {
        std::optional<Result> result;
        std::exception_ptr error;
        bool ready = false;
    };

    void stop() {
        {
            const std::lock_guard lock(mutex_);
            stopping_ = true;
        }
        changed_.notify_all();
        for (std::thread& thread : threads_) thread.join();
    }

    void work() {
        std::unique_lock lock(mutex_);
        while (true) {
            changed_.wait(
                lock, [this] { return stopping_ || begun_ == count_ || begun_ < taken_ + places_.size(); });
            if (stopping_ || begun_ == count_) return;
            const std::size_t index = begun_++;
            lock.unlock();
            Place made;
            try {
                made.result.emplace(make_(index));
            } catch (...) {
                made.error = std::current_exception();
            }
            made.ready = true;
            lock.lock();
            places_[index % places_.size()] = std::move(made);
            changed_.notify_all();
        }
    }

    const std::function<Result(std::size_t)> make_;
    const std::size_t count_;
    std::vector<Place> places_;  ///< of result i at i mod places_.size()
    std::mutex mutex_;
    std::condition_variable changed_;
    std::size_t begun_ = 0, taken_ = 0;
    bool stopping_ = false;
    std::vector<std::thread> threads_;
};

}  // namespace tutti
