#pragma once

#include <atomic>
#include <functional>
#include <utility>

#include "tutti/base/steady_seconds.hpp"

namespace tutti::test {

/// A clock by which its user is suspended for an hour.
class Suspension {
  public:
    /// begins: asked at each look at the clock, until it says yes.
    explicit Suspension(std::function<bool()> begins) : begins_(std::move(begins)) {}

    /// For one thread; this must outlive it.
    std::function<double()> clock() {
        return [this] {
            if (looks_ > 0 || begins_()) {
                ++looks_;
                looks_.notify_all();
            }
            return steady_seconds() + (looks_ > 0 ? 3600 : 0);
        };
    }
    /// Until the user of the clock has looked at it that often since.
    void wait_for_looks(int looks) const {
        for (int seen = looks_; seen < looks; seen = looks_) looks_.wait(seen);
    }

  private:
    std::function<bool()> begins_;
    std::atomic<int> looks_{0};
};

}  // namespace tutti::test
