#include "host.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <set>

#include "../provenance.hpp"
#include "launcher_cores.hpp"
#include "tutti/comm/mpi_session.hpp"
#include "tutti/comm/network.hpp"

namespace tutti::doctor {
namespace {

/// HDF5 locks with flock; asked of the current folder, where most runs write.
std::string hdf5_locking(const Environment& environment) {
    const std::string wish = text_of(environment, "HDF5_USE_FILE_LOCKING");
    if (wish == "FALSE" || wish == "0") return "off (HDF5_USE_FILE_LOCKING=" + wish + ")";
    const int folder = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0) return "on";
    const bool refused = flock(folder, LOCK_SH | LOCK_NB) != 0 && errno != EWOULDBLOCK;
    const std::string reason = refused ? std::strerror(errno) : "";
    close(folder);
    return refused ? "refused (" + reason + ")" : "on";
}

std::int64_t free_shared_memory() {
    struct statvfs status {};
    if (statvfs("/dev/shm", &status) != 0) return 0;
    return static_cast<std::int64_t>(status.f_bavail) * static_cast<std::int64_t>(status.f_frsize);
}

/// The kernel shows each core's node as a link nodeN in the core's folder.
std::vector<int> numa_nodes(const std::vector<int>& cores) {
    std::set<int> nodes;
    for (const int core : cores) {
        std::error_code none;
        for (const auto& entry :
             std::filesystem::directory_iterator(fmt::format("/sys/devices/system/cpu/cpu{}", core), none)) {
            const std::string name = entry.path().filename();
            int node = 0;
            if (name.starts_with("node") &&
                std::from_chars(name.data() + 4, name.data() + name.size(), node).ec == std::errc{})
                nodes.insert(node);
        }
    }
    return {nodes.begin(), nodes.end()};
}

void read_wanted_threads(const Environment& environment, RankFacts& facts) {
    for (const char* variable : {"OMP_NUM_THREADS", "SLURM_CPUS_PER_TASK"}) {
        const std::string text = text_of(environment, variable);
        int number = 0;
        // OMP_NUM_THREADS may be a list, one number per nesting level: the first counts.
        std::from_chars(text.data(), text.data() + text.size(), number);
        if (number <= facts.wanted_threads) continue;
        facts.wanted_threads = number;
        facts.wanted_by = variable;
    }
}

/// The first name of a variable that lists interfaces. Without what selects by other means: "^lo" (all but),
/// "=eth0" (exactly), "10.0.0.0/8" (a network), "eth0:1" (NCCL: a port).
std::string interface_of(std::string text, bool is_prefix) {
    if (text.starts_with("^")) return {};
    text = text.substr(0, text.find(','));
    if (text.starts_with("=")) {
        text = text.substr(1);
        is_prefix = false;
    }
    text = text.substr(0, text.find(':'));
    if (text.find('/') != std::string::npos) return {};
    if (!is_prefix) return text;
    // NCCL takes every interface whose name begins so.
    for (const std::string& one : network_interfaces())
        if (one.starts_with(text)) return {};
    return text;
}

void read_interfaces(const Environment& environment, RankFacts& facts) {
    facts.interfaces = network_interfaces();
    for (const char* variable : {"OMPI_MCA_btl_tcp_if_include", "OMPI_MCA_oob_tcp_if_include",
                                 "NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME"}) {
        const std::string name =
            interface_of(text_of(environment, variable), std::strncmp(variable, "NCCL", 4) == 0);
        if (!name.empty()) facts.interface_variables[variable] = name;
    }
}

}  // namespace

RankFacts own_facts(int rank, const RankPlace& place, const Environment& environment, const Gpu& taken) {
    RankFacts facts;
    facts.rank = rank;
    facts.host = place.host;
    facts.local_rank = place.local_rank;
    facts.cores = place.cores;
    facts.launcher_cores = launcher_cores(environment);
    facts.threads = place.threads;
    facts.numa_nodes = numa_nodes(place.cores);
    facts.libraries = {{"MPI", MpiSession::library_version()}, {"HDF5", hdf5_version()}};
    facts.hdf5_locking = hdf5_locking(environment);
    facts.shm_bytes = free_shared_memory();
    read_wanted_threads(environment, facts);
    read_interfaces(environment, facts);
    const Gpu gpu = taken.uuid.empty() ? gpu_of_rank(place.local_rank) : taken;
    facts.gpu_name = gpu.name;
    facts.gpu_uuid = gpu.uuid;
    if (!gpu.uuid.empty()) facts.libraries.merge(gpu_libraries());
    return facts;
}

double clock_ahead(Communicator& world) {
    // Ranks leave a barrier at about the same time: the smallest difference of a few has the least waiting.
    double best = 0;
    for (int round = 0; round < 5; ++round) {
        world.barrier();
        double mine =
            std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
        double first = mine;
        world.broadcast(view_of(std::span(&first, 1)), 0).wait();
        if (round == 0 || std::abs(mine - first) < std::abs(best)) best = mine - first;
    }
    return best;
}

}  // namespace tutti::doctor
