#pragma once
// Whether the disk is to blame, and not the path.

#include <cerrno>
#include <string>

#include "tutti/base/error.hpp"

namespace tutti {

/// Of errno: what a path that is right meets where no room is left, or the disk is broken.
inline bool is_failed_write(int error) {
    return error == ENOSPC || error == EDQUOT || error == EFBIG || error == EIO;
}

/// A place for output that cannot be used, in the start: throws RunError where the disk is to blame for
/// `error` (errno), and else UsageError, as another place was to be named. `remedy` says how to name one.
[[noreturn]] inline void refuse_place(int error, const std::string& problem, const std::string& remedy) {
    if (is_failed_write(error)) throw RunError(problem, "check the free space and quota there, or " + remedy);
    throw UsageError(problem, remedy);
}

}  // namespace tutti
