// A job whose ranks were given different numbers of cores, on any machine: preloaded (ld.so(8)) into the
// ranks, it tells rank 0 that it may run on two cores, and each other rank that it has one of its own.

#include <sched.h>

#include <cstdlib>
#include <cstring>

extern "C" int sched_getaffinity(pid_t, std::size_t bytes, cpu_set_t* set) noexcept {
    const char* const text = std::getenv("OMPI_COMM_WORLD_RANK");
    const int rank = text == nullptr ? 0 : std::atoi(text);
    std::memset(set, 0, bytes);
    if (rank == 0) CPU_SET_S(0, bytes, set);
    CPU_SET_S(static_cast<std::size_t>(rank) + 1, bytes, set);
    return 0;
}
