#include "shared_all_reduce.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>
#include <limits>

#include "checks.hpp"
#include "combine.hpp"

namespace tutti {
namespace {

/// Elements that are added and copied on at a time: they stay in the first-level cache meanwhile.
constexpr std::int64_t block = 1024;
/// Elements that are added and used at a time: each use is a call of some cost; in the second-level cache.
constexpr std::int64_t used_block = 16384;

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
    assert(sizes.chunk % 64 == 0 && sizes.chunk >= static_cast<std::size_t>(ranks) * 8 && sizes.slots > 0 &&
           sizes.slots <= most_slots);
    static_assert(sizeof(Counters) == 3 * 64);
}

std::uint64_t SharedAllReduce::issue(const TensorView& buffer, ReduceOp op) {
    return add({Kind::all_reduce, buffer.data, buffer.data, buffer.count(), buffer.dtype, op});
}

std::uint64_t SharedAllReduce::issue_reduce_scatter(const TensorView& input, const TensorView& output,
                                                    ReduceOp op) {
    return add({Kind::reduce_scatter, input.data, output.data, output.count(), input.dtype, op});
}

std::optional<std::uint64_t> SharedAllReduce::issue_all_gather(const TensorView& input,
                                                               const TensorView& output) {
    return add({Kind::all_gather, input.data, output.data, input.count(), input.dtype, ReduceOp::sum});
}

std::optional<std::uint64_t> SharedAllReduce::issue_reduce_then_gather(const TensorView& input,
                                                                       const TensorView& output,
                                                                       const Communicator::UseSums& use) {
    return add({Kind::reduce_then_gather, input.data, output.data, input.count() / ranks_, input.dtype,
                ReduceOp::sum, use});
}

std::uint64_t SharedAllReduce::add(const Request& request) {
    assert(request.count > 0);
    requests_.push_back(request);
    return first_request_ + requests_.size() - 1;
}

void SharedAllReduce::work_off() {
    if (in_progress_) return;
    in_progress_ = true;
    try {
        move_on();
    } catch (...) {
        in_progress_ = false;
        throw;
    }
    in_progress_ = false;
}

void SharedAllReduce::move_on() {
    // Staging first, by one chunk a round: while the peers are not as far, the next chunk can be prepared.
    for (bool moved = true; moved && !stopped_ && !idle();) {
        moved = try_stage();
        moved |= try_reduce();
        moved |= try_collect();
    }
}

std::uint64_t SharedAllReduce::token(const Request& request) {
    // Zero is no request's.
    return static_cast<std::uint64_t>(request.count) << 8 | static_cast<std::uint64_t>(request.op) << 6 |
           static_cast<std::uint64_t>(request.dtype) << 2 | static_cast<std::uint64_t>(request.kind);
}

std::string SharedAllReduce::describe(std::uint64_t token) {
    constexpr std::array kinds{"all_reduce", "reduce_scatter", "all_gather", "reduce_then_gather"};
    constexpr std::array operations{"sum", "max", "min"};
    const auto kind = static_cast<Kind>(token & 3);
    std::string text = tutti::describe(kinds[token & 3], static_cast<std::int64_t>(token >> 8),
                                       static_cast<DType>(token >> 2 & 15));
    if (kind != Kind::all_reduce) text += " a rank";
    return text + " (" + operations[token >> 6 & 3] + ")";
}

void SharedAllReduce::require_same_request() const {
    const std::uint64_t mine = token(requests_[reduce_.request - first_request_]);
    for (int rank = 0; rank < ranks_; ++rank) {
        const std::uint64_t theirs =
            counters_[rank].requests[reduce_.chunk % sizes_.slots].load(std::memory_order_relaxed);
        if (theirs == mine) continue;
        throw PeerError("rank " + std::to_string(rank_) + " issued " + describe(mine) + " where rank " +
                            std::to_string(rank) + " issued " + describe(theirs) + " through shared memory",
                        "the ranks run different programs or configurations, or this is an error of the "
                        "program: report it with the configuration");
    }
}

SharedAllReduce::Chunk SharedAllReduce::at(const Cursor& cursor) const {
    const Request& request = requests_[cursor.request - first_request_];
    Chunk chunk{request.kind,           request.input, request.output, 0,    0,
                size_of(request.dtype), request.dtype, request.op,     false};
    auto most = static_cast<std::int64_t>(sizes_.chunk / chunk.element_bytes);
    if (request.kind == Kind::reduce_scatter) most = std::max<std::int64_t>(most / ranks_, 1);
    if (request.kind == Kind::reduce_then_gather) {
        most = std::max<std::int64_t>(most / ranks_, 1);
        // Whole cache lines, where there is more than one.
        const auto line = static_cast<std::int64_t>(64 / chunk.element_bytes);
        if (most > line) most -= most % line;
    }
    if (request.kind != Kind::all_reduce) chunk.stride = request.count;
    chunk.count = std::min(request.count - cursor.element, most);
    chunk.input += chunk.bytes(cursor.element);
    chunk.output += chunk.bytes(cursor.element);
    chunk.whole = request.kind == Kind::all_reduce &&
                  chunk.bytes(chunk.count) * static_cast<std::size_t>(ranks_) <= sizes_.whole;
    return chunk;
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

std::vector<int> SharedAllReduce::awaited() const {
    std::vector<int> ranks;
    if (idle()) return ranks;
    const auto behind = [&](std::uint64_t count, std::atomic<std::uint64_t> Counters::*counter) {
        for (int rank = 0; rank < ranks_; ++rank)
            if (rank != rank_ && (counters_[rank].*counter).load(std::memory_order_acquire) < count)
                ranks.push_back(rank);
        return !ranks.empty();
    };
    const std::uint64_t next = collect_.chunk + 1;
    if (behind(next, &Counters::staged) || behind(next, &Counters::reduced)) return ranks;
    // The slot for the next chunk is not free.
    if (next > sizes_.slots) behind(next - sizes_.slots, &Counters::collected);
    return ranks;
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
    stage(chunk, slot(rank_, stage_.chunk));
    counters_[rank_].requests[stage_.chunk % sizes_.slots].store(
        token(requests_[stage_.request - first_request_]), std::memory_order_relaxed);
    advance(stage_, chunk.count);
    counters_[rank_].staged.store(stage_.chunk, std::memory_order_release);
    return true;
}

void SharedAllReduce::stage(const Chunk& chunk, std::byte* to) const {
    const auto copy = [&](std::int64_t first, std::int64_t end) {
        if (end > first)
            std::memcpy(to + chunk.bytes(first), chunk.input + chunk.bytes(first), chunk.bytes(end - first));
    };
    if (chunk.kind == Kind::reduce_scatter || chunk.kind == Kind::reduce_then_gather) {
        for (int rank = 0; rank < ranks_; ++rank)
            if (rank != rank_)
                std::memcpy(to + chunk.bytes(chunk.count * rank),
                            chunk.input + chunk.bytes(chunk.stride * rank), chunk.bytes(chunk.count));
    } else if (chunk.kind == Kind::all_gather || chunk.whole) {
        copy(0, chunk.count);
    } else {
        const auto [first, end] = share(chunk, rank_);
        copy(0, first);
        copy(end, chunk.count);
    }
}

/// Elements [first, first + count) of what the peers staged and of the own values, in the order of
/// combine_ranks.
template <class Own>
void SharedAllReduce::reduce_run(const Chunk& chunk, std::uint64_t number, std::int64_t first,
                                 std::int64_t count, std::byte* out, const Own& own) const {
    const auto of = [&](int rank) -> const std::byte* {
        return rank == rank_ ? own(first) : slot(rank, number) + chunk.bytes(first);
    };
    combine_ranks(out, of, ranks_, count, chunk.dtype, chunk.op);
}

bool SharedAllReduce::try_reduce() {
    if (reduce_.chunk >= stage_.chunk ||
        !everybody_reached(reduce_.chunk + 1, &Counters::staged, all_staged_))
        return false;
    // As long as requests are the same, so are the chunks that they are cut into.
    if (reduce_.element == 0) require_same_request();
    const Chunk chunk = at(reduce_);
    if (chunk.kind == Kind::all_reduce) reduce(chunk, reduce_.chunk);
    if (chunk.kind == Kind::reduce_scatter) reduce_to_block(chunk, reduce_.chunk);
    if (chunk.kind == Kind::reduce_then_gather) reduce_and_use(chunk, reduce_);
    advance(reduce_, chunk.count);
    counters_[rank_].reduced.store(reduce_.chunk, std::memory_order_release);
    return true;
}

void SharedAllReduce::reduce(const Chunk& chunk, std::uint64_t number) {
    const auto [begin, end] =
        chunk.whole ? std::pair<std::int64_t, std::int64_t>{0, chunk.count} : share(chunk, rank_);
    const auto own = [&](std::int64_t element) { return chunk.input + chunk.bytes(element); };
    // A whole chunk's sum must not go where the peers still read: through a block of this rank's own.
    alignas(64) std::byte scratch[block * 8];
    std::byte* const mine = slot(rank_, number);
    for (std::int64_t first = begin; first < end; first += block) {
        const std::int64_t count = std::min(block, end - first);
        std::byte* const out = chunk.whole ? scratch : mine + chunk.bytes(first);
        reduce_run(chunk, number, first, count, out, own);
        std::memcpy(chunk.output + chunk.bytes(first), out, chunk.bytes(count));
    }
}

void SharedAllReduce::reduce_to_block(const Chunk& chunk, std::uint64_t number) const {
    // The output may be the own part of the input, which is needed when its turn in the order comes.
    alignas(64) std::byte scratch[block * 8];
    const std::int64_t begin = chunk.count * rank_;
    const std::byte* const block_begin = chunk.input + chunk.bytes(chunk.stride * rank_);
    const auto own = [&](std::int64_t element) { return block_begin + chunk.bytes(element - begin); };
    for (std::int64_t done = 0; done < chunk.count; done += block) {
        const std::int64_t count = std::min(block, chunk.count - done);
        reduce_run(chunk, number, begin + done, count, scratch, own);
        std::memcpy(chunk.output + chunk.bytes(done), scratch, chunk.bytes(count));
    }
}

void SharedAllReduce::reduce_and_use(const Chunk& chunk, const Cursor& place) const {
    const Communicator::UseSums& use = requests_[place.request - first_request_].use;
    const std::int64_t begin = chunk.count * rank_;
    std::byte* const sums = piece(chunk, chunk.input, rank_);
    const std::byte* const made = piece(chunk, chunk.output, rank_);
    std::byte* const mine = slot(rank_, place.chunk) + chunk.bytes(begin);
    const auto own = [&](std::int64_t element) { return sums + chunk.bytes(element - begin); };
    alignas(64) std::byte scratch[used_block * 8];
    for (std::int64_t done = 0; done < chunk.count; done += used_block) {
        const std::int64_t count = std::min(used_block, chunk.count - done);
        std::byte* const to = sums + chunk.bytes(done);
        // The own values are needed until their turn comes: with more than two ranks not at first.
        std::byte* const sum = ranks_ == 2 ? to : scratch;
        reduce_run(chunk, place.chunk, begin + done, count, sum, own);
        if (sum != to) std::memcpy(to, sum, chunk.bytes(count));
        use(place.element + done, count);
        std::memcpy(mine + chunk.bytes(done), made + chunk.bytes(done), chunk.bytes(count));
    }
}

bool SharedAllReduce::try_collect() {
    if (collect_.chunk >= reduce_.chunk) return false;
    const Chunk chunk = at(collect_);
    if (chunk.kind == Kind::all_reduce && !chunk.whole) {
        if (!everybody_reached(collect_.chunk + 1, &Counters::reduced, all_reduced_)) return false;
        collect_shares(chunk, collect_.chunk);
    }
    if (chunk.kind == Kind::reduce_then_gather) {
        if (!everybody_reached(collect_.chunk + 1, &Counters::reduced, all_reduced_)) return false;
        collect_used(chunk, collect_.chunk);
    }
    // What is gathered is there once all have staged it, and the own "reduction" has seen that.
    if (chunk.kind == Kind::all_gather) collect_blocks(chunk, collect_.chunk);
    advance(collect_, chunk.count);
    counters_[rank_].collected.store(collect_.chunk, std::memory_order_release);
    while (first_request_ < collect_.request) {
        requests_.pop_front();
        ++first_request_;
    }
    return true;
}

void SharedAllReduce::collect_shares(const Chunk& chunk, std::uint64_t number) const {
    for (int other = 1; other < ranks_; ++other) {
        const int rank = (rank_ + other) % ranks_;  // not all at one rank's slot at once
        const auto [first, end] = share(chunk, rank);
        if (end > first)
            std::memcpy(chunk.output + chunk.bytes(first), slot(rank, number) + chunk.bytes(first),
                        chunk.bytes(end - first));
    }
}

void SharedAllReduce::collect_blocks(const Chunk& chunk, std::uint64_t number) const {
    const auto block_of = [&](int rank) { return chunk.output + chunk.bytes(chunk.stride * rank); };
    if (block_of(rank_) != chunk.input) std::memcpy(block_of(rank_), chunk.input, chunk.bytes(chunk.count));
    for (int other = 1; other < ranks_; ++other) {
        const int rank = (rank_ + other) % ranks_;
        std::memcpy(block_of(rank), slot(rank, number), chunk.bytes(chunk.count));
    }
}

void SharedAllReduce::collect_used(const Chunk& chunk, std::uint64_t number) const {
    for (int other = 1; other < ranks_; ++other) {
        const int rank = (rank_ + other) % ranks_;
        std::memcpy(piece(chunk, chunk.output, rank), slot(rank, number) + chunk.bytes(chunk.count * rank),
                    chunk.bytes(chunk.count));
    }
}

}  // namespace tutti
