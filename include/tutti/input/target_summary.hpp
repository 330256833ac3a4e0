#pragma once
// What the targets of a data set are like: for inspection.

#include <cstdint>
#include <vector>

#include "tutti/input/dataset.hpp"

namespace tutti {

/// Of one target over all samples; the standard deviation divides by their number. NaN without samples.
struct TargetSummary {
    double minimum, mean, maximum, standard_deviation;
};

/// For each of info().targets, in order. In double, in two passes.
std::vector<TargetSummary> summarize_targets(const Dataset& dataset);

/// Of the targets of all samples of a data set whose targets are segments (segments_in()).
struct SegmentSummary {
    std::int64_t samples = 0;                    ///< that have a segment
    std::int64_t segments = 0;                   ///< in these
    double shortest = 0, mean = 0, longest = 0;  ///< of the segments, in seconds; 0 where there is none
    std::int64_t inside = 0, others = 0;         ///< seconds in a segment; in none, or padding
};
SegmentSummary summarize_segments(const Dataset& dataset);

}  // namespace tutti
