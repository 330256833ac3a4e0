#pragma once
// Private to comm: collectives of device memory through NCCL.

#include <functional>
#include <memory>
#include <string>

#include "gpu_side_stream.hpp"
#include "nccl_api.hpp"
#include "tutti/device/bf16_transit.hpp"

namespace tutti {

struct NcclSettings {
    double timeout = 1800;  ///< seconds without an answer; 0: for ever
    std::string host;       ///< of this rank, for messages
    /// Seconds from any beginning; tests bring their own.
    std::function<double()> now;
    /// Told, on rank 0, why Communicator::allocate gave nothing; may be empty.
    std::function<void(const std::string&)> notice{};
    /// Seconds that NCCL may take to abort.
    double abort_patience = 10;
    /// Seconds that an error which nobody knows yet may then take until it is told (will_end_with).
    double word_patience = 10;
    /// Told the error that had NCCL aborted, as soon as that takes longer than a moment: whoever waits for
    /// the error's own way out may be ended by a launcher first. May be empty.
    std::function<void(const std::string&)> say{};
    /// Ends the process with this message and code, for a NCCL that does not abort: whoever freed device
    /// memory would wait for its kernels for ever. Tests return.
    std::function<void(const std::string&, ExitCode)> leave{};
    /// Where sums of f32 shall travel as bf16 (NcclBf16Sums); null: as they are. Communicator::allocate then
    /// makes memory for that, and gives none.
    std::shared_ptr<Bf16Transit> transit{};
};

/// One rank per GPU, on the current device. Rank 0 makes the unique id, `bootstrap` (host memory: MPI or the
/// rendezvous; kept) brings it to the others. Collective; throws AgreedError when it fails on any rank. Every
/// collective goes to the side stream behind what the computing stream was given until then; Work::wait()
/// returns when it is done; meanwhile it polls NCCL for errors and has `bootstrap` watch the peers, since a
/// kernel that waits for a GPU of its host never learns that its rank has ended. A failure or time-out aborts
/// the NCCL communicator and its duplicates, so that no kernel of them waits any longer, and names rank, host
/// and call. What was recorded with their transfers is released first (before_abort), because NCCL's abort
/// waits for the graphs that hold its kernels (NCCL User Guide, "Using NCCL with CUDA Graphs"); within a
/// recording the abort is left to the end of the communicator. allocate() gives memory of ncclMemAlloc,
/// registered as a window, on which NCCL runs its symmetric kernels (NCCL User Guide, "Window Registration").
std::unique_ptr<Communicator> make_nccl_communicator(std::shared_ptr<NcclApi> api,
                                                     std::shared_ptr<GpuSideStream> stream,
                                                     std::shared_ptr<Communicator> bootstrap,
                                                     const NcclSettings& settings);

}  // namespace tutti
