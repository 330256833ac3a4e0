#pragma once
// Private to comm: what gloo runs, each on all ranks at once and blocking. They throw gloo's exceptions.

#include <gloo/context.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tutti/comm/communicator.hpp"

namespace tutti {

/// One call on all ranks: its number is the same on every rank.
struct GlooCall {
    std::shared_ptr<gloo::Context> context;
    std::uint32_t number = 0;
    std::chrono::milliseconds timeout{};
    std::shared_ptr<const std::vector<std::string>> hosts;  ///< by rank, for messages
};

/// By direct exchange, as ExchangeLane and with the same sums, ((x₀ + x₁) + x₂) + … by rank: a launch that
/// brings no MPI trains to the same bits. gloo's own all-reduce adds in the order of its ring.
void gloo_all_reduce(const GlooCall& call, const TensorView& buffer, ReduceOp op);
/// In the same way; receives as much as the input.
void gloo_reduce_scatter(const GlooCall& call, const TensorView& input, const TensorView& output,
                         ReduceOp op);
/// These, too, directly between every two ranks, so that at a time-out those are named from which nothing has
/// come: in gloo's own ring or tree a rank waits for one that waits itself.
void gloo_all_gather(const GlooCall& call, const TensorView& input, const TensorView& output);
/// Large ones as shares to all ranks, which then send them to each other: 2 of the bytes leave the root, at
/// any number of ranks (van de Geijn's).
void gloo_broadcast(const GlooCall& call, const TensorView& buffer, int root);
/// Between two ranks; the others have the same call with theirs.
void gloo_exchange(const GlooCall& call, const TensorView& send, const TensorView& receive, int peer);
void gloo_barrier(const GlooCall& call);

}  // namespace tutti
