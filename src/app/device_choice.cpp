#include "device_choice.hpp"

#include <algorithm>

#include "tutti/base/error.hpp"

namespace tutti {
namespace {

/// "rank 1 on node7: PROBLEM (and 2 other ranks)"; without the rank where there is only one, or all say the
/// same.
std::string lacking(std::span<const GpuOffer> by_rank) {
    const auto lacks = [](const GpuOffer& offer) { return !offer.problem.empty(); };
    const auto first = std::find_if(by_rank.begin(), by_rank.end(), lacks);
    const auto count = std::count_if(by_rank.begin(), by_rank.end(), lacks);
    const bool alike = std::all_of(by_rank.begin(), by_rank.end(),
                                   [&](const GpuOffer& offer) { return offer.problem == first->problem; });
    if (alike) return first->problem;
    std::string text =
        "rank " + std::to_string(first - by_rank.begin()) + " on " + first->host + ": " + first->problem;
    if (count > 1) text += " (and " + std::to_string(count - 1) + " other rank" + (count > 2 ? "s)" : ")");
    return text;
}

}  // namespace

bool asks_for_gpus(DeviceChoice choice, Precision precision) {
    return choice != DeviceChoice::cpu && precision != Precision::fp64;
}

DeviceDecision decide_device(DeviceChoice choice, Precision precision, std::span<const GpuOffer> by_rank) {
    if (choice == DeviceChoice::cpu) return {};
    if (precision == Precision::fp64) {
        if (choice == DeviceChoice::cuda)
            throw UsageError("device is cuda, but train.precision is fp64, which the CPU alone computes",
                             "set train.precision to fp32, tf32 or bf16, or device: cpu");
        return {false, "device: auto takes the CPU, as train.precision is fp64"};
    }
    const bool all = std::all_of(by_rank.begin(), by_rank.end(),
                                 [](const GpuOffer& offer) { return offer.problem.empty(); });
    if (all) return {true, ""};
    if (choice == DeviceChoice::cuda)
        throw UsageError("device is cuda, but there is not a GPU for every rank: " + lacking(by_rank),
                         "set device: auto or cpu, or ask for nodes with GPUs (--gres=gpu:N)");
    return {false, "device: auto takes the CPU: " + lacking(by_rank)};
}

GpuSharing sharing_of(Backend backend, bool nccl_shares) {
    const bool through_host = backend == Backend::mpi || backend == Backend::gloo;
    return through_host || (backend == Backend::nccl && nccl_shares) ? GpuSharing::allow : GpuSharing::refuse;
}

GpuSharing sharing_under(const Environment& environment, Backend backend) {
    const auto nccl_shares = environment.find("NCCL_MULTI_RANK_GPU_ENABLE");
    return sharing_of(backend, nccl_shares != environment.end() && nccl_shares->second == "1");
}

void check_backend(Backend backend, bool cuda) {
    if (backend == Backend::nccl && !cuda)
        throw UsageError("distributed.backend is nccl, which joins GPUs, but this run computes on the CPU",
                         "set distributed.backend: auto, or device: cuda");
}

}  // namespace tutti
