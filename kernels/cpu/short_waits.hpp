#pragma once
// Threads that wait for others of their team give up their cores at once.

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace tutti {

/// While it lives, threads that wait at the end of a parallel region, or for the next one, sleep after some
/// µs, where they else turn for some ms. On cores of one's own that is slower, as sleepers must be woken; on
/// cores that others use, who turns keeps the core from the one waited for. GCC's OpenMP waits shortly while
/// it has more threads than cores (GOMP_SPINCOUNT in its manual), so here is a second team, asleep, that
/// makes them more. Nothing with other OpenMP libraries, or where the system gives no thread.
/// OMP_WAIT_POLICY=passive has the same from the start, active somewhat longer waits.
class ShortWaits {
  public:
    /// `threads`: of the team that computes.
    explicit ShortWaits(int threads);
    ~ShortWaits();
    ShortWaits(const ShortWaits&) = delete;
    ShortWaits& operator=(const ShortWaits&) = delete;

    /// Whether there is one in the process, with a team or without. Any thread.
    static bool held();

  private:
    void hold(int sleepers);

    static std::atomic<int> living_;

    std::mutex mutex_;
    std::condition_variable changed_;
    bool there_ = false, over_ = false;
    std::thread thread_;  // the last: it uses the others
};

}  // namespace tutti
