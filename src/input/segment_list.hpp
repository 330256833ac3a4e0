#pragma once
// Lists of parts of videos and of the segments that were chosen in them.

#include <cstdint>
#include <string>
#include <vector>

namespace tutti {

/// Times are seconds from the beginning of the video.
struct Segment {
    double begin = 0, end = 0;
};

/// A part of a video: the seconds first … last − 1.
struct VideoPart {
    std::string id;
    std::int64_t first = 0, last = 0;
    std::vector<Segment> segments;
    std::string place;  ///< for messages: "train.json: entry 3 (ID)"
};

/// Whether a segment of the part has a share in the second from `second` to `second` + 1.
bool is_chosen(const VideoPart& part, std::int64_t second);

/// The list of objects of a JSON file, as the Repurpose-10K data set has it (Y. Wu et al., "Video Repurposing
/// from User Generated Content", AAAI 2025): youtube_id, timeRange [begin, end], of which whole seconds are
/// taken (both rounded down), and segments [[begin, end], …]. Other keys are left alone. Throws DataError
/// naming the file and the entry, from 1.
std::vector<VideoPart> read_segment_list(const std::string& path);

}  // namespace tutti
