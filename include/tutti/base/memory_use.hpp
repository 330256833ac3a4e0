#pragma once
// What the operating system says about the memory of this process and of its host.

#include <cstdint>

namespace tutti {

/// Bytes in physical memory: now, and at most so far (VmRSS and VmHWM of /proc/self/status). 0 where Linux
/// does not tell.
std::int64_t resident_bytes();
std::int64_t peak_resident_bytes();

/// Bytes that programs of this host can still get without swapping, the page cache among them (MemAvailable
/// of /proc/meminfo). 0 where Linux does not tell.
std::int64_t available_bytes();

}  // namespace tutti
