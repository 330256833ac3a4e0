#pragma once
// The arithmetic of a reduction.

#include <algorithm>
#include <array>
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

/// own, of rank `rank`, becomes ((x₀ op x₁) op x₂) op …, where x of another rank is the rank-th `count`
/// elements of `received` (those at place `rank` are not read). Overwrites `received`. Any type that
/// Communicator reduces; bf16 as combine_bf16 does.
void combine_in_rank_order(std::byte* own, std::byte* received, int rank, int ranks, std::int64_t count,
                           DType dtype, ReduceOp op);

}  // namespace tutti
