#include "nccl_api.hpp"
#include "tutti/base/error.hpp"
#include "waiting.hpp"

namespace tutti {

void throw_nccl_error(const std::string& call, NcclResult result, const std::string& text) {
    const std::string problem =
        call + " failed: " + text + " (code " + std::to_string(static_cast<int>(result)) + ")";
    switch (result) {
        case NcclResult::system_error:
            throw PeerError(problem,
                            "look for the first error of another rank, then at the network: NCCL_DEBUG=INFO "
                            "shows which interface NCCL uses, NCCL_SOCKET_IFNAME chooses one");
        case NcclResult::remote_error:
            throw PeerError(problem, "look for the first error of another rank");
        case NcclResult::unhandled_cuda_error:
            throw RunError(
                problem,
                "NCCL_DEBUG=INFO shows the CUDA call; nvidia-smi shows whether the GPU is well and "
                "has memory left");
        case NcclResult::invalid_usage:
            throw UsageError(
                problem,
                "NCCL_DEBUG=WARN says why; it wants one GPU per rank and the same version on all "
                "hosts; distributed.backend: mpi goes without NCCL");
        case NcclResult::success:
        case NcclResult::in_progress:
        case NcclResult::internal_error:
        case NcclResult::invalid_argument:
            break;
    }
    throw RunError(problem, "this should not happen: please report it with the output of NCCL_DEBUG=INFO");
}

}  // namespace tutti
