#pragma once
// Slices of arenas, for the optimizers.

#include <algorithm>
#include <span>

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

/// What an update calls at once: neighbours that are updated alike; or, where operators leave results in
/// caches, each parameter by itself: its parts then go to the threads that computed these of the gradient.
std::vector<DecaySegment> update_segments(const OptimConfig& config, const Graph& graph, const Ops& ops);

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

/// The same segment from `offset` on, `count` elements.
inline DecaySegment part_of(DecaySegment whole, std::int64_t offset, std::int64_t count) {
    whole.offset = offset;
    whole.count = count;
    return whole;
}
inline OwnedSegment part_of(OwnedSegment whole, std::int64_t offset, std::int64_t count) {
    whole.state_offset += offset - whole.offset;
    whole.offset = offset;
    whole.count = count;
    return whole;
}

/// Calls visit(segment) with what lies in the range of each segment.
template <class Segment, class Visit>
void for_parts(const std::vector<Segment>& segments, const Optimizer::Range& range, const Visit& visit) {
    for (const Segment& whole : segments) {
        const std::int64_t begin = std::max(whole.offset, range.offset);
        std::int64_t count = whole.offset + whole.count - begin;
        // Not by the end of the range, which may lie beyond all integers.
        count =
            begin - range.offset < range.count ? std::min(count, range.count - (begin - range.offset)) : 0;
        if (count > 0) visit(part_of(whole, begin, count));
    }
}

}  // namespace tutti
