#include "tutti/base/open_files.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <system_error>

namespace tutti {
namespace {

/// Of this process; some where the system does not tell.
std::size_t open_now() {
    constexpr std::size_t unknown = 64;
    std::error_code none;
    const std::filesystem::directory_iterator entries("/proc/self/fd", none);
    if (none) return unknown;
    return static_cast<std::size_t>(std::distance(begin(entries), end(entries)));
}

}  // namespace

void allow_open_files(std::size_t more) {
    constexpr std::size_t for_others = 64;  // connections to peers, a checkpoint, a log
    const rlim_t needed = open_now() + more + for_others;
    rlimit limit{};
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= needed) return;
    limit.rlim_cur = std::min(limit.rlim_max, needed);
    setrlimit(RLIMIT_NOFILE, &limit);
}

std::string too_many_open_files_remedy() {
    rlimit limit{};
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return "raise the limit of open files: ulimit -n 4096";
    const rlim_t more = std::max<rlim_t>(1024, 4 * limit.rlim_cur);
    return "raise the limit of open files, which is " + std::to_string(limit.rlim_cur) + ": ulimit -n " +
           std::to_string(more) +
           (limit.rlim_max < more
                ? " (above " + std::to_string(limit.rlim_max) + " an administrator must allow it)"
                : "");
}

}  // namespace tutti
