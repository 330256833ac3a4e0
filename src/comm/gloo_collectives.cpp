#include "gloo_collectives.hpp"

#include <gloo/allgather.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/types.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <stdexcept>
#include <utility>
#include <vector>

#include "combine.hpp"
#include "gloo_context.hpp"
#include "waiting.hpp"

namespace tutti {
namespace {

// Next to the prefixes of gloo's own collectives (gloo/types.h).
constexpr std::uint8_t gather_prefix = 0x40;
constexpr std::uint8_t scatter_prefix = 0x41;
constexpr std::uint8_t pair_prefix = 0x42;

/// A buffer goes in segments of that many bytes, so that what is received of it needs no more memory.
constexpr std::int64_t segment_bytes = 4 << 20;
/// Segments up to this size are sent whole: one round instead of two. With many ranks that would be too much.
constexpr std::int64_t whole_bytes = 8 << 10;
constexpr int most_ranks_for_whole = 8;

struct Part {
    std::size_t first, bytes;
};

/// Every rank sends `outgoing(other)` of `from` to each other and receives `incoming(other)` of `to` from it.
template <class Outgoing, class Incoming>
void exchange(const GlooCall& call, std::uint8_t prefix, gloo::transport::UnboundBuffer& from,
              const Outgoing& outgoing, gloo::transport::UnboundBuffer& to, const Incoming& incoming) {
    const int rank = call.context->rank;
    const int size = call.context->size;
    const auto slot = gloo::Slot::build(prefix, call.number);
    int sends = 0;
    std::vector<int> awaited;
    for (int other = 1; other < size; ++other) {  // not all to one rank at once
        const int source = (rank + size - other) % size, target = (rank + other) % size;
        if (const Part part = incoming(source); part.bytes > 0) {
            to.recv(source, slot, part.first, part.bytes);
            awaited.push_back(source);
        }
        if (const Part part = outgoing(target); part.bytes > 0) {
            from.send(target, slot, part.first, part.bytes);
            ++sends;
        }
    }
    while (!awaited.empty()) {
        int source = -1;
        try {
            to.waitRecv(&source, call.timeout);
        } catch (const std::exception& error) {
            std::sort(awaited.begin(), awaited.end());
            throw std::runtime_error(gloo_words(error) + ": " + describe_silence(awaited, {}));
        }
        if (std::erase(awaited, source) == 0) awaited.pop_back();
    }
    for (; sends > 0; --sends) from.waitSend(call.timeout);
}

}  // namespace

void gloo_all_reduce(const GlooCall& call, const TensorView& buffer, ReduceOp op) {
    const int rank = call.context->rank;
    const int size = call.context->size;
    const auto element = static_cast<std::int64_t>(size_of(buffer.dtype));
    const auto data = call.context->createUnboundBuffer(buffer.data, buffer.bytes());
    const std::int64_t longest = std::min(buffer.count(), segment_bytes / element);
    std::vector<std::byte> received;
    for (std::int64_t first = 0; first < buffer.count(); first += longest) {
        const std::int64_t count = std::min(longest, buffer.count() - first);
        const bool whole = size == 2 || (count * element <= whole_bytes && size <= most_ranks_for_whole);
        const std::int64_t each = (count + size - 1) / size;
        const auto share = [&](int of) {  // elements from the segment's first
            const std::int64_t begin = whole ? 0 : std::min(each * of, count);
            return std::pair(begin, whole ? count : std::min(each, count - begin));
        };
        const auto in_buffer = [&](int of) {
            const auto [begin, elements] = share(of);
            return Part{static_cast<std::size_t>((first + begin) * element),
                        static_cast<std::size_t>(elements * element)};
        };
        const auto [begin, mine] = share(rank);
        const auto bytes = static_cast<std::size_t>(mine * element);
        received.resize(std::max<std::size_t>(1, bytes * static_cast<std::size_t>(size)));
        const auto others = call.context->createUnboundBuffer(received.data(), received.size());
        const auto received_of = [&](int of) { return Part{bytes * static_cast<std::size_t>(of), bytes}; };
        exchange(call, scatter_prefix, *data, in_buffer, *others, received_of);
        combine_in_rank_order(buffer.data + in_buffer(rank).first, received.data(), rank, size, mine,
                              buffer.dtype, op);
        if (!whole)
            exchange(
                call, gather_prefix, *data, [&](int) { return in_buffer(rank); }, *data, in_buffer);
    }
}

void gloo_reduce_scatter(const GlooCall& call, const TensorView& input, const TensorView& output,
                         ReduceOp op) {
    const int rank = call.context->rank;
    const int size = call.context->size;
    const std::size_t bytes = output.bytes();
    const auto block = [&](int of) { return Part{static_cast<std::size_t>(of) * bytes, bytes}; };
    const std::byte* const own = input.data + block(rank).first;
    if (output.data != own) std::memcpy(output.data, own, bytes);

    std::vector<std::byte> received(input.bytes());
    const auto from = call.context->createUnboundBuffer(input.data, input.bytes());
    const auto to = call.context->createUnboundBuffer(received.data(), received.size());
    exchange(call, scatter_prefix, *from, block, *to, block);
    combine_in_rank_order(output.data, received.data(), rank, size, output.count(), output.dtype, op);
}

void gloo_all_gather(const GlooCall& call, const TensorView& input, const TensorView& output) {
    const std::size_t bytes = input.bytes();
    std::byte* const own = output.data + static_cast<std::size_t>(call.context->rank) * bytes;
    if (input.data != own) std::memcpy(own, input.data, bytes);
    gloo::AllgatherOptions options(call.context);
    options.setOutput(reinterpret_cast<std::uint8_t*>(output.data), output.bytes());
    options.setTag(call.number);
    options.setTimeout(call.timeout);
    gloo::allgather(options);
}

void gloo_broadcast(const GlooCall& call, const TensorView& buffer, int root) {
    gloo::BroadcastOptions options(call.context);
    options.setOutput(reinterpret_cast<std::uint8_t*>(buffer.data), buffer.bytes());
    options.setRoot(root);
    options.setTag(call.number);
    options.setTimeout(call.timeout);
    gloo::broadcast(options);
}

void gloo_exchange(const GlooCall& call, const TensorView& send, const TensorView& receive, int peer) {
    const auto from = call.context->createUnboundBuffer(send.data, send.bytes());
    const auto to = call.context->createUnboundBuffer(receive.data, receive.bytes());
    const auto slot = gloo::Slot::build(pair_prefix, call.number);
    to->recv(peer, slot, 0, receive.bytes());
    from->send(peer, slot, 0, send.bytes());
    to->waitRecv(call.timeout);
    from->waitSend(call.timeout);
}

void gloo_barrier(const GlooCall& call) {
    gloo::BarrierOptions options(call.context);
    options.setTag(call.number);
    options.setTimeout(call.timeout);
    gloo::barrier(options);
}

}  // namespace tutti
