#pragma once
// The cores that a site's OpenMP settings leave to a rank.

namespace tutti {

/// Where OMP_PROC_BIND, OMP_PLACES or GOMP_CPU_AFFINITY bind threads, GCC's OpenMP has bound the first thread
/// to the first place before main() begins (OpenMP 5.0, 2.6.2 and 6.4 say what binds where, not when). Its
/// cores would then be taken for all that the process has, and every thread that it starts (loader workers,
/// MPI's) would share them with it. From here on the calling thread may run on the cores of all places; those
/// that OpenMP starts are still bound. Nothing where OpenMP binds no thread. To be called by the first thread
/// before it starts others.
void run_on_all_places();

}  // namespace tutti
