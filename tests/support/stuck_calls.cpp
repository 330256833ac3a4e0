// An MPI library that does not come back, as Open MPI 4.1 where a write to a dead peer fails: preloaded
// (ld.so(8)) into the ranks of a job, calls that look for messages last for ever on mpirun's rank $STUCK_RANK
// from the time on when the file $STUCK_FROM is there.

#include <dlfcn.h>
#include <mpi.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>

namespace {

void be_stuck() {
    const char* const rank = std::getenv("OMPI_COMM_WORLD_RANK");
    const char* const whose = std::getenv("STUCK_RANK");
    const char* const from = std::getenv("STUCK_FROM");
    if (rank == nullptr || whose == nullptr || from == nullptr || std::string_view(rank) != whose) return;
    while (access(from, F_OK) == 0) pause();
}

template <class Function>
Function* next(const char* name) {
    return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" {

int MPI_Iprobe(int source, int tag, MPI_Comm comm, int* any, MPI_Status* status) {
    be_stuck();
    static auto* const call = next<decltype(MPI_Iprobe)>("MPI_Iprobe");
    return call(source, tag, comm, any, status);
}

int MPI_Test(MPI_Request* request, int* done, MPI_Status* status) {
    be_stuck();
    static auto* const call = next<decltype(MPI_Test)>("MPI_Test");
    return call(request, done, status);
}

int MPI_Testall(int count, MPI_Request* requests, int* done, MPI_Status* statuses) {
    be_stuck();
    static auto* const call = next<decltype(MPI_Testall)>("MPI_Testall");
    return call(count, requests, done, statuses);
}

}  // extern "C"
