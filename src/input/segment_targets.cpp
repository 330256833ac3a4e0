#include "tutti/input/segment_targets.hpp"

#include <algorithm>
#include <cmath>

namespace tutti {

std::vector<SegmentTimes> segments_in(std::span<const float> targets) {
    // Seconds of one segment say its ends with the errors of fp32.
    constexpr double same = 1e-2;
    std::vector<SegmentTimes> segments;
    for (std::size_t t = 0; t < targets.size() / 2; ++t) {
        if (targets[2 * t] < 0) continue;
        const auto time = static_cast<double>(t);
        const SegmentTimes segment{time - static_cast<double>(targets[2 * t]),
                                   time + static_cast<double>(targets[2 * t + 1])};
        const bool known = std::ranges::any_of(segments, [&](const SegmentTimes& other) {
            return std::abs(other.begin - segment.begin) < same && std::abs(other.end - segment.end) < same;
        });
        if (!known) segments.push_back(segment);
    }
    return segments;
}

}  // namespace tutti
