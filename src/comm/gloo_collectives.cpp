#include "gloo_collectives.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "combine.hpp"
#include "gloo_exchange.hpp"

namespace tutti {
namespace {

/// A buffer goes in segments of that many bytes, so that what is received of it needs no more memory.
constexpr std::int64_t segment_bytes = 4 << 20;
/// A broadcast up to this size goes from the root to all: one round instead of two.
constexpr std::size_t whole_bytes = 8 << 10;

/// Every rank sends `outgoing(other)` of `from` to each other and receives `incoming(other)` of `to` from it.
template <class Outgoing, class Incoming>
void exchange(const GlooCall& call, const GlooGroup& group, GlooSlot slot,
              gloo::transport::UnboundBuffer& from, const Outgoing& outgoing,
              gloo::transport::UnboundBuffer& to, const Incoming& incoming) {
    GlooMessages messages(call, slot, from, to);
    post(messages, group, outgoing, incoming);
    messages.wait();
}

constexpr auto nothing = [](int) { return GlooPart{0, 0}; };

}  // namespace

GlooGroup everybody(const gloo::Context& context) {
    GlooGroup group{std::vector<int>(static_cast<std::size_t>(context.size)), context.rank};
    std::iota(group.ranks.begin(), group.ranks.end(), 0);
    return group;
}

void gloo_all_reduce(const GlooCall& call, const GlooGroup& group, const TensorView& buffer, ReduceOp op) {
    const auto element = static_cast<std::int64_t>(size_of(buffer.dtype));
    const std::int64_t longest = std::min(buffer.count(), segment_bytes / element);
    GlooSegment segment(call, group, op);
    for (std::int64_t first = 0; first < buffer.count(); first += longest) {
        segment.start(
            {buffer.data + first * element, buffer.dtype, Shape{std::min(longest, buffer.count() - first)}});
        segment.add();
        segment.finish();
    }
}

void gloo_reduce_scatter(const GlooCall& call, const GlooGroup& group, const TensorView& input,
                         const TensorView& output, ReduceOp op) {
    const std::size_t bytes = output.bytes();
    const auto block = [&](int of) { return GlooPart{static_cast<std::size_t>(of) * bytes, bytes}; };
    const std::byte* const own = input.data + block(group.own).first;
    if (output.data != own) std::memcpy(output.data, own, bytes);

    std::vector<std::byte> received(input.bytes());
    const auto from = call.context->createUnboundBuffer(input.data, input.bytes());
    const auto to = call.context->createUnboundBuffer(received.data(), received.size());
    exchange(call, group, GlooSlot::scatter, *from, block, *to, block);
    combine_received(output.data, received.data(), group.own, group.size(), output.count(), output.dtype, op);
}

void gloo_all_gather(const GlooCall& call, const GlooGroup& group, const TensorView& input,
                     const TensorView& output) {
    const std::size_t bytes = input.bytes();
    const auto block = [&](int of) { return GlooPart{static_cast<std::size_t>(of) * bytes, bytes}; };
    std::byte* const own = output.data + block(group.own).first;
    if (input.data != own) std::memcpy(own, input.data, bytes);
    const auto data = call.context->createUnboundBuffer(output.data, output.bytes());
    exchange(
        call, group, GlooSlot::gather, *data, [&](int) { return block(group.own); }, *data, block);
}

void gloo_broadcast(const GlooCall& call, const TensorView& buffer, int root) {
    const GlooGroup group = everybody(*call.context);
    const int rank = group.own;
    const auto size = static_cast<std::size_t>(group.size());
    const std::size_t bytes = buffer.bytes();
    const bool whole = size == 2 || bytes <= whole_bytes;
    const std::size_t each = (bytes + size - 1) / size;
    const auto share = [&](int of) {
        const std::size_t begin = std::min(each * static_cast<std::size_t>(of), bytes);
        return whole ? GlooPart{0, bytes} : GlooPart{begin, std::min(each, bytes - begin)};
    };
    const auto data = call.context->createUnboundBuffer(buffer.data, bytes);
    const auto of_root = [&](int source) { return source == root ? share(rank) : GlooPart{0, 0}; };
    if (rank == root)
        exchange(call, group, GlooSlot::root, *data, share, *data, nothing);
    else
        exchange(call, group, GlooSlot::root, *data, nothing, *data, of_root);
    if (whole) return;
    const auto to_others = [&](int target) { return target == root ? GlooPart{0, 0} : share(rank); };
    if (rank == root)
        exchange(call, group, GlooSlot::gather, *data, to_others, *data, nothing);
    else
        exchange(call, group, GlooSlot::gather, *data, to_others, *data, share);
}

void gloo_exchange(const GlooCall& call, const TensorView& send, const TensorView& receive, int peer) {
    const auto from = call.context->createUnboundBuffer(send.data, send.bytes());
    const auto to = call.context->createUnboundBuffer(receive.data, receive.bytes());
    const auto with_peer = [&](std::size_t bytes) {
        return [=](int other) { return GlooPart{0, other == peer ? bytes : 0}; };
    };
    exchange(call, everybody(*call.context), GlooSlot::pair, *from, with_peer(send.bytes()), *to,
             with_peer(receive.bytes()));
}

void gloo_barrier(const GlooCall& call) {
    std::byte token{};
    std::vector<std::byte> tokens(static_cast<std::size_t>(call.context->size));
    const auto from = call.context->createUnboundBuffer(&token, 1);
    const auto to = call.context->createUnboundBuffer(tokens.data(), tokens.size());
    exchange(
        call, everybody(*call.context), GlooSlot::barrier, *from,
        [](int) {
            return GlooPart{0, 1};
        },
        *to,
        [](int source) {
            return GlooPart{static_cast<std::size_t>(source), 1};
        });
}

}  // namespace tutti
