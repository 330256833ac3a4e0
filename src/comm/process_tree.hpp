#pragma once
// Private to comm: what /proc tells of processes and of who started them.

#include <filesystem>
#include <string>

namespace tutti {

/// One process; `parent` 0: it has ended, or hides.
struct Process {
    std::string name;
    char state = '?';
    int parent = 0;
};
Process look_at(const std::filesystem::path& proc, int process);

/// Whether a process of that name is mpirun, or its part on another host.
bool starts_ranks(const std::string& name);

}  // namespace tutti
