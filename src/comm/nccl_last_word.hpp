#pragma once
// Private to comm: with which words and code a process ends whose NCCL does not abort.

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "tutti/comm/communicator.hpp"

namespace tutti {

/// Of a communicator and its duplicates. The first error that is told counts. Where NCCL is stuck before any
/// is known, an error is on its way out of the scopes that hold NCCL's, and may be told on its way; so the
/// process goes on until then, for a while.
class NcclLastWord {
  public:
    /// Ends the process; tests return.
    using Leave = std::function<void(const Failure&)>;

    NcclLastWord() = default;
    NcclLastWord(const NcclLastWord&) = delete;
    NcclLastWord& operator=(const NcclLastWord&) = delete;
    /// Nothing of NCCL's is left; the process ends here if it is stuck and was told nothing.
    ~NcclLastWord();

    void tell(const Failure& failure);
    /// Code `done`: none was told.
    const Failure& told() const { return told_; }

    /// NCCL does not abort: the process ends with what was told, now or later; or with `otherwise`, in a
    /// thread of its own, when nothing is told within `patience` seconds: on the way there may be something
    /// that waits for NCCL. A `leave` in that thread that does not end is given up for _Exit.
    void is_stuck(const Failure& otherwise, double patience, const Leave& leave);
    bool stuck() const { return stuck_; }

  private:
    /// True for the first who asks.
    bool may_leave();

    Failure told_, otherwise_;
    Leave leave_;
    bool stuck_ = false;
    std::mutex mutex_;
    std::condition_variable changed_;
    bool left_ = false;
    std::thread last_resort_;
};

}  // namespace tutti
