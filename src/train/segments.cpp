#include "tutti/train/segments.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tutti {
namespace {

constexpr std::size_t outputs_of_second = 4;  ///< of SegmentLoss: logit, left, right, exists

double length(const SegmentTimes& segment) {
    return segment.end - segment.begin;
}

/// What the seconds propose, in their order.
std::vector<ScoredSegment> candidates_of(std::span<const double> outputs, const SegmentsConfig& selection) {
    const auto seconds = static_cast<double>(seconds_of(outputs));
    std::vector<ScoredSegment> candidates;
    for (std::size_t t = 0; t < outputs.size() / outputs_of_second; ++t) {
        const double* const out = outputs.data() + t * outputs_of_second;
        const double probability = 1 / (1 + std::exp(-out[0]));
        if (out[3] == 0 || !(probability > selection.threshold)) continue;
        const auto time = static_cast<double>(t);
        if (!std::isfinite(out[1]) || !std::isfinite(out[2])) continue;
        candidates.push_back({{std::max(time - out[1], 0.0), std::min(time + out[2], seconds)}, probability});
    }
    const auto most = static_cast<std::size_t>(selection.candidates);
    if (candidates.size() > most) {
        std::ranges::stable_sort(candidates, std::ranges::greater(), &ScoredSegment::score);
        candidates.resize(most);
    }
    std::erase_if(candidates, [&](const ScoredSegment& segment) {
        return length(segment) < selection.shortest || length(segment) > selection.longest ||
               length(segment) <= 0;
    });
    return candidates;
}

}  // namespace

std::int64_t seconds_of(std::span<const double> outputs) {
    std::int64_t seconds = 0;
    while (static_cast<std::size_t>(seconds) < outputs.size() / outputs_of_second &&
           outputs[static_cast<std::size_t>(seconds) * outputs_of_second + 3] != 0)
        ++seconds;
    return seconds;
}

std::int64_t most_segments(const SegmentsConfig& selection, std::int64_t seconds) {
    // 1.1 a minute are 33 of half an hour, but for what rounding adds.
    const double allowed = std::ceil(selection.per_minute * static_cast<double>(seconds) / 60 - 1e-9);
    return static_cast<std::int64_t>(std::clamp(allowed, 1.0, std::max(static_cast<double>(seconds), 1.0)));
}

std::vector<ScoredSegment> decode_segments(std::span<const double> outputs, const SegmentsConfig& selection) {
    std::vector<ScoredSegment> left = candidates_of(outputs, selection), chosen;
    const auto most = static_cast<std::size_t>(most_segments(selection, seconds_of(outputs)));
    while (chosen.size() < most && !left.empty()) {
        const auto best = std::ranges::max_element(left, std::ranges::less(), &ScoredSegment::score);
        if (best->score < selection.min_score) break;
        chosen.push_back(*best);
        left.erase(best);
        for (ScoredSegment& other : left) {
            const double overlap = iou(chosen.back(), other);
            other.score *= std::exp(-overlap * overlap / selection.nms_sigma);
        }
    }
    return chosen;
}

std::vector<std::string> segment_columns(const SegmentsConfig& selection, std::int64_t seconds) {
    std::vector<std::string> names{"segments"};
    for (std::int64_t i = 0; i < most_segments(selection, seconds); ++i)
        for (const char* what : {"begin_", "end_", "score_"}) names.push_back(what + std::to_string(i));
    return names;
}
std::vector<double> values_of(std::span<const ScoredSegment> predicted, std::size_t columns) {
    std::vector<double> values{static_cast<double>(predicted.size())};
    for (const ScoredSegment& segment : predicted)
        values.insert(values.end(), {segment.begin, segment.end, segment.score});
    values.resize(columns, std::numeric_limits<double>::quiet_NaN());
    return values;
}

double iou(const SegmentTimes& a, const SegmentTimes& b) {
    const double intersection = std::min(a.end, b.end) - std::max(a.begin, b.begin);
    if (!(intersection > 0)) return 0;
    return intersection / (length(a) + length(b) - intersection);
}

std::array<double, segment_ious.size()> segment_precisions(std::span<const ScoredSegment> predicted,
                                                           std::span<const SegmentTimes> truth) {
    std::array<double, segment_ious.size()> right{};
    for (std::size_t i = 0; i < right.size(); ++i) {
        std::vector<char> matched(truth.size(), 0);
        for (const ScoredSegment& segment : predicted) {
            double best = 0;
            std::size_t which = 0;
            for (std::size_t other = 0; other < truth.size(); ++other) {
                const double overlap = matched[other] ? 0 : iou(segment, truth[other]);
                if (overlap <= best) continue;
                best = overlap;
                which = other;
            }
            if (best < segment_ious[i]) continue;
            matched[which] = 1;
            right[i] += 1 / static_cast<double>(predicted.size());
        }
    }
    return right;
}

}  // namespace tutti
