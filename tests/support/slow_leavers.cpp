// Ranks that take their time behind the end of MPI: preloaded (ld.so(8)) into a job of three, it lets
// mpirun's rank 1 leave 0.1 s after rank 0, and rank 2 0.3 s later. mpirun sends SIGTERM a second after the
// first rank that ended with another code than 0, or, by Open MPI 4.1.4, as soon as the next has ended.

#include <dlfcn.h>

#include <chrono>
#include <cstdlib>
#include <thread>

extern "C" int MPI_Finalize() {
    const int code = reinterpret_cast<int (*)()>(dlsym(RTLD_NEXT, "MPI_Finalize"))();
    const char* const rank = std::getenv("OMPI_COMM_WORLD_RANK");
    const int number = rank == nullptr ? 0 : std::atoi(rank);
    std::this_thread::sleep_for(std::chrono::milliseconds(number * number * 100));
    return code;
}
