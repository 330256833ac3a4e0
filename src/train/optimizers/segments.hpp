#pragma once
// Slices of arenas, for the optimizers.

#include "tutti/train/optimizer.hpp"

namespace tutti {

inline TensorView slice(const TensorView& arena, const DecaySegment& segment) {
    return slice(arena, ArenaRange{segment.offset, segment.count});
}

/// A part of a segment that is owned, and where its state lies.
struct OwnedSegment : DecaySegment {
    std::int64_t state_offset = 0;

    TensorView state(const TensorView& arena) const { return slice(arena, ArenaRange{state_offset, count}); }
};

/// What `segments` (ascending) and the owned ranges have in common.
std::vector<OwnedSegment> owned_segments(const std::vector<DecaySegment>& segments, const OwnedRanges& owned);

/// The owned ranges, where empty means all.
OwnedRanges ranges_of(const Graph& graph, const OwnedRanges& owned);

/// A state of what is owned.
class OwnedState {
  public:
    OwnedState(const Graph& graph, Device& device, const OwnedRanges& owned, const std::string& purpose);
    const TensorView& arena() const { return arena_; }

  private:
    Buffer memory_;
    TensorView arena_;
};

}  // namespace tutti
