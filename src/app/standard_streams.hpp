#pragma once
// The three streams that a process begins with, where they are closed or full.

#include "tutti/base/error.hpp"

namespace tutti {

/// Opens /dev/null for those that are closed, so that no file of ours takes their number and receives what is
/// printed. Call it before anything opens a file.
void fill_closed_streams() noexcept;

/// The error of what is printed and lost. reason: the system's number, 0 where it is not known.
RunError output_error(int reason);

/// Throws RunError where something that was printed is lost: the disk is full to which standard output goes.
void require_printed();

}  // namespace tutti
