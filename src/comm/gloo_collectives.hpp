#pragma once
// Private to comm: what gloo runs, each on all ranks at once and blocking. They throw gloo's exceptions, and
// std::runtime_error where nobody is to be waited for any more.

#include <gloo/context.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tutti/comm/communicator.hpp"

namespace tutti {

struct GlooJob;
class GlooPresence;

/// One call on all ranks: its number is the same on every rank.
struct GlooCall {
    std::shared_ptr<gloo::Context> context;
    std::uint32_t number = 0;
    double timeout = 0;                                     ///< seconds; 0: for ever
    std::shared_ptr<const std::vector<std::string>> hosts;  ///< by rank, for messages
    std::shared_ptr<GlooJob> job;
    std::shared_ptr<const std::atomic<bool>> given_up;  ///< by who waited for it
    std::shared_ptr<GlooPresence> presence;
    std::uint64_t code = 0;      ///< code_of(); where ranks have unlike ones, no message finds a receiver
    bool through_hosts = false;  ///< awaited ranks need not be the silent ones
};

/// Some ranks, each at its place in the order of their sums; `own` is this rank's place.
struct GlooGroup {
    std::vector<int> ranks;
    int own = 0;

    int size() const { return static_cast<int>(ranks.size()); }
    int rank(int place) const { return ranks[static_cast<std::size_t>(place)]; }
};
GlooGroup everybody(const gloo::Context& context);

/// By direct exchange, as ExchangeLane and with the same sums (combine_ranks): a launch that brings no MPI
/// trains to the same bits. gloo's own all-reduce adds in the order of its ring.
void gloo_all_reduce(const GlooCall& call, const GlooGroup& group, const TensorView& buffer, ReduceOp op);
/// In the same way; receives as much as the input.
void gloo_reduce_scatter(const GlooCall& call, const GlooGroup& group, const TensorView& input,
                         const TensorView& output, ReduceOp op);
/// These, too, directly between every two ranks, so that at a time-out those are named from which nothing has
/// come: in gloo's own ring or tree a rank waits for one that waits itself.
void gloo_all_gather(const GlooCall& call, const GlooGroup& group, const TensorView& input,
                     const TensorView& output);
/// Large ones as shares to all ranks, which then send them to each other: 2 of the bytes leave the root, at
/// any number of ranks (van de Geijn's).
void gloo_broadcast(const GlooCall& call, const TensorView& buffer, int root);
/// Between two ranks; the others have the same call with theirs.
void gloo_exchange(const GlooCall& call, const TensorView& send, const TensorView& receive, int peer);
void gloo_barrier(const GlooCall& call);

}  // namespace tutti
