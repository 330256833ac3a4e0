#pragma once
// What the operating system says about the memory of this process.

#include <cstdint>

namespace tutti {

/// Bytes in physical memory: now, and at most so far (VmRSS and VmHWM of /proc/self/status). 0 where Linux
/// does not tell.
std::int64_t resident_bytes();
std::int64_t peak_resident_bytes();

}  // namespace tutti
