#pragma once
// Collective communication among the ranks of a job.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tutti/base/error.hpp"
#include "tutti/comm/work.hpp"
#include "tutti/device/buffer.hpp"
#include "tutti/device/tensor_view.hpp"

namespace tutti {

enum class ReduceOp { sum, max, min };

/// Every rank calls the same collectives in the same order on one communicator; different communicators are
/// independent. Asynchronous calls return at once; see Work for who may touch the buffer until when. One
/// thread at a time. A rank that waits longer than the time-out, or whose peer is known to have failed,
/// throws PeerError that names the call, the rank and the remedy; after that every further call throws at
/// once, and what is left to do is abort(): the buffers of pending transfers must live until then. Calls of
/// no elements finish at once. A dtype or size that a call cannot take throws UsageError on the caller.
class Communicator {
  public:
    virtual ~Communicator() = default;

    virtual int rank() const = 0;
    virtual int size() const = 0;
    /// "mpi", "single", "nccl", "gloo", "threads".
    virtual std::string backend() const = 0;
    /// How all_reduce moves data, for people: "shared memory" (all ranks on one host), "direct exchange" (up
    /// to 32 ranks, each on a host of its own, and up to 8 ranks in any case), "shared memory and direct
    /// exchange" or "… and gloo" (as many ranks on each of 2 to 32 hosts), "gloo", "MPI_Iallreduce".
    virtual std::string all_reduce_path() const { return backend(); }
    /// The same for buffers of bf16, which may go another way.
    virtual std::string bf16_path() const { return all_reduce_path(); }
    /// Whether a sum's bits are the same however a buffer is cut into calls of all_reduce.
    virtual bool sums_in_fixed_order() const { return size() <= 2; }

    /// In place. dtype f32, f64, i64 or (not with NCCL) bf16, whose elements are combined in fp32, in rank
    /// order, and rounded once, at the end. The result has the same bits on every rank. On the paths "shared
    /// memory", "direct exchange" and "gloo" each element is summed along a binary tree over the ranks: of n
    /// in a row the first 2^k, the largest such number below n, and the others, each in the same way, then
    /// the two; so its bits do not depend on how a buffer is cut into calls. On "shared memory and …" it is
    /// the sum along that tree of the hosts' sums, which are made in the same way: with 2^k ranks in a row
    /// on each host the same bits as on the other paths. Of bf16 the hosts' sums are rounded there, too.
    /// Either way buffers may be cut anywhere.
    virtual Work all_reduce(const TensorView& buffer, ReduceOp op) = 0;
    /// input: size()·n elements; output: this rank's n elements of the reduction; dtypes as all_reduce. In
    /// place when output is the rank()-th n elements of input (the others then hold no defined values); no
    /// other overlap.
    virtual Work reduce_scatter(const TensorView& input, const TensorView& output, ReduceOp op) = 0;
    /// input: n elements; output: size()·n, by rank; any dtype. In place when input is the rank()-th n
    /// elements of output; no other overlap.
    virtual Work all_gather(const TensorView& input, const TensorView& output) = 0;
    /// What a rank makes of the sums of its own block: the elements [first, first + count) of the input's
    /// hold the sums now, those of the output's are to be written. By the thread that calls the communicator,
    /// within its calls, each element once, in ascending order. It may call no communicator and must not
    /// throw.
    using UseSums = std::function<void(std::int64_t first, std::int64_t count)>;
    /// A reduce-scatter in place (sum), `use`, and an all-gather in place, with the same bits. input, output:
    /// size()·n elements of one dtype each, the dtype as all_reduce, without overlap; of the input all blocks
    /// but the own then hold no defined values.
    virtual Work reduce_then_gather(const TensorView& input, const TensorView& output, UseSums use);
    /// Whether that goes piece by piece, while sums are in a cache, and so is faster than its three parts.
    virtual bool reduces_then_gathers_by_piece() const { return false; }
    /// From rank `root` to all, in place; any dtype.
    virtual Work broadcast(const TensorView& buffer, int root) = 0;
    virtual void barrier() = 0;
    /// In pairs: `send` goes to rank `peer`, another one, and what it sends arrives in `receive`, which does
    /// not overlap `send`; the same dtype (any) and size on both. A collective all the same: every rank calls
    /// it, and this rank is its peer's peer. Memory as all_reduce takes it. UsageError where there is none.
    virtual Work exchange(const TensorView& /*send*/, const TensorView& /*receive*/, int /*peer*/) {
        throw UsageError("ranks cannot exchange in pairs through " + backend(),
                         "set distributed.backend: mpi");
    }

    /// Why transfers cannot be recorded with a device's work (WorkRecorder, device/recorder.hpp); empty where
    /// they can. A transfer that was issued while the device recorded is part of each run, must be waited for
    /// before the recording ends (the wait is recorded, too), and may only be run where all ranks run theirs.
    virtual std::string why_not_recordable() const {
        return "transfers of " + backend() + " need the host in the middle of a step";
    }
    /// Behind recorded work with such transfers: finished when the device has done all that was issued to it.
    /// Notices failed peers and the time-out, as the transfers themselves would.
    virtual Work follow_recorded() { return {}; }
    /// `release` is called when this communicator or a duplicate is given up because of a failure, before
    /// what is under way on the device is ended: it destroys recordings that have transfers, for which the
    /// end would wait. By the thread that calls the communicator. Once `release` is gone nobody is called.
    virtual void before_abort([[maybe_unused]] const std::shared_ptr<std::function<void()>>& release) {}
    /// Whether a failure has ended it, or a duplicate, so that every further call throws; where it can tell.
    virtual bool given_up() const { return false; }
    /// An error is about to leave, or is leaving, scopes that hold transfers or memory of this communicator
    /// or a duplicate: `message` and `code` are what the process ends with if those cannot be ended. The
    /// first error counts.
    virtual void will_end_with([[maybe_unused]] ExitCode code, [[maybe_unused]] const std::string& message) {}
    /// Memory of the ranks' devices that all_reduce and reduce_scatter move faster than other memory,
    /// contents arbitrary, to be freed before the communicator; empty where there is none, or not on every
    /// rank. Collective, with the same size.
    virtual Buffer allocate([[maybe_unused]] std::size_t bytes) { return {}; }

    /// By a rank that waits for its peers in a way that no call here sees (NCCL's kernels, which wait for
    /// ever for a peer of their host that has ended), `waited` seconds after it began: does what this
    /// communicator's calls do while they wait (it looks at the peers, answers who asks for silent ranks,
    /// says that it still waits after SIGTERM), and throws PeerError where they would; `call` is for the
    /// message. Not collective. As often as one likes; it waits itself only to find out who is missing, once
    /// the time-out has passed.
    virtual void watch_peers([[maybe_unused]] const std::string& call, [[maybe_unused]] double waited) {}

    /// A communicator of the same ranks whose collectives are independent of this one's. Collective.
    virtual std::unique_ptr<Communicator> duplicate() = 0;

    /// Ends the whole job at once with `code`: for errors that the peers cannot learn of otherwise. Does not
    /// return.
    [[noreturn]] virtual void abort(ExitCode code) noexcept = 0;
};

/// One rank: every call has finished when it returns.
std::unique_ptr<Communicator> make_single_communicator();

// Helpers on top of any communicator; each is one collective call (or two where lengths differ) and blocks.

/// The text of rank `root`, on every rank.
std::string broadcast_text(Communicator& communicator, const std::string& text, int root);
/// Every rank's text, by rank, on every rank.
std::vector<std::string> all_gather_text(Communicator& communicator, const std::string& text);

/// What stopped this rank, if anything.
struct Failure {
    ExitCode code = ExitCode::done;
    std::string message;
};
/// An error that every rank of the job throws at the same place: each may leave in good order, nobody waits
/// for it.
struct AgreedError : Error {
    AgreedError(ExitCode code, const std::string& message) : Error(code, message) {}
};

/// Every rank reports what happened to it; if any failed, every rank throws the same AgreedError: code and
/// message of the lowest failing rank, as "rank 1 on HOST: MESSAGE (and 2 other ranks)". Without the rank
/// when all failed with one message or there is one rank. `phase` ("opening the data") names the place when a
/// peer does not come to agree. Call it where ranks can fail separately (opening files, reading a batch).
void agree(Communicator& communicator, const Failure& mine, const std::string& phase);

/// Does `work`; an error that leaves it is told to `communicator` (will_end_with): within scopes that hold
/// what cannot be ended without lost peers.
void tell_errors(Communicator& communicator, const std::function<void()>& work);

/// Every rank does `work`; whatever any of them threw, all of them throw as one AgreedError (see agree).
void together(Communicator& communicator, const std::string& phase, const std::function<void()>& work);
/// The same where only rank 0 works.
void together_on_first_rank(Communicator& communicator, const std::string& phase,
                            const std::function<void()>& work);

}  // namespace tutti
