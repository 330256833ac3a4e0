#pragma once
// The work of one stream: done when it is issued, or kept until something waits for it.

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>

namespace tutti::fake_gpu {

/// Positions count the work that was issued.
class WorkQueue {
  public:
    /// From now on work waits for reach(); what was kept is done first when this ends.
    void hold_back(bool held) {
        if (!held) reach(issued_);
        held_ = held;
    }
    void add(std::function<void()> work) {
        ++issued_;
        if (held_) {
            kept_.push_back(std::move(work));
        } else {
            ++done_;
            work();
        }
    }
    std::uint64_t end() const { return issued_; }
    bool has_reached(std::uint64_t position) const { return done_ >= position; }
    /// Does what was issued before the position. Work may itself wait for other queues.
    void reach(std::uint64_t position) {
        while (done_ < position && !kept_.empty()) advance();
    }
    /// Does the next piece of work that was kept, if there is one.
    void advance() {
        if (kept_.empty()) return;
        const std::function<void()> work = std::move(kept_.front());
        kept_.pop_front();
        ++done_;
        work();
    }

  private:
    bool held_ = false;
    std::uint64_t issued_ = 0, done_ = 0;
    std::deque<std::function<void()>> kept_;
};

/// What an event stands for, from its last record on; nothing before.
struct Point {
    std::shared_ptr<WorkQueue> queue;
    std::uint64_t position = 0;

    bool reached() const { return !queue || queue->has_reached(position); }
    void reach() const {
        if (queue) queue->reach(position);
    }
};

}  // namespace tutti::fake_gpu
