#pragma once
// How long this program has been running.

namespace tutti {

/// Seconds since the system started this process, before its libraries were loaded, to 0.01 s. Source: Linux,
/// proc(5): starttime of /proc/self/stat, which counts in the time of CLOCK_BOOTTIME. Where Linux does not
/// tell: since the first call. Any thread.
double seconds_since_start();

}  // namespace tutti
