#pragma once
// Slices of arenas, for the optimizers.

#include "tutti/train/optimizer.hpp"

namespace tutti {

inline TensorView slice(const TensorView& arena, const DecaySegment& segment) {
    return {arena.data + static_cast<std::size_t>(segment.offset) * size_of(arena.dtype),
            arena.dtype,
            {segment.count}};
}

}  // namespace tutti
