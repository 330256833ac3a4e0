#include "tutti/base/last_output.hpp"

#include <chrono>
#include <cstdio>
#include <thread>

#include <poll.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace tutti {
namespace {

using Clock = std::chrono::steady_clock;

bool has_reader(int descriptor) noexcept {
    // Of the end that writes, POLLERR says that the other one is closed.
    pollfd state{descriptor, 0, 0};
    return ::poll(&state, 1, 0) == 0;
}

}  // namespace

bool wait_until_read(int descriptor, double seconds) noexcept {
    struct stat kind {};
    if (::fstat(descriptor, &kind) != 0 || !S_ISFIFO(kind.st_mode)) return true;
    const auto end = Clock::now() + std::chrono::duration<double>(seconds);
    for (;;) {
        int unread = 0;
        if (::ioctl(descriptor, FIONREAD, &unread) != 0 || unread == 0) return true;
        if (!has_reader(descriptor) || Clock::now() >= end) return false;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
}

void hand_over_output() noexcept {
    std::fflush(nullptr);
    constexpr double each = 0.25;
    wait_until_read(STDOUT_FILENO, each);
    wait_until_read(STDERR_FILENO, each);
}

}  // namespace tutti
