#include "judgement.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "report.hpp"

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

/// Of an error's text, which has its remedy behind it, and then, maybe, how many ranks say the same (agree).
Problem problem_of_error(const std::string& name, std::string text, const std::string& fix_without) {
    std::string others;
    if (const auto begin = text.rfind(" (and "); begin != std::string::npos && text.ends_with(')')) {
        others = text.substr(begin);
        text.erase(begin);
    }
    const auto end = text.find("; ");
    return {name, text.substr(0, end) + others,
            end == std::string::npos ? fix_without : text.substr(end + 2)};
}

void judge_launch(const JobFacts& job, Problems& problems) {
    if (job.launch_mismatch.empty()) return;
    problems.push_back(problem_of_error("singletons", job.launch_mismatch, "check the launch command"));
}

void judge_gpus(const JobFacts& job, Problems& problems) {
    bool shared = false;
    for (const auto& [key, ranks] : group(job, [](const RankFacts& one) { return one.gpu_uuid; })) {
        if (ranks.size() < 2) continue;
        shared = true;
        problems.push_back({"several-ranks-on-one-gpu",
                            fmt::format("{} share one GPU ({})", places(ranks, key.first), key.second),
                            "start one rank per GPU: srun --gpus-per-task=1, or mpirun -np with the number "
                            "of GPUs; do not set CUDA_VISIBLE_DEVICES to one GPU for all ranks"});
    }
    // Which GPUs the ranks share is said better above, where the driver tells it.
    if (!job.gpus.refusal.empty() && !shared)
        problems.push_back(problem_of_error("gpus-not-taken", job.gpus.refusal, "look at nvidia-smi"));
    const bool any =
        std::ranges::any_of(job.ranks, [](const RankFacts& one) { return !one.gpu_uuid.empty(); });
    if (!job.gpus.why_cpu.empty() && (any || job.gpus.able_ranks > 0))
        problems.push_back(
            {"gpus-not-used", "there are GPUs, but " + job.gpus.why_cpu,
             "give every rank a GPU and the same software; where the CPU is meant, set device: cpu, and "
             "CUDA_VISIBLE_DEVICES= for this command"});
}

void judge_sums(const AllReduceFacts& sums, const std::string& memory, const std::string& fix,
                Problems& problems) {
    if (sums.largest_error > sums.allowed_error || std::isnan(sums.largest_error))
        problems.push_back(
            {"wrong-sums",
             fmt::format("all-reduce of ten random floats{} is off by {:.3g}, rounding explains {:.3g}",
                         memory, sums.largest_error, sums.allowed_error),
             fix});
    if (sums.wrong > 0)
        problems.push_back({"wrong-sums",
                            fmt::format("all-reduce of {} MB{} gave {} wrong elements",
                                        sums.bytes / 1'000'000, memory, sums.wrong),
                            fix});
}

void judge_host_sums(const JobFacts& job, Problems& problems) {
    judge_sums(job.all_reduce, "",
               "do not train on this network: try another distributed.backend, and another network interface",
               problems);
}

void judge_gpu_sums(const JobFacts& job, Problems& problems) {
    const GpuFacts& gpus = job.gpus;
    if (gpus.all_reduce)
        judge_sums(
            *gpus.all_reduce, " of the GPUs' memory (" + gpus.all_reduce->path + ")",
            "do not train on these GPUs: compare with distributed.backend: mpi, and have them examined "
            "(dcgmi diag)",
            problems);
    if (!gpus.why_no_nccl.empty())
        problems.push_back(problem_of_error("no-nccl", gpus.why_no_nccl,
                                            "install NCCL (libnccl.so.2) on every host, or load its module"));
    if (gpus.failure.empty()) return;
    Problem problem = problem_of_error("gpus-do-not-add", gpus.failure, "nvidia-smi shows the GPUs' state");
    problem.what = "the GPUs' memory was not summed: " + problem.what;
    if (gpus.failure.find("nccl") != std::string::npos)
        problem.fix +=
            "; NCCL_SOCKET_IFNAME names NCCL's network interface, and distributed.backend: mpi goes through "
            "host memory";
    problems.push_back(std::move(problem));
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

/// The fewest cores of each host to which more ranks are confined than there are.
void judge_cores(const JobFacts& job, Problems& problems) {
    std::map<std::string, std::map<std::vector<int>, std::vector<int>>> hosts;
    for (const RankFacts& one : job.ranks) hosts[one.host][one.cores];
    for (auto& [host, ranks_within] : hosts) {
        for (const RankFacts& one : job.ranks)
            for (auto& [cores, ranks] : ranks_within)
                if (one.host == host && std::ranges::includes(cores, one.cores)) ranks.push_back(one.rank);
        const std::pair<const std::vector<int>, std::vector<int>>* crowded = nullptr;
        for (const auto& set : ranks_within)
            if (set.second.size() > set.first.size() &&
                (!crowded || set.first.size() < crowded->first.size()))
                crowded = &set;
        if (!crowded) continue;
        const auto& [cores, ranks] = *crowded;
        problems.push_back(
            {"more-ranks-than-cores",
             fmt::format("{} share {} {} ({})", places(ranks, host), cores.size(),
                         cores.size() == 1 ? "core" : "cores", ranges(cores)),
             "give each rank a core of its own: srun --cpus-per-task=N --cpu-bind=cores, mpirun "
             "--map-by socket:PE=N, or fewer ranks"});
    }
}

/// Ranks that mpirun has bound to at most half of the cores that it might have given them. Where the launch
/// says how many threads it wants, it wants no more cores.
void hint_at_idle_cores(const JobFacts& job, Problems& hints) {
    std::map<std::string, std::vector<const RankFacts*>> hosts;
    for (const RankFacts& one : job.ranks) hosts[one.host].push_back(&one);
    for (const auto& [host, ranks] : hosts) {
        const std::vector<int>& all = ranks.front()->launcher_cores;
        const bool certain = std::ranges::all_of(ranks, [&](const RankFacts* one) {
            return one->wanted_threads == 0 && one->launcher_cores == all &&
                   std::ranges::includes(all, one->cores) && !one->cores.empty();
        });
        std::set<int> bound;
        for (const RankFacts* one : ranks) bound.insert(one->cores.begin(), one->cores.end());
        if (!certain || 2 * bound.size() > all.size()) continue;
        hints.push_back(
            {"cores-left-idle",
             fmt::format("{}: {} bound to {} of {} cores", host,
                         ranks.size() == 1 ? "1 rank is" : fmt::format("{} ranks are", ranks.size()),
                         bound.size(), all.size()),
             "mpirun binds one or two ranks to a core each: --bind-to none, or --map-by socket:PE=N for N "
             "cores each"});
    }
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
    for (const auto part :
         {judge_launch, judge_host_sums, judge_gpu_sums, judge_libraries, judge_gpus, judge_binding,
          judge_cores, judge_interfaces, judge_shared_memory, judge_clocks, judge_locking})
        part(job, problems);
    return problems;
}

std::vector<Problem> hints(const JobFacts& job) {
    Problems hints;
    hint_at_idle_cores(job, hints);
    return hints;
}

}  // namespace tutti::doctor
