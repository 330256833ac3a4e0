// Run with `mpirun -np 2`: rank 1 comes so far as its argument says and no further, to the start of MPI or to
// its end. Rank 0 must say so and end the job.

#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "tutti/comm/mpi_session.hpp"

int main(int, char** argv) {
    const char* rank = std::getenv("OMPI_COMM_WORLD_RANK");
    const bool late = rank && std::string(rank) == "1", at_end = std::string(argv[1]) == "ending";
    if (late && !at_end) {
        if (std::string(argv[1]) == "stopped") raise(SIGSTOP);
        for (;;) pause();
    }
    tutti::StartPatience patience;
    (at_end ? patience.mpi_end : patience.mpi_init) = 1.5;
    const tutti::MpiSession session(patience);
    if (late) raise(SIGSTOP);
}
