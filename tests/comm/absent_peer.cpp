// Run with `mpirun -np 2`: rank 1 lives but never joins. Rank 0 must notice and end the job; the exit code
// says how.

#include <cstdio>
#include <iostream>

#include <unistd.h>

#include "tutti/comm/mpi_session.hpp"

int main() {
    using namespace tutti;
    MpiSession session;
    if (session.rank() == 1)
        for (;;) pause();

    const auto world = session.world(0.3);
    std::int64_t value = 1;
    const TensorView view = view_of(std::span(&value, 1));
    Work other = world->all_reduce(view, ReduceOp::sum);
    try {
        world->all_reduce(view, ReduceOp::sum).wait();
    } catch (const PeerError& error) {
        std::cerr << error.what() << std::endl;
        try {
            // Known to be lost: must not wait the time-out again.
            world->barrier();
        } catch (const PeerError& again) {
            std::cerr << again.what() << std::endl;
            world->abort(error.code());
        }
    }
    std::cerr << "no PeerError\n";
    world->abort(ExitCode::failed);
}
