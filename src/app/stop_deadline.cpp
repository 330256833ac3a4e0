#include "stop_deadline.hpp"

#include <fmt/format.h>

#include <chrono>
#include <cstdlib>

#include "tutti/base/error.hpp"
#include "tutti/base/last_output.hpp"
#include "tutti/base/signals_blocked.hpp"

namespace tutti {
namespace {

// Ordinary steps look for a signal sooner than that, and then all ranks end together.
constexpr std::chrono::seconds patience{3};

}  // namespace

StopDeadline::StopDeadline(Log& log, std::string work) : log_(log), work_(std::move(work)) {
    const SignalsBlocked blocked;  // they are for the thread that computes
    thread_ = std::thread([this] { watch(); });
}

StopDeadline::~StopDeadline() {
    {
        const std::lock_guard lock(mutex_);
        over_ = true;
    }
    over_changed_.notify_all();
    StopSignal::wake();
    thread_.join();
}

void StopDeadline::watch() {
    StopSignal::wait();
    std::unique_lock lock(mutex_);
    if (over_changed_.wait_for(lock, patience, [this] { return over_; })) return;
    log_.error(fmt::format("stopped by signal {} in the middle of {}; no file was written",
                           StopSignal::pending(), work_));
    // Nobody else can: the thread that computes is deep in a step.
    hand_over_output();
    std::_Exit(static_cast<int>(ExitCode::failed));
}

}  // namespace tutti
