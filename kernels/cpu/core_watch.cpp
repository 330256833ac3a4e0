#include "core_watch.hpp"

#include <fmt/format.h>

#include <optional>
#include <system_error>
#include <utility>

#include "shared_cores.hpp"
#include "short_waits.hpp"
#include "tutti/base/signals_blocked.hpp"

namespace tutti {
namespace {

using Clock = std::chrono::steady_clock;

std::string notice_of(double share) {
    return fmt::format(
        "the computing threads wait for their cores (the one that waits longest {:.0f} % of the time): other "
        "work runs there, or a limit on processor time holds them back; they wait for each other without "
        "spinning as long as that lasts; for full speed give each rank cores of its own (top shows who is "
        "there)",
        100 * share);
}

}  // namespace

CoreWatch::CoreWatch(int threads, Waits waits, std::chrono::microseconds window)
    : threads_(threads), waits_(std::move(waits)), window_(window) {
    const SignalsBlocked blocked;
    try {
        thread_ = std::thread([this] { watch(); });
    } catch (const std::system_error&) {
        // Then nobody watches: the threads go on as on cores of their own.
    }
}

CoreWatch::~CoreWatch() {
    if (!thread_.joinable()) return;
    {
        const std::lock_guard lock(mutex_);
        over_ = true;
    }
    ends_.notify_all();
    thread_.join();
}

void CoreWatch::set_notice(std::function<void(const std::string&)> notice) {
    const std::lock_guard lock(mutex_);
    notice_ = std::move(notice);
}

void CoreWatch::watch() {
    SharedCores cores;
    std::optional<ShortWaits> short_waits;
    Clock::time_point begin = Clock::now();
    std::unique_lock lock(mutex_);
    while (!ends_.wait_for(lock, window_, [this] { return over_; })) {
        const Clock::time_point now = Clock::now();
        const bool shared = cores.after_window(waits_(), std::chrono::duration<double>(now - begin).count());
        begin = now;
        if (shared && !short_waits) short_waits.emplace(threads_);
        if (!shared) short_waits.reset();
        if (!notice_) continue;
        if (const std::optional<double> share = cores.worth_saying()) notice_(notice_of(*share));
    }
}

}  // namespace tutti
