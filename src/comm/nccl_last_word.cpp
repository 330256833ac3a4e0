#include "nccl_last_word.hpp"

#include <chrono>
#include <utility>

namespace tutti {

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
        leave_(otherwise_);
    });
}

bool NcclLastWord::may_leave() {
    const std::lock_guard lock(mutex_);
    if (std::exchange(left_, true)) return false;
    changed_.notify_all();
    return true;
}

}  // namespace tutti
