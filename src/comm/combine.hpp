#pragma once
// The arithmetic of a reduction.

#include <cstddef>
#include <cstdint>

#include "tutti/comm/communicator.hpp"

namespace tutti {

/// out[i] = a[i] op b[i] for `count` elements of f32, f64 or i64. out may be a or b, but not overlap them
/// otherwise.
void combine(std::byte* out, const std::byte* a, const std::byte* b, std::int64_t count, DType dtype,
             ReduceOp op);

/// own, of rank `rank`, becomes ((x₀ op x₁) op x₂) op …, where x of another rank is the rank-th `count`
/// elements of `received` (those at place `rank` are not read). Overwrites `received`.
void combine_in_rank_order(std::byte* own, std::byte* received, int rank, int ranks, std::int64_t count,
                           DType dtype, ReduceOp op);

}  // namespace tutti
