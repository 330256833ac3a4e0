#pragma once
// From what the config wants and what the ranks have to the kind of device that all of them take.

#include <span>
#include <string>

#include "tutti/base/config.hpp"
#include "tutti/comm/gpu_placement.hpp"
#include "tutti/comm/launch.hpp"

namespace tutti {

/// What one rank found.
struct GpuOffer {
    std::string host;
    std::string problem;  ///< why it cannot compute on a GPU, for people; empty when it can
};

struct DeviceDecision {
    bool cuda = false;
    std::string notice;  ///< why `auto` takes the CPU, one line; else empty
};

/// Whether a decision needs offers at all: a run on the CPU does not look for GPUs.
bool asks_for_gpus(DeviceChoice choice, Precision precision);

/// All ranks compute on the same kind: GPUs when every rank has one. Pure. Throws UsageError where the config
/// demands a GPU and a rank (named, with its reason) has none, or the precision is the CPU's.
DeviceDecision decide_device(DeviceChoice choice, Precision precision, std::span<const GpuOffer> by_rank);

/// Several ranks may share a GPU where gradients go through host memory, and where NCCL was told to
/// (`nccl_shares`: NCCL_MULTI_RANK_GPU_ENABLE=1). Pure.
GpuSharing sharing_of(Backend backend, bool nccl_shares);
/// The same, as the rank's environment tells it.
GpuSharing sharing_under(const Environment& environment, Backend backend);

/// Throws UsageError where gradients cannot go the way that the config wants, as they are on the CPU.
void check_backend(Backend backend, bool cuda);

}  // namespace tutti
