#pragma once
// What the programs that measure two cores have in common.

#include <fmt/format.h>
#include <sched.h>

#include <cerrno>
#include <cstdlib>
#include <exception>
#include <new>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <vector>

namespace tutti {

/// The calling thread, and threads that it starts from now on, run on this core alone.
inline void pin_to(int core) {
    const auto cores = static_cast<std::size_t>(core) + 1;
    cpu_set_t* const set = CPU_ALLOC(cores);
    if (set == nullptr) throw std::bad_alloc();
    const std::size_t bytes = CPU_ALLOC_SIZE(cores);
    CPU_ZERO_S(bytes, set);
    CPU_SET_S(static_cast<std::size_t>(core), bytes, set);
    const int status = sched_setaffinity(0, bytes, set);
    const int reason = errno;
    CPU_FREE(set);
    if (status != 0)
        throw std::runtime_error(fmt::format("core {}: {}; name two of the cores that `taskset -cp $$` shows",
                                             core, std::generic_category().message(reason)));
}

/// What main() returns: run(words of the command line), or 2 where it throws, with the program's name before
/// why.
inline int run_program(const char* name, int (*run)(const std::vector<std::string_view>&), int argc,
                       char** argv) {
    try {
        return run({argv + 1, argv + argc});
    } catch (const std::exception& error) {
        fmt::print(stderr, "{}: {}\n", name, error.what());
        return 2;
    }
}

}  // namespace tutti
