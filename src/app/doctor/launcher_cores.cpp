#include "launcher_cores.hpp"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <sstream>
#include <string_view>

namespace tutti::doctor {
namespace {

/// The number at the beginning of `text`, which loses it; -1: there is none.
int take_number(std::string_view& text) {
    int number = -1;
    const auto end = std::from_chars(text.data(), text.data() + text.size(), number).ptr;
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    return number;
}

/// "0-3,8" as 0, 1, 2, 3, 8.
std::vector<int> listed(std::string_view text) {
    std::vector<int> numbers;
    while (!text.empty()) {
        const int first = take_number(text);
        int last = first;
        if (text.starts_with('-')) {
            text.remove_prefix(1);
            last = take_number(text);
        }
        if (first < 0 || last < first) return {};
        for (int number = first; number <= last; ++number) numbers.push_back(number);
        if (!text.starts_with(',')) break;
        text.remove_prefix(1);
    }
    return numbers;
}

std::vector<int> cores_of(int process, const std::string& root) {
    std::ifstream lines(root + "/proc/" + std::to_string(process) + "/status");
    for (std::string name; lines >> name;) {
        std::string value;
        std::getline(lines >> std::ws, value);
        if (name == "Cpus_allowed_list:") return listed(value);
    }
    return {};
}

/// The least number of CPUs that Slurm gives the job on any node; 0: it does not tell. "64(x2),32": two nodes
/// with 64, one with 32.
int cpus_of_slurm(const Environment& environment) {
    const std::string list = text_of(environment, "SLURM_JOB_CPUS_PER_NODE");
    std::istringstream nodes(list);
    int least = 0;
    for (std::string node; std::getline(nodes, node, ',');) {
        std::string_view text = node;
        const int cpus = take_number(text);
        if (cpus <= 0) return 0;
        least = least == 0 ? cpus : std::min(least, cpus);
    }
    return least;
}

/// Of batch systems whose share of a node cannot be told from the cores that a process may run on.
bool is_of_another_batch_system(const Environment& environment) {
    return std::ranges::any_of(std::vector{"PBS_JOBID", "LSB_JOBID", "PE_HOSTFILE", "COBALT_JOBID",
                                           "FLUX_JOB_ID", "OAR_JOB_ID", "LOADL_STEP_ID"},
                               [&](const char* name) { return environment.contains(name); });
}

bool has_quota(const std::string& group) {
    std::string quota;
    if (std::ifstream(group + "/cpu.max") >> quota) return quota != "max";
    return (std::ifstream(group + "/cpu.cfs_quota_us") >> quota) && quota != "-1";
}

/// Whether this process's groups, or those around them, have one. A container often sees its own group as the
/// outermost.
bool has_quota_in_groups(const std::string& root) {
    std::ifstream lines(root + "/proc/self/cgroup");
    std::string id, controllers, path;
    while (std::getline(lines, id, ':') && std::getline(lines, controllers, ':') && std::getline(lines, path))
        for (std::string group = path;; group.erase(group.rfind('/'))) {
            while (group.ends_with('/')) group.pop_back();
            for (const char* top : {"", "/unified", "/cpu", "/cpu,cpuacct", "/cpuacct,cpu"})
                if (has_quota(root + "/sys/fs/cgroup" + top + group)) return true;
            if (group.rfind('/') == std::string::npos) break;
        }
    return false;
}

}  // namespace

std::vector<int> launcher_cores(const Environment& environment, const std::string& root) {
    const LaunchFacts launch = read_launch(environment);
    if (launch.launcher != Launcher::mpirun || is_of_another_batch_system(environment)) return {};
    const int process = process_above(Launcher::mpirun, root + "/proc");
    if (process == 0 || has_quota_in_groups(root)) return {};
    std::vector<int> cores = cores_of(process, root);
    if (launch.inside_slurm_job && cpus_of_slurm(environment) < static_cast<int>(cores.size())) return {};
    return cores;
}

}  // namespace tutti::doctor
