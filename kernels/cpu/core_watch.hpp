#pragma once
// Looks whether others run on the cores of a device's threads, and has the threads wait accordingly.

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>

#include "computing_threads.hpp"

namespace tutti {

/// A thread that looks twice a second (SharedCores; some tens of µs for each computing thread) and holds
/// ShortWaits while cores are shared. No bit of a result depends on it.
class CoreWatch {
  public:
    /// What seconds_waited_for_cores gives.
    using Waits = std::function<std::map<pid_t, double>()>;

    /// `threads`: of the team that computes. `waits` is called at the end of each window, by the watch's
    /// thread.
    explicit CoreWatch(int threads, Waits waits = seconds_waited_for_cores,
                       std::chrono::microseconds window = std::chrono::milliseconds(500));
    ~CoreWatch();
    CoreWatch(const CoreWatch&) = delete;
    CoreWatch& operator=(const CoreWatch&) = delete;

    /// Told once, by the watch's thread, that cores have been shared for some seconds. Empty: nobody.
    void set_notice(std::function<void(const std::string&)> notice);

  private:
    void watch();

    const int threads_;
    const Waits waits_;
    const std::chrono::microseconds window_;
    std::mutex mutex_;
    std::condition_variable ends_;
    bool over_ = false;
    std::function<void(const std::string&)> notice_;
    std::thread thread_;  // the last: it uses the others
};

}  // namespace tutti
