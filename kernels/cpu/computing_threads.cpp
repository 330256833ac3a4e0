#include "computing_threads.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <set>

namespace tutti {
namespace {

struct Threads {
    std::mutex mutex;
    std::set<pid_t> numbers;
};

/// Never destroyed: threads end after the program's statics.
Threads& threads() {
    static auto* const all = new Threads;
    return *all;
}

struct Noted {
    Noted() : number(gettid()) {
        const std::lock_guard lock(threads().mutex);
        threads().numbers.insert(number);
    }
    ~Noted() {
        const std::lock_guard lock(threads().mutex);
        threads().numbers.erase(number);
    }
    Noted(const Noted&) = delete;
    Noted& operator=(const Noted&) = delete;

    const pid_t number;
};

/// The second number of the thread's schedstat, in ns. By plain calls: a stream takes several times as long,
/// and a thread that computes waits meanwhile.
std::optional<double> seconds_waited(pid_t thread) {
    const int file = open(fmt::format("/proc/self/task/{}/schedstat", thread).c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0) return std::nullopt;
    std::array<char, 128> text{};
    const ssize_t length = read(file, text.data(), text.size() - 1);
    close(file);
    if (length <= 0) return std::nullopt;
    char *second = nullptr, *end = nullptr;
    std::strtod(text.data(), &second);
    const double waiting = std::strtod(second, &end);
    if (end == second) return std::nullopt;
    return waiting * 1e-9;
}

}  // namespace

void note_computing_thread() {
    static thread_local const Noted noted;
}

std::map<pid_t, double> seconds_waited_for_cores() {
    std::set<pid_t> numbers;
    {
        const std::lock_guard lock(threads().mutex);
        numbers = threads().numbers;
    }
    std::map<pid_t, double> waited;
    for (const pid_t number : numbers)
        if (const std::optional<double> seconds = seconds_waited(number)) waited[number] = *seconds;
    return waited;
}

}  // namespace tutti
