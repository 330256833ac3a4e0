#pragma once
// Which segments of a sequence a model predicts, decoded from its outputs (device/segment_loss.hpp), and how
// right they are.

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tutti/base/config.hpp"
#include "tutti/device/segment_loss.hpp"
#include "tutti/input/segment_targets.hpp"

namespace tutti {

/// What a model of segments learns, and how segments are decoded from its outputs.
struct SegmentTask {
    SegmentLoss loss;
    SegmentsConfig selection;
};

/// The targets of a second.
inline constexpr std::int64_t segment_targets = 2;

/// Seconds from the beginning of the sequence.
struct ScoredSegment : SegmentTimes {
    double score = 0;  ///< what is left of its second's probability when others were chosen before it
    friend bool operator==(const ScoredSegment&, const ScoredSegment&) = default;
};

/// How many seconds exist. outputs: [T, 4] of one sample. Pure.
std::int64_t seconds_of(std::span<const double> outputs);

/// At most so many segments are predicted of a sequence of so many seconds; 1 at least. Pure.
std::int64_t most_segments(const SegmentsConfig& selection, std::int64_t seconds);

/// The segments that the outputs [T, 4] of one sample predict, the best first: of the seconds t whose
/// probability is above `threshold`, the `candidates` most probable of them, [t − l, t + r], cut to the
/// seconds that exist, if it is neither shorter than `shortest` nor longer than `longest`. Then by soft-NMS
/// (Bodla et al. 2017, "Soft-NMS: Improving Object Detection With One Line of Code", its Gaussian form): the
/// one with the highest score is chosen, of equal ones the earlier second's, and multiplies the scores of the
/// others by exp(−IoU²/nms_sigma); those below min_score are left out; at most most_segments(). Outputs that
/// are not numbers predict nothing. Pure.
std::vector<ScoredSegment> decode_segments(std::span<const double> outputs, const SegmentsConfig& selection);

/// What predictions hold of a sequence of at most so many seconds: how many segments are predicted, and of
/// each begin, end and score, the best first; NaN where there are fewer: "segments", "begin_0", "end_0",
/// "score_0", "begin_1", … Pure.
std::vector<std::string> segment_columns(const SegmentsConfig& selection, std::int64_t seconds);
std::vector<double> values_of(std::span<const ScoredSegment> predicted, std::size_t columns);

/// Intersection over union, 0 where both are empty. Pure.
double iou(const SegmentTimes& a, const SegmentTimes& b);

/// From which IoU on a segment counts as right, one after the other.
inline constexpr std::array<double, 5> segment_ious{0.5, 0.6, 0.7, 0.8, 0.9};

/// For each of segment_ious: the fraction of the predicted segments that are right, 0 where none is. In the
/// order of `predicted` each matches the true one, not yet matched, with which its IoU is the greatest, where
/// that is not below. Pure.
std::array<double, segment_ious.size()> segment_precisions(std::span<const ScoredSegment> predicted,
                                                           std::span<const SegmentTimes> truth);

}  // namespace tutti
