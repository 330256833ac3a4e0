// A launcher that does not answer MPI_Abort, as srun's part on a host that is cut off: the rank ends all the
// same.

#include <mpi.h>
#include <unistd.h>

#include <iostream>

#include "tutti/comm/mpi_session.hpp"

// In place of the library's.
extern "C" int MPI_Abort(MPI_Comm, int) {
    std::cerr << "asked to abort" << std::endl;
    for (;;) pause();
}

int main() {
    tutti::MpiSession session;
    session.world(1)->abort(tutti::ExitCode::peer);
}
