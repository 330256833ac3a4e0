// The least that an MPI program can do: what launch and MPI_Init alone cost. For startup.py.

#include <mpi.h>

#include <cstdio>

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    int rank = 0, size = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        std::printf("hello from %d ranks\n", size);
        std::fflush(stdout);
    }
    MPI_Finalize();
    return 0;
}
