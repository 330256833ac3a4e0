#pragma once
// How gradients travel between ranks on GPUs.

#include <functional>
#include <memory>
#include <string>

#include "tutti/base/config.hpp"
#include "tutti/comm/communicator.hpp"

namespace tutti {

/// What comes from libtutti_cuda.so: its functions of these names with tutti_cuda_ in front, and the stream
/// (cudaStream_t) on which the device computes.
struct GpuEntries {
    void* make_side_stream = nullptr;
    void* make_staging = nullptr;
    void* make_bf16_transit = nullptr;
    void* compute_stream = nullptr;
};

/// A communicator of device memory of the current device. bootstrap: of the same ranks, host memory; kept.
/// distributed.backend decides: nccl, or through pinned host memory with mpi and gloo; auto takes NCCL where
/// every rank can open it, else the host's way, and tells rank 0's `notice` why; and later, if NCCL has no
/// memory of its own for gradients (Communicator::allocate). With distributed.compress: bf16 sums of f32
/// travel as make_compressing_communicator says, with its bits; on NCCL in memory of their own, which
/// Communicator::allocate makes as large as half of what it is asked for. last_words: told on any rank, where
/// NCCL does not abort in a moment, the error that had it abort; and where it does not in 10 s, the same
/// again, and the process ends with that error's exit code (Communicator::will_end_with). Collective. Throws
/// AgreedError.
std::unique_ptr<Communicator> make_gpu_communicator(
    const DistributedConfig& config, const GpuEntries& entries, std::unique_ptr<Communicator> bootstrap,
    const std::string& host, const std::function<void(const std::string&)>& notice,
    const std::function<void(const std::string&)>& last_words);

}  // namespace tutti
