#include "tutti/comm/gpu_placement.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "tutti/base/error.hpp"

namespace tutti {
namespace {

/// "2 GPUs".
std::string counted(std::size_t count, const std::string& thing) {
    return std::to_string(count) + " " + thing + (count == 1 ? "" : "s");
}

std::size_t ranks_on(std::span<const VisibleGpus> ranks, const std::string& host) {
    return static_cast<std::size_t>(
        std::ranges::count_if(ranks, [&](const VisibleGpus& rank) { return rank.host == host; }));
}

std::size_t gpus_on(std::span<const VisibleGpus> ranks, const std::string& host) {
    std::vector<std::string> uuids;
    for (const VisibleGpus& rank : ranks)
        if (rank.host == host) uuids.insert(uuids.end(), rank.uuids.begin(), rank.uuids.end());
    std::ranges::sort(uuids);
    const auto rest = std::ranges::unique(uuids);
    return uuids.size() - rest.size();
}

[[noreturn]] void refuse_to_share(std::span<const VisibleGpus> ranks, std::size_t first, std::size_t second,
                                  const std::string& uuid) {
    const std::string& host = ranks[second].host;
    const std::size_t gpus = gpus_on(ranks, host);
    throw LaunchError(
        "rank " + std::to_string(first) + " and rank " + std::to_string(second) + " on " + host +
            " would share the GPU " + uuid + " (" + counted(ranks_on(ranks, host), "rank") + " and " +
            counted(gpus, "visible GPU") + " there), which NCCL cannot",
        "start at most " + counted(gpus, "rank") + " on this host (srun --ntasks-per-node=" +
            std::to_string(gpus) + " --gpus-per-task=1, mpirun --map-by ppr:" + std::to_string(gpus) +
            ":node), show them more GPUs, or set distributed.backend: mpi, which goes through host memory");
}

}  // namespace

std::vector<GpuPlace> assign_gpus(std::span<const VisibleGpus> ranks, GpuSharing sharing) {
    std::vector<GpuPlace> places;
    std::map<std::pair<std::string, std::vector<std::string>>, std::size_t> next;  // by host and list
    std::map<std::pair<std::string, std::string>, std::size_t> owner;              // by host and UUID
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
        const VisibleGpus& mine = ranks[rank];
        if (mine.uuids.empty())
            throw LaunchError("rank " + std::to_string(rank) + " on " + mine.host + " sees no GPU",
                              "ask the scheduler for one per rank (srun --gpus-per-task=1), look at "
                              "CUDA_VISIBLE_DEVICES, or set device: cpu");
        const std::size_t device = next[{mine.host, mine.uuids}]++ % mine.uuids.size();
        const std::string& uuid = mine.uuids[device];
        const auto [found, is_new] = owner.try_emplace({mine.host, uuid}, rank);
        if (!is_new && sharing == GpuSharing::refuse) refuse_to_share(ranks, found->second, rank, uuid);
        places.push_back({static_cast<int>(device), uuid});
    }
    return places;
}

std::vector<VisibleGpus> exchange_gpus(Communicator& communicator, const VisibleGpus& mine) {
    std::string text = mine.host;
    for (const std::string& uuid : mine.uuids) text += '\n' + uuid;
    std::vector<VisibleGpus> all;
    for (const std::string& of_rank : all_gather_text(communicator, text)) {
        std::size_t begin = of_rank.find('\n');
        VisibleGpus& one = all.emplace_back(VisibleGpus{of_rank.substr(0, begin), {}});
        while (begin != std::string::npos) {
            const std::size_t end = of_rank.find('\n', begin + 1);
            one.uuids.push_back(of_rank.substr(begin + 1, end == std::string::npos ? end : end - begin - 1));
            begin = end;
        }
    }
    return all;
}

}  // namespace tutti
