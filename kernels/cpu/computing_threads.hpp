#pragma once
// Which threads of the process compute, and how long they were kept from it.

#include <map>

#include <sys/types.h>

namespace tutti {

/// The calling thread computes: noted at the first call, until the thread ends. Any thread.
void note_computing_thread();

/// Of each thread that computes: for how many seconds of its life it could have run, but others had the core,
/// or a control group had used up its time (Linux, Documentation/scheduler/sched-stats.rst). Without those of
/// which the system does not tell. Any thread.
std::map<pid_t, double> seconds_waited_for_cores();

}  // namespace tutti
