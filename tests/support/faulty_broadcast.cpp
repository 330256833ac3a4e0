// A host with faulty memory: preloaded (ld.so(8)) into the ranks of a job, it flips one bit of the first
// broadcast of at least $FAULTY_BYTES bytes on rank $FAULTY_RANK.

#include <dlfcn.h>
#include <mpi.h>

#include <cstdlib>

namespace {

template <class Function>
Function* next(const char* name) {
    return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

bool strikes(int bytes, int root, MPI_Comm comm) {
    static bool struck = false;
    const char* const rank = std::getenv("FAULTY_RANK");
    const char* const least = std::getenv("FAULTY_BYTES");
    if (struck || rank == nullptr || least == nullptr || bytes < std::atoi(least)) return false;
    int own = root;
    next<decltype(MPI_Comm_rank)>("MPI_Comm_rank")(comm, &own);
    struck = own != root && own == std::atoi(rank);
    return struck;
}

}  // namespace

extern "C" int MPI_Ibcast(void* buffer, int count, MPI_Datatype type, int root, MPI_Comm comm,
                          MPI_Request* request) {
    const int code = next<decltype(MPI_Ibcast)>("MPI_Ibcast")(buffer, count, type, root, comm, request);
    if (code != MPI_SUCCESS || !strikes(count, root, comm)) return code;
    const int waited = next<decltype(MPI_Wait)>("MPI_Wait")(request, MPI_STATUS_IGNORE);
    // The highest bit of the first float's mantissa, so that rounding does not take the difference away.
    static_cast<unsigned char*>(buffer)[2] ^= 0x40;
    return waited;
}
