#include "tutti/input/target_summary.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <span>

#include "tutti/input/segment_targets.hpp"

namespace tutti {
namespace {

TargetSummary summarize(std::span<const float> targets, std::size_t first, std::size_t stride) {
    const double count = static_cast<double>(targets.size() / stride);
    double minimum = targets[first], maximum = targets[first], sum = 0, squares = 0;
    for (std::size_t i = first; i < targets.size(); i += stride) {
        minimum = std::min<double>(minimum, targets[i]);
        maximum = std::max<double>(maximum, targets[i]);
        sum += targets[i];
    }
    const double mean = sum / count;
    for (std::size_t i = first; i < targets.size(); i += stride)
        squares += (targets[i] - mean) * (targets[i] - mean);
    return {minimum, mean, maximum, std::sqrt(squares / count)};
}

}  // namespace

std::vector<TargetSummary> summarize_targets(const Dataset& dataset) {
    constexpr double none = std::numeric_limits<double>::quiet_NaN();
    const std::span<const float> targets = dataset.targets();
    const auto count = static_cast<std::size_t>(dataset.info().targets);
    if (targets.empty()) return std::vector<TargetSummary>(count, {none, none, none, none});
    std::vector<TargetSummary> all;
    for (std::size_t target = 0; target < count; ++target) all.push_back(summarize(targets, target, count));
    return all;
}

SegmentSummary summarize_segments(const Dataset& dataset) {
    SegmentSummary summary;
    const std::span<const float> targets = dataset.targets();
    const auto count = static_cast<std::size_t>(dataset.info().targets);
    double sum = 0;
    for (std::size_t sample = 0; count > 0 && sample < targets.size(); sample += count) {
        const std::span<const float> own = targets.subspan(sample, count);
        for (std::size_t i = 0; i < count; i += 2) ++(own[i] < 0 ? summary.others : summary.inside);
        const std::vector<SegmentTimes> segments = segments_in(own);
        for (const SegmentTimes& segment : segments) {
            const double length = segment.end - segment.begin;
            summary.shortest = summary.segments == 0 ? length : std::min(summary.shortest, length);
            summary.longest = std::max(summary.longest, length);
            sum += length;
            ++summary.segments;
        }
        if (!segments.empty()) ++summary.samples;
    }
    if (summary.segments > 0) summary.mean = sum / static_cast<double>(summary.segments);
    return summary;
}

}  // namespace tutti
