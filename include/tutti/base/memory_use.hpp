#pragma once
// What the operating system says about the memory of this process and of its host.

#include <cstdint>
#include <optional>
#include <string>

namespace tutti {

/// Bytes in physical memory: now, and at most so far (VmRSS and VmHWM of /proc/self/status). 0 where Linux
/// does not tell.
std::int64_t resident_bytes();
std::int64_t peak_resident_bytes();

/// Pages that this process touched so far and had to be given, or given back, by the system (getrusage(2)).
std::int64_t page_faults();

/// Bytes, at least 0, that this process can still get without swapping, the page cache among them: the least
/// of what the host has (MemAvailable of /proc/meminfo) and of what the limits of its control group, and of
/// the groups around it, leave (version 2: memory.max and memory.high; version 1: memory.limit_in_bytes),
/// where a batch system sets them; a group's files in memory count as free there. Nothing where Linux tells
/// none of these. /proc and /sys/fs/cgroup are looked for under `root`.
/// Source: Linux, Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst.
std::optional<std::int64_t> available_bytes(const std::string& root = "");

/// Whether a limit of this process's control group, or of one around it, bounds its memory.
bool group_limits_memory(const std::string& root = "");

/// Bytes, at least 0, beyond which memory cannot be had at all: as above, but without the limit that only
/// slows a group down (memory.high), and with the free swap (SwapFree of /proc/meminfo, and what
/// memory.swap.max leaves of it).
std::optional<std::int64_t> obtainable_bytes(const std::string& root = "");

}  // namespace tutti
