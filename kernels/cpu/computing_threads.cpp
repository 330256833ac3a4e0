#include "computing_threads.hpp"

#include <unistd.h>

#include <fstream>
#include <mutex>
#include <set>
#include <string>

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
    for (const pid_t number : numbers) {
        std::ifstream file("/proc/self/task/" + std::to_string(number) + "/schedstat");
        double on_the_core = 0, waiting = 0;
        if (file >> on_the_core >> waiting) waited[number] = waiting * 1e-9;
    }
    return waited;
}

}  // namespace tutti
