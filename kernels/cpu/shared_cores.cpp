#include "shared_cores.hpp"

#include <algorithm>

namespace tutti {

bool SharedCores::after_window(const std::map<pid_t, double>& waited, double seconds) {
    double share = 0;
    for (const auto& [thread, now] : waited)
        if (const auto before = before_.find(thread); before != before_.end() && seconds > 0)
            share = std::max(share, (now - before->second) / seconds);
    before_ = waited;

    crowded_ = share > much ? crowded_ + 1 : 0;
    if (crowded_ >= windows_shared) shared_ = true;
    alone_ = share > little ? 0 : alone_ + 1;
    if (alone_ >= windows_alone) shared_ = false;
    shared_windows_ = shared_ ? shared_windows_ + 1 : 0;
    shares_ = shared_ ? shares_ + share : 0;
    return shared_;
}

std::optional<double> SharedCores::worth_saying() {
    if (said_ || shared_windows_ < windows_worth_saying) return std::nullopt;
    const double share = shares_ / shared_windows_;
    if (share < much) return std::nullopt;
    said_ = true;
    return share;
}

}  // namespace tutti
