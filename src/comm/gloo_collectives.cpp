#include "gloo_collectives.hpp"

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
constexpr std::uint8_t root_prefix = 0x43;
constexpr std::uint8_t barrier_prefix = 0x44;

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
    std::vector<int> awaited, taking;
    for (int other = 1; other < size; ++other) {  // not all to one rank at once
        const int source = (rank + size - other) % size, target = (rank + other) % size;
        if (const Part part = incoming(source); part.bytes > 0) {
            to.recv(source, slot, part.first, part.bytes);
            awaited.push_back(source);
        }
        if (const Part part = outgoing(target); part.bytes > 0) {
            from.send(target, slot, part.first, part.bytes);
            taking.push_back(target);
        }
    }
    while (!awaited.empty()) {
        int source = -1;
        try {
            to.waitRecv(&source, call.timeout);
        } catch (const std::exception& error) {
            std::sort(awaited.begin(), awaited.end());
            throw std::runtime_error(gloo_words(error) + ": " + describe_silence(awaited, *call.hosts));
        }
        if (std::erase(awaited, source) == 0) awaited.pop_back();
    }
    while (!taking.empty()) {
        int target = -1;
        try {
            from.waitSend(&target, call.timeout);
        } catch (const std::exception& error) {
            throw std::runtime_error(gloo_words(error) + ": " + name_of_rank(taking.front(), *call.hosts) +
                                     " takes nothing");
        }
        if (std::erase(taking, target) == 0) taking.pop_back();
    }
}

constexpr auto nothing = [](int) { return Part{0, 0}; };

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
        combine_received(buffer.data + in_buffer(rank).first, received.data(), rank, size, mine, buffer.dtype,
                         op);
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
    combine_received(output.data, received.data(), rank, size, output.count(), output.dtype, op);
}

void gloo_all_gather(const GlooCall& call, const TensorView& input, const TensorView& output) {
    const std::size_t bytes = input.bytes();
    const auto block = [&](int of) { return Part{static_cast<std::size_t>(of) * bytes, bytes}; };
    std::byte* const own = output.data + block(call.context->rank).first;
    if (input.data != own) std::memcpy(own, input.data, bytes);
    const auto data = call.context->createUnboundBuffer(output.data, output.bytes());
    exchange(
        call, gather_prefix, *data, [&](int) { return block(call.context->rank); }, *data, block);
}

void gloo_broadcast(const GlooCall& call, const TensorView& buffer, int root) {
    const int rank = call.context->rank;
    const auto size = static_cast<std::size_t>(call.context->size);
    const std::size_t bytes = buffer.bytes();
    const bool whole = size == 2 || bytes <= static_cast<std::size_t>(whole_bytes);
    const std::size_t each = (bytes + size - 1) / size;
    const auto share = [&](int of) {
        const std::size_t begin = std::min(each * static_cast<std::size_t>(of), bytes);
        return whole ? Part{0, bytes} : Part{begin, std::min(each, bytes - begin)};
    };
    const auto data = call.context->createUnboundBuffer(buffer.data, bytes);
    const auto of_root = [&](int source) { return source == root ? share(rank) : Part{0, 0}; };
    if (rank == root)
        exchange(call, root_prefix, *data, share, *data, nothing);
    else
        exchange(call, root_prefix, *data, nothing, *data, of_root);
    if (whole) return;
    const auto to_others = [&](int target) { return target == root ? Part{0, 0} : share(rank); };
    if (rank == root)
        exchange(call, gather_prefix, *data, to_others, *data, nothing);
    else
        exchange(call, gather_prefix, *data, to_others, *data, share);
}

void gloo_exchange(const GlooCall& call, const TensorView& send, const TensorView& receive, int peer) {
    const auto from = call.context->createUnboundBuffer(send.data, send.bytes());
    const auto to = call.context->createUnboundBuffer(receive.data, receive.bytes());
    const auto with_peer = [&](std::size_t bytes) {
        return [=](int other) { return Part{0, other == peer ? bytes : 0}; };
    };
    exchange(call, pair_prefix, *from, with_peer(send.bytes()), *to, with_peer(receive.bytes()));
}

void gloo_barrier(const GlooCall& call) {
    std::byte token{};
    std::vector<std::byte> tokens(static_cast<std::size_t>(call.context->size));
    const auto from = call.context->createUnboundBuffer(&token, 1);
    const auto to = call.context->createUnboundBuffer(tokens.data(), tokens.size());
    exchange(
        call, barrier_prefix, *from,
        [](int) {
            return Part{0, 1};
        },
        *to,
        [](int source) {
            return Part{static_cast<std::size_t>(source), 1};
        });
}

}  // namespace tutti
