#pragma once
// Private to comm: what is used of NCCL, without its header, so that tests can put a NCCL of their own behind
// it.

#include <array>
#include <cstddef>
#include <memory>
#include <string>

#include "tutti/comm/communicator.hpp"

namespace tutti {

/// ncclResult_t (nccl.h of 2.28), by value.
enum class NcclResult : int {
    success = 0,
    unhandled_cuda_error = 1,
    system_error = 2,
    internal_error = 3,
    invalid_argument = 4,
    invalid_usage = 5,
    remote_error = 6,
    in_progress = 7
};

using NcclComm = void*;    ///< ncclComm_t
using NcclWindow = void*;  ///< ncclWindow_t
using GpuStream = void*;   ///< cudaStream_t
using NcclUniqueId = std::array<std::byte, 128>;

/// NCCL's calls of one process. The communicators are non-blocking: every call on one may return in_progress,
/// and nothing else may be called on it until async_error says another result (NCCL User Guide, "Fault
/// Tolerance").
class NcclApi {
  public:
    virtual ~NcclApi() = default;

    virtual std::string version() const = 0;
    virtual NcclResult unique_id(NcclUniqueId& id) = 0;
    /// On the current device; `communicator` is there at once.
    virtual NcclResult init_rank(NcclComm& communicator, int ranks, const NcclUniqueId& id, int rank) = 0;
    virtual NcclResult async_error(NcclComm communicator, NcclResult& state) = 0;
    virtual NcclResult finalize(NcclComm communicator) = 0;
    /// Frees a communicator that is finalized.
    virtual NcclResult destroy(NcclComm communicator) = 0;
    /// Ends what is under way, and frees the communicator.
    virtual NcclResult abort(NcclComm communicator) = 0;
    /// "ncclRemoteError: remote process exited or there was a network error", with what NCCL wrote last.
    virtual std::string error_text(NcclResult result, NcclComm communicator) = 0;

    // Collectives on a stream; counts in elements of one rank, as NCCL counts.
    virtual NcclResult all_reduce(const TensorView& buffer, ReduceOp op, NcclComm communicator,
                                  GpuStream stream) = 0;
    virtual NcclResult reduce_scatter(const TensorView& input, const TensorView& output, ReduceOp op,
                                      NcclComm communicator, GpuStream stream) = 0;
    virtual NcclResult all_gather(const TensorView& input, const TensorView& output, NcclComm communicator,
                                  GpuStream stream) = 0;
    virtual NcclResult broadcast(const TensorView& buffer, int root, NcclComm communicator,
                                 GpuStream stream) = 0;
    /// Block r of input goes to rank r, block r of output comes from rank r: sends and receives in a group.
    virtual NcclResult all_to_all(const TensorView& input, const TensorView& output, int ranks,
                                  NcclComm communicator, GpuStream stream) = 0;
    /// With one peer, which calls it, too: a send and a receive in a group.
    virtual NcclResult exchange(const TensorView& send, const TensorView& receive, int peer,
                                NcclComm communicator, GpuStream stream) = 0;

    /// Memory that can become a window: ncclMemAlloc.
    virtual NcclResult allocate(std::byte*& memory, std::size_t bytes) = 0;
    virtual NcclResult release(std::byte* memory) = 0;
    /// Collective: the memory that the ranks give, at the same offsets, may be used by symmetric kernels.
    /// `window` stays null where this NCCL or these GPUs have none; it must live on and is written until the
    /// communicator is no longer in progress.
    virtual NcclResult register_window(NcclComm communicator, std::byte* memory, std::size_t bytes,
                                       NcclWindow& window) = 0;
    virtual NcclResult deregister_window(NcclComm communicator, NcclWindow window) = 0;
};

/// The installed libnccl.so.2. Throws RunError that says why there is none: the library is missing or too
/// old, or this program was built without NCCL's header.
std::unique_ptr<NcclApi> open_nccl();

/// Throws the error that a result other than success and in_progress means: PeerError where a peer or the
/// network failed (system_error, remote_error), UsageError for invalid_usage, else RunError. `call` says
/// what, on which rank and host.
[[noreturn]] void throw_nccl_error(const std::string& call, NcclResult result, const std::string& text);

}  // namespace tutti
