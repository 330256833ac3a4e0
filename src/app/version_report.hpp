#pragma once
// What `trainer --version` prints: which build this is, and with what.

#include <string>

namespace tutti {

/// "tutti 0.1.0" alone on the first line, then what a report of an error needs, a line each: commit, MPI,
/// HDF5, what computes on the CPU, gloo, and whether the CUDA module is there. Starts neither MPI nor a GPU.
std::string version_report();

}  // namespace tutti
