#include "judgement.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>

namespace tutti::doctor {
namespace {

using Problems = std::vector<Problem>;

// File times and logs of different hosts are compared in seconds.
constexpr double largest_clock_difference = 1.0;
// What Open MPI's and NCCL's shared-memory transports take per rank, and some room.
constexpr std::int64_t shm_per_rank = 64 << 20;

std::string place(const RankFacts& facts) {
    return fmt::format("rank {} on {}", facts.rank, facts.host);
}

/// "rank 3 on node1", "ranks 0, 1 and 62 more on node1".
std::string places(const std::vector<int>& ranks, const std::string& host) {
    constexpr std::size_t shown = 4;
    if (ranks.size() == 1) return fmt::format("rank {} on {}", ranks.front(), host);
    const std::vector<int> first(ranks.begin(),
                                 ranks.begin() + static_cast<std::ptrdiff_t>(std::min(shown, ranks.size())));
    const std::string more =
        ranks.size() > shown ? fmt::format(" and {} more", ranks.size() - shown) : std::string();
    return fmt::format("ranks {}{} on {}", fmt::join(first, ", "), more, host);
}

/// Ranks grouped by what `key` says of them; the key "" is left out.
template <class Key>
std::map<std::pair<std::string, std::string>, std::vector<int>> group(const JobFacts& job, const Key& key) {
    std::map<std::pair<std::string, std::string>, std::vector<int>> groups;
    for (const RankFacts& one : job.ranks)
        if (const std::string text = key(one); !text.empty()) groups[{one.host, text}].push_back(one.rank);
    return groups;
}

void judge_launch(const JobFacts& job, Problems& problems) {
    if (job.launch_mismatch.empty()) return;
    const auto end = job.launch_mismatch.find("; ");
    const bool has_fix = end != std::string::npos;
    problems.push_back({"singletons", job.launch_mismatch.substr(0, end),
                        has_fix ? job.launch_mismatch.substr(end + 2) : "check the launch command"});
}

void judge_sums(const JobFacts& job, Problems& problems) {
    const AllReduceFacts& sums = job.all_reduce;
    if (sums.largest_error > sums.allowed_error || std::isnan(sums.largest_error))
        problems.push_back(
            {"wrong-sums",
             fmt::format("all-reduce of ten random floats is off by {:.3g}, rounding explains {:.3g}",
                         sums.largest_error, sums.allowed_error),
             "do not train on this network: try another distributed.backend, and another "
             "network interface"});
    if (sums.wrong > 0)
        problems.push_back(
            {"wrong-sums",
             fmt::format("all-reduce of {} MB gave {} wrong elements", sums.bytes / 1'000'000, sums.wrong),
             "do not train on this network: try another distributed.backend, and another "
             "network interface"});
}

void judge_libraries(const JobFacts& job, Problems& problems) {
    std::set<std::string> names;
    for (const RankFacts& one : job.ranks)
        for (const auto& [name, version] : one.libraries) names.insert(name);
    for (const std::string& name : names) {
        std::map<std::string, const RankFacts*> versions;
        for (const RankFacts& one : job.ranks) {
            const auto found = one.libraries.find(name);
            versions.emplace(found == one.libraries.end() ? "none" : found->second, &one);
        }
        if (versions.size() < 2) continue;
        std::string list;
        for (const auto& [version, who] : versions)
            list += fmt::format("{}{} ({})", list.empty() ? "" : ", ", version, place(*who));
        problems.push_back({"library-mismatch", fmt::format("{} is not the same everywhere: {}", name, list),
                            "load the same modules on every host, or set LD_LIBRARY_PATH alike"});
    }
}

void judge_gpus(const JobFacts& job, Problems& problems) {
    for (const auto& [key, ranks] : group(job, [](const RankFacts& one) { return one.gpu_uuid; }))
        if (ranks.size() > 1)
            problems.push_back(
                {"several-ranks-on-one-gpu",
                 fmt::format("{} share one GPU ({})", places(ranks, key.first), key.second),
                 "start one rank per GPU: srun --gpus-per-task=1, or mpirun -np with the number "
                 "of GPUs; do not set CUDA_VISIBLE_DEVICES to one GPU for all ranks"});
}

void judge_binding(const JobFacts& job, Problems& problems) {
    const auto narrow = group(job, [](const RankFacts& one) {
        if (one.wanted_threads <= static_cast<int>(one.cores.size())) return std::string();
        return fmt::format("bound to {} {}, but {} asks for {} threads", one.cores.size(),
                           one.cores.size() == 1 ? "core" : "cores", one.wanted_by, one.wanted_threads);
    });
    for (const auto& [key, ranks] : narrow)
        problems.push_back(
            {"binding-narrower-than-threads", fmt::format("{}: {}", places(ranks, key.first), key.second),
             "give each rank its cores: srun --cpus-per-task=N, or mpirun --map-by socket:PE=N; "
             "or ask for fewer threads"});
}

void judge_interfaces(const JobFacts& job, Problems& problems) {
    const auto missing = group(job, [](const RankFacts& one) {
        std::string text;
        for (const auto& [variable, names] : one.interface_variables)
            if (std::find(one.interfaces.begin(), one.interfaces.end(), names) == one.interfaces.end())
                text +=
                    fmt::format("{}{}: no network interface {}", text.empty() ? "" : ", ", variable, names);
        return text.empty() ? text : fmt::format("{} (there are {})", text, fmt::join(one.interfaces, ", "));
    });
    for (const auto& [key, ranks] : missing)
        problems.push_back({"interface-does-not-exist",
                            fmt::format("{}: {}", places(ranks, key.first), key.second),
                            "name one that every host has (ip -br link), or unset the variable"});
}

void judge_shared_memory(const JobFacts& job, Problems& problems) {
    std::map<std::string, std::vector<const RankFacts*>> hosts;
    for (const RankFacts& one : job.ranks) hosts[one.host].push_back(&one);
    for (const auto& [host, ranks] : hosts) {
        const std::int64_t need = shm_per_rank * static_cast<std::int64_t>(ranks.size());
        const std::int64_t free = ranks.front()->shm_bytes;
        if (free >= need) continue;
        problems.push_back(
            {"small-dev-shm",
             fmt::format("/dev/shm of {} has {} MiB free; {} ranks want {} MiB", host, free >> 20,
                         ranks.size(), need >> 20),
             "in a container: --shm-size=1g (Docker), or bind the host's /dev/shm; else remove "
             "what ended jobs left there"});
    }
}

void judge_clocks(const JobFacts& job, Problems& problems) {
    const auto skewed = group(job, [](const RankFacts& one) {
        if (std::abs(one.clock_ahead) <= largest_clock_difference) return std::string();
        return fmt::format("{:.1f} s {}", std::abs(one.clock_ahead),
                           one.clock_ahead > 0 ? "ahead of" : "behind");
    });
    for (const auto& [key, ranks] : skewed)
        problems.push_back({"clock-skew",
                            fmt::format("the clock of {} is {} rank 0's", key.first, key.second),
                            "synchronise the hosts' clocks (chronyc tracking); file times and logs are "
                            "compared between hosts"});
}

void judge_locking(const JobFacts& job, Problems& problems) {
    const auto refused = group(job, [](const RankFacts& one) {
        return one.hdf5_locking.starts_with("refused") ? one.hdf5_locking : std::string();
    });
    for (const auto& [key, ranks] : refused)
        problems.push_back({"no-file-locking",
                            fmt::format("{}: HDF5 locks files, and the file system refuses: {}",
                                        places(ranks, key.first), key.second),
                            "export HDF5_USE_FILE_LOCKING=FALSE"});
}

}  // namespace

std::vector<Problem> judge(const JobFacts& job) {
    Problems problems;
    for (const auto part : {judge_launch, judge_sums, judge_libraries, judge_gpus, judge_binding,
                            judge_interfaces, judge_shared_memory, judge_clocks, judge_locking})
        part(job, problems);
    return problems;
}

}  // namespace tutti::doctor
