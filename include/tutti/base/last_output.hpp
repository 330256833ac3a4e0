#pragma once
// What a process says last, before it is ended from outside.

namespace tutti {

/// Waits until whoever holds the other end of the pipe `descriptor` has read all that was written to it: at
/// most `seconds`, and not at all where it is no pipe or nobody can read it any more. True when nothing is
/// left in it. Any thread.
bool wait_until_read(int descriptor, double seconds) noexcept;

/// Flushes the streams of the C library and waits until the launcher has read standard output and error, at
/// most half a second for both. Call it before MPI_Abort: a launcher that ends a job need not read what is
/// still in the pipes. MPICH's Hydra lost the last message in one of five runs without it (4.0.2, two ranks,
/// measured).
void hand_over_output() noexcept;

}  // namespace tutti
