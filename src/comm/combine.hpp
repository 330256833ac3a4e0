#pragma once
// The arithmetic of a reduction.

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "tutti/base/bf16.hpp"
#include "tutti/comm/communicator.hpp"

namespace tutti {

/// out[i] = a[i] op b[i] for `count` elements of f32, f64 or i64. out may be a or b, but not overlap them
/// otherwise. Throws std::logic_error for other types.
void combine(std::byte* out, const std::byte* a, const std::byte* b, std::int64_t count, DType dtype,
             ReduceOp op);

/// Combines what ranks have along a binary tree: of n ranks in a row the first 2^k, the largest such number
/// below n, and the others, each in the same way, then the two results. So 2^k ranks that begin at a multiple
/// of 2^k are combined in the same way wherever they are, and their result may come from elsewhere: the sums
/// of hosts with as many ranks, for one (TwoLevelLane).
class CombinedPairs {
  public:
    static constexpr std::int64_t block = 256;  ///< elements at once, in the first-level cache

    CombinedPairs(DType dtype, ReduceOp op) : dtype_(dtype), op_(op) {}

    /// of(rank): `count` elements, up to block. out may be any of them.
    template <class Of>
    void combine_all(std::byte* out, const Of& of, int ranks, std::int64_t count) {
        combine_into(out, of, 0, ranks, count, 0);
    }

  private:
    static constexpr std::size_t most_levels = 16;  // 65536 ranks
    static constexpr std::size_t room_bytes = static_cast<std::size_t>(block) * 8;

    template <class Of>
    const std::byte* combine_into(std::byte* out, const Of& of, int first, int ranks, std::int64_t count,
                                  std::size_t level) {
        if (ranks == 1) return of(first);
        const int half = static_cast<int>(std::bit_floor(static_cast<unsigned>(ranks - 1)));
        const std::byte* const left = combine_into(room(2 * level), of, first, half, count, level + 1);
        const std::byte* const right =
            combine_into(room(2 * level + 1), of, first + half, ranks - half, count, level + 1);
        combine(out, left, right, count, dtype_, op_);
        return out;
    }
    std::byte* room(std::size_t number) { return rooms_.data() + number * room_bytes; }

    DType dtype_;
    ReduceOp op_;
    alignas(64) std::array<std::byte, 2 * most_levels * room_bytes> rooms_;  // two for each level
};

/// out = ((x₀ op x₁) op x₂) op … of `count` elements of bf16, where of(rank) is x of that rank: in fp32, and
/// rounded once, at the end. out may be any of them, but not overlap them otherwise.
template <class Of>
void combine_bf16(std::byte* out, const Of& of, int ranks, std::int64_t count, ReduceOp op) {
    constexpr std::int64_t block = 512;  // in the first-level cache meanwhile
    std::array<float, block> sum, next;
    const auto elements = [](auto* bytes, std::int64_t first, std::int64_t n) {
        return std::span(reinterpret_cast<const std::uint16_t*>(bytes) + first, static_cast<std::size_t>(n));
    };
    for (std::int64_t first = 0; first < count; first += block) {
        const std::int64_t n = std::min(block, count - first);
        widen_bf16(elements(of(0), first, n), sum.data());
        for (int rank = 1; rank < ranks; ++rank) {
            widen_bf16(elements(of(rank), first, n), next.data());
            combine(reinterpret_cast<std::byte*>(sum.data()), reinterpret_cast<const std::byte*>(sum.data()),
                    reinterpret_cast<const std::byte*>(next.data()), n, DType::f32, op);
        }
        round_to_bf16(std::span(sum).first(static_cast<std::size_t>(n)),
                      reinterpret_cast<std::uint16_t*>(out) + first);
    }
}

/// The same for any type that Communicator reduces, of two ranks or more; f32, f64 and i64 along a binary
/// tree over the ranks (CombinedPairs). May throw as combine does.
template <class Of>
void combine_ranks(std::byte* out, const Of& of, int ranks, std::int64_t count, DType dtype, ReduceOp op) {
    if (dtype == DType::bf16) return combine_bf16(out, of, ranks, count, op);
    if (ranks == 2) return combine(out, of(0), of(1), count, dtype, op);
    CombinedPairs pairs(dtype, op);
    const std::size_t element = size_of(dtype);
    for (std::int64_t first = 0; first < count; first += CombinedPairs::block) {
        const std::size_t offset = static_cast<std::size_t>(first) * element;
        pairs.combine_all(
            out + offset, [&](int rank) { return static_cast<const std::byte*>(of(rank)) + offset; }, ranks,
            std::min(CombinedPairs::block, count - first));
    }
}

/// own, of rank `rank`, becomes what combine_ranks makes of all, where x of another rank is the rank-th
/// `count` elements of `received` (those at place `rank` are not read).
void combine_received(std::byte* own, const std::byte* received, int rank, int ranks, std::int64_t count,
                      DType dtype, ReduceOp op);

}  // namespace tutti
