#pragma once
// Whether the disk is to blame, and not the path.

#include <cerrno>

namespace tutti {

/// Of errno: what a path that is right meets where no room is left, or the disk is broken.
inline bool is_failed_write(int error) {
    return error == ENOSPC || error == EDQUOT || error == EFBIG || error == EIO;
}

}  // namespace tutti
