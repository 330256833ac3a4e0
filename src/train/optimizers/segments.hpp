#pragma once
// Slices of arenas, for the optimizers.

#include <algorithm>
#include <span>

#include "tutti/train/optimizer.hpp"

namespace tutti {

inline TensorView slice(const TensorView& arena, const DecaySegment& segment) {
    return {arena.data + static_cast<std::size_t>(segment.offset) * size_of(arena.dtype),
            arena.dtype,
            {segment.count}};
}

/// Calls visit(segment) with what lies in the range of each segment.
template <class Visit>
void for_parts(std::span<const DecaySegment> segments, const Optimizer::Range& range, const Visit& visit) {
    for (const DecaySegment& whole : segments) {
        DecaySegment part = whole;
        part.offset = std::max(whole.offset, range.offset);
        const std::int64_t end = whole.offset + whole.count;
        part.count = end - part.offset;
        // Not by the end of the range, which may lie beyond all integers.
        if (part.offset - range.offset < range.count)
            part.count = std::min(part.count, range.count - (part.offset - range.offset));
        else
            part.count = 0;
        if (part.count > 0) visit(part);
    }
}

}  // namespace tutti
