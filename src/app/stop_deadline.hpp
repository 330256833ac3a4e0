#pragma once
// A signal that asks to stop ends what does not look for it.

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "tutti/base/log.hpp"
#include "tutti/base/stop_signal.hpp"

namespace tutti {

/// While it lives: some seconds after StopSignal has noted one, and nobody has looked at it (one step may
/// take minutes), says so and ends this process with ExitCode::failed; a launcher then ends the other ranks.
/// For work that leaves nothing behind: destroy it before a file is written. Needs a StopSignal; one at a
/// time.
class StopDeadline {
  public:
    /// work: "the measurement". The log must outlive it.
    StopDeadline(Log& log, std::string work);
    ~StopDeadline();
    StopDeadline(const StopDeadline&) = delete;
    StopDeadline& operator=(const StopDeadline&) = delete;

  private:
    void watch();

    Log& log_;
    const std::string work_;
    std::mutex mutex_;
    std::condition_variable over_changed_;
    bool over_ = false;
    std::thread thread_;  // the last: it uses the others
};

}  // namespace tutti
