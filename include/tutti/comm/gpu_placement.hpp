#pragma once
// Which GPU belongs to which rank. Nothing here calls CUDA.

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "tutti/comm/communicator.hpp"

namespace tutti {

/// What a rank may use: the UUIDs of the GPUs that CUDA shows to its process, in CUDA's order. The UUID, and
/// not the number, tells one GPU from another: with one visible GPU per task each task calls its own 0.
struct VisibleGpus {
    std::string host;
    std::vector<std::string> uuids;
};

/// "GPU-0f1e2d3c-…", as nvidia-smi and CUDA_VISIBLE_DEVICES write it, of the 16 bytes that CUDA gives.
inline std::string gpu_uuid_text(const std::array<std::byte, 16>& bytes) {
    constexpr const char* digits = "0123456789abcdef";
    std::string text = "GPU-";
    for (std::size_t i = 0; i < bytes.size(); ++i) {
        if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
        const auto value = std::to_integer<unsigned>(bytes[i]);
        text += digits[value >> 4];
        text += digits[value & 15];
    }
    return text;
}

struct GpuPlace {
    int device = 0;    ///< for cudaSetDevice: a place in the rank's own list
    std::string uuid;  ///< of that GPU
    friend bool operator==(const GpuPlace&, const GpuPlace&) = default;
};

enum class GpuSharing { refuse, allow };

/// By rank. Ranks of a host that see the same GPUs take them in turn: so it works whether a launcher shows
/// all GPUs to every task, one to each, or a part. Two ranks on one GPU are refused unless `sharing` allows
/// it (host-staged communication; NCCL cannot). Pure. Throws LaunchError that names the ranks, the host, the
/// GPU and the remedy: a rank without a GPU, a GPU with two ranks.
std::vector<GpuPlace> assign_gpus(std::span<const VisibleGpus> ranks, GpuSharing sharing);

/// Every rank's, by rank. Collective.
std::vector<VisibleGpus> exchange_gpus(Communicator& communicator, const VisibleGpus& mine);

}  // namespace tutti
