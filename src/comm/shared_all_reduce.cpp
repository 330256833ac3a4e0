#include "shared_all_reduce.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <limits>

#include "combine.hpp"

namespace tutti {
namespace {

/// Elements that are added and copied on at a time: they stay in the first-level cache meanwhile.
constexpr std::int64_t block = 1024;

}  // namespace

std::size_t SharedAllReduce::region_bytes(int ranks, const Sizes& sizes) {
    return static_cast<std::size_t>(ranks) * (sizeof(Counters) + sizes.slots * sizes.chunk);
}

SharedAllReduce::SharedAllReduce(std::byte* region, int rank, int ranks, const Sizes& sizes)
    : counters_(reinterpret_cast<Counters*>(region)),
      slots_(region + static_cast<std::size_t>(ranks) * sizeof(Counters)),
      rank_(rank),
      ranks_(ranks),
      sizes_(sizes) {
    static_assert(std::atomic<std::uint64_t>::is_always_lock_free);
    assert(sizes.chunk % 64 == 0 && sizes.chunk > 0 && sizes.slots > 0);
}

std::uint64_t SharedAllReduce::issue(const TensorView& buffer, ReduceOp op) {
    assert(buffer.count() > 0);
    requests_.push_back({buffer.data, buffer.count(), buffer.dtype, op});
    return first_request_ + requests_.size() - 1;
}

void SharedAllReduce::progress() {
    // Staging first, by one chunk a round: while the peers are not as far, the next chunk can be prepared.
    for (bool moved = true; moved && !stopped_ && !idle();) {
        moved = try_stage();
        moved |= try_reduce();
        moved |= try_collect();
    }
}

SharedAllReduce::Chunk SharedAllReduce::at(const Cursor& cursor) const {
    const Request& request = requests_[cursor.request - first_request_];
    const std::size_t element_bytes = size_of(request.dtype);
    const auto count =
        std::min(request.count - cursor.element, static_cast<std::int64_t>(sizes_.chunk / element_bytes));
    const auto bytes = static_cast<std::size_t>(count) * element_bytes;
    return {request.data + static_cast<std::size_t>(cursor.element) * element_bytes,
            count,
            element_bytes,
            request.dtype,
            request.op,
            bytes * static_cast<std::size_t>(ranks_) <= sizes_.whole};
}

void SharedAllReduce::advance(Cursor& cursor, std::int64_t count) const {
    ++cursor.chunk;
    cursor.element += count;
    if (cursor.element < requests_[cursor.request - first_request_].count) return;
    cursor.element = 0;
    ++cursor.request;
}

std::pair<std::int64_t, std::int64_t> SharedAllReduce::share(const Chunk& chunk, int rank) const {
    // Whole cache lines, so that two ranks never write to one.
    const auto line = static_cast<std::int64_t>(64 / chunk.element_bytes);
    const std::int64_t lines = (chunk.count + line - 1) / line;
    const std::int64_t each = (lines + ranks_ - 1) / ranks_ * line;
    return {std::min(each * rank, chunk.count), std::min(each * (rank + 1), chunk.count)};
}

std::byte* SharedAllReduce::slot(int rank, std::uint64_t chunk) const {
    return slots_ + (static_cast<std::size_t>(rank) * sizes_.slots + chunk % sizes_.slots) * sizes_.chunk;
}

bool SharedAllReduce::everybody_reached(std::uint64_t count, std::atomic<std::uint64_t> Counters::*counter,
                                        std::uint64_t& known) const {
    if (known >= count) return true;
    std::uint64_t least = std::numeric_limits<std::uint64_t>::max();
    for (int rank = 0; rank < ranks_; ++rank) {
        if (rank == rank_) continue;
        least = std::min(least, (counters_[rank].*counter).load(std::memory_order_acquire));
        if (least < count) return false;
    }
    known = least;
    return true;
}

bool SharedAllReduce::try_stage() {
    if (stage_.request == first_request_ + requests_.size()) return false;
    // The slot is free once all have collected the chunk that was in it before: this rank by its own cursor,
    // and whoever has collected a chunk has also read what it reduced.
    if (stage_.chunk >= sizes_.slots) {
        const std::uint64_t needed = stage_.chunk - sizes_.slots + 1;
        if (collect_.chunk < needed || !everybody_reached(needed, &Counters::collected, all_collected_))
            return false;
    }
    const Chunk chunk = at(stage_);
    std::byte* const to = slot(rank_, stage_.chunk);
    const auto copy = [&](std::int64_t first, std::int64_t end) {
        const auto begin = static_cast<std::size_t>(first) * chunk.element_bytes;
        if (end > first)
            std::memcpy(to + begin, chunk.data + begin,
                        static_cast<std::size_t>(end - first) * chunk.element_bytes);
    };
    if (chunk.whole) {
        copy(0, chunk.count);
    } else {
        const auto [first, end] = share(chunk, rank_);
        copy(0, first);
        copy(end, chunk.count);
    }
    advance(stage_, chunk.count);
    counters_[rank_].staged.store(stage_.chunk, std::memory_order_release);
    return true;
}

/// Elements [first, first + count) of the chunk, from every rank, in rank order.
void SharedAllReduce::reduce_block(const Chunk& chunk, std::uint64_t number, std::int64_t first,
                                   std::int64_t count, std::byte* out) const {
    const auto begin = static_cast<std::size_t>(first) * chunk.element_bytes;
    const auto of = [&](int rank) { return (rank == rank_ ? chunk.data : slot(rank, number)) + begin; };
    combine(out, of(0), of(1), count, chunk.dtype, chunk.op);
    for (int rank = 2; rank < ranks_; ++rank) combine(out, out, of(rank), count, chunk.dtype, chunk.op);
}

bool SharedAllReduce::try_reduce() {
    if (reduce_.chunk >= stage_.chunk ||
        !everybody_reached(reduce_.chunk + 1, &Counters::staged, all_staged_))
        return false;
    const Chunk chunk = at(reduce_);
    const auto [begin, end] =
        chunk.whole ? std::pair<std::int64_t, std::int64_t>{0, chunk.count} : share(chunk, rank_);
    // A whole chunk's sum must not go where the peers still read: through a block of this rank's own.
    alignas(64) std::byte scratch[block * 8];
    std::byte* const mine = slot(rank_, reduce_.chunk);
    for (std::int64_t first = begin; first < end; first += block) {
        const std::int64_t count = std::min(block, end - first);
        const auto offset = static_cast<std::size_t>(first) * chunk.element_bytes;
        std::byte* const out = chunk.whole ? scratch : mine + offset;
        reduce_block(chunk, reduce_.chunk, first, count, out);
        std::memcpy(chunk.data + offset, out, static_cast<std::size_t>(count) * chunk.element_bytes);
    }
    advance(reduce_, chunk.count);
    counters_[rank_].reduced.store(reduce_.chunk, std::memory_order_release);
    return true;
}

bool SharedAllReduce::try_collect() {
    if (collect_.chunk >= reduce_.chunk) return false;
    const Chunk chunk = at(collect_);
    if (!chunk.whole) {
        if (!everybody_reached(collect_.chunk + 1, &Counters::reduced, all_reduced_)) return false;
        for (int other = 1; other < ranks_; ++other) {
            const int rank = (rank_ + other) % ranks_;  // not all at one rank's slot at once
            const auto [first, end] = share(chunk, rank);
            const auto begin = static_cast<std::size_t>(first) * chunk.element_bytes;
            if (end > first)
                std::memcpy(chunk.data + begin, slot(rank, collect_.chunk) + begin,
                            static_cast<std::size_t>(end - first) * chunk.element_bytes);
        }
    }
    advance(collect_, chunk.count);
    counters_[rank_].collected.store(collect_.chunk, std::memory_order_release);
    while (first_request_ < collect_.request) {
        requests_.pop_front();
        ++first_request_;
    }
    return true;
}

}  // namespace tutti
