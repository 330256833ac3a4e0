#pragma once
// Lists of parts of videos and of the segments that were chosen in them.

#include <cstdint>
#include <string>
#include <vector>

#include "tutti/input/dataset.hpp"
#include "tutti/input/segment_targets.hpp"

namespace tutti {

/// A part of a video: the seconds first … last − 1.
struct VideoPart {
    std::string id;
    std::int64_t first = 0, last = 0;
    std::vector<SegmentTimes> segments;  ///< from the beginning of the video
    std::string place;                   ///< for messages: "train.json: entry 3 (ID)"
};

/// Whether a segment of the part has a share in the second from `second` to `second` + 1.
bool is_chosen(const VideoPart& part, std::int64_t second);

/// What a model is to say of a part's seconds.
struct SegmentTargets {
    /// [length, 2], of second part.first + t how many seconds before it its segment begins, and behind it
    /// ends; (−1, −1) where it is in none, and behind the part. A second is in a segment where its beginning
    /// is: begin ≤ second < end. Of several it is in the shortest one, of these in the first.
    std::vector<float> offsets;
    std::int64_t missed = 0;  ///< segments in which no second of the part begins
};

/// Of the seconds part.first … last − 1, to which segments are cut. last − part.first ≤ length.
SegmentTargets segment_targets(const VideoPart& part, std::int64_t last, std::int64_t length);

/// The list of objects of a JSON file, as the Repurpose-10K data set has it (Y. Wu et al., "Video Repurposing
/// from User Generated Content", AAAI 2025): youtube_id, timeRange [begin, end], of which whole seconds are
/// taken (both rounded down), and segments [[begin, end], …], which are not looked at where they are
/// optional. Other keys are left alone. Throws DataError naming the file and the entry, from 1.
std::vector<VideoPart> read_segment_list(const std::string& path, Labels segments = Labels::required);

}  // namespace tutti
