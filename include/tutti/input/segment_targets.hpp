#pragma once
// The targets of a sequence with segments (target_kinds::segments), read back.

#include <span>
#include <vector>

namespace tutti {

/// Seconds, of a sample from the beginning of the sequence.
struct SegmentTimes {
    double begin = 0, end = 0;
    friend bool operator==(const SegmentTimes&, const SegmentTimes&) = default;
};

/// The different segments that the targets [T, 2] of one sample are made of, in the order of their first
/// second. Pure.
std::vector<SegmentTimes> segments_in(std::span<const float> targets);

}  // namespace tutti
