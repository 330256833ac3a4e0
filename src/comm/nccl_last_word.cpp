#include "nccl_last_word.hpp"

#include <chrono>
#include <cstdlib>
#include <future>
#include <utility>

namespace tutti {
namespace {

/// Seconds that leaving may take in a thread of its own.
constexpr double to_leave = 5;

}  // namespace

NcclLastWord::~NcclLastWord() {
    if (stuck_ && may_leave()) leave_(otherwise_);
    if (last_resort_.joinable()) last_resort_.join();
}

void NcclLastWord::tell(const Failure& failure) {
    if (told_.code == ExitCode::done) told_ = failure;
    if (stuck_ && may_leave()) leave_(told_);
}

void NcclLastWord::is_stuck(const Failure& otherwise, double patience, const Leave& leave) {
    if (std::exchange(stuck_, true)) return;
    otherwise_ = otherwise;
    leave_ = leave;
    if (told_.code != ExitCode::done) {
        if (may_leave()) leave_(told_);
        return;
    }
    last_resort_ = std::thread([this, patience] {
        {
            std::unique_lock lock(mutex_);
            if (changed_.wait_for(lock, std::chrono::duration<double>(patience), [this] { return left_; }))
                return;
            left_ = true;
        }
        // MPI was promised calls from the first thread alone (MPI_THREAD_FUNNELED), and leaving is MPI_Abort,
        // which alone tells the launcher and the other ranks. The first thread is somewhere that waits for
        // NCCL, most likely outside MPI. Where the call waits for it all the same, the process ends without.
        std::promise<void> returned;
        std::thread guard([&, code = static_cast<int>(otherwise_.code)] {
            if (returned.get_future().wait_for(std::chrono::duration<double>(to_leave)) !=
                std::future_status::ready)
                std::_Exit(code);
        });
        leave_(otherwise_);
        returned.set_value();
        guard.join();
    });
}

bool NcclLastWord::may_leave() {
    const std::lock_guard lock(mutex_);
    if (std::exchange(left_, true)) return false;
    changed_.notify_all();
    return true;
}

}  // namespace tutti
