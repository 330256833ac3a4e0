#include "segment_list.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "tutti/base/error.hpp"
#include "tutti/base/json_input.hpp"
#include "tutti/base/report_file.hpp"

namespace tutti {
namespace {

using nlohmann::json;

/// Thirty years: more is a mistake, such as milliseconds.
constexpr double longest = 1e9;

[[noreturn]] void fail(const std::string& place, const std::string& problem) {
    throw DataError(
        place + ": " + problem,
        "entries are {\"youtube_id\": \"ID\", \"timeRange\": [0, 60], \"segments\": [[10, 25.5]]}, "
        "in seconds of the video");
}

const json& member(const json& entry, const char* key, const std::string& place) {
    const auto found = entry.find(key);
    if (found == entry.end()) fail(place, std::string("it has no ") + key);
    return *found;
}

SegmentTimes times_of(const json& value, const std::string& what, const std::string& place) {
    if (!value.is_array() || value.size() != 2 || !value[0].is_number() || !value[1].is_number())
        fail(place, what + " is " + json_problem(value.dump()) + ", not two times");
    const SegmentTimes times{value[0].get<double>(), value[1].get<double>()};
    if (!(times.begin >= 0 && times.begin <= times.end && times.end <= longest))
        fail(place, what + " is " + json_problem(value.dump()) +
                        ", but must begin at 0 or later and not end before it begins");
    return times;
}

VideoPart part_of(const json& entry, const std::string& list_and_number, Labels wanted) {
    VideoPart part{.id = {}, .first = 0, .last = 0, .segments = {}, .place = list_and_number};
    if (!entry.is_object()) fail(part.place, "it is no object");
    const json& id = member(entry, "youtube_id", part.place);
    if (!id.is_string() || id.get<std::string>().empty()) fail(part.place, "its youtube_id is no text");
    part.id = id.get<std::string>();
    part.place += " (" + part.id + ")";
    const SegmentTimes range = times_of(member(entry, "timeRange", part.place), "timeRange", part.place);
    part.first = static_cast<std::int64_t>(range.begin);
    part.last = static_cast<std::int64_t>(range.end);
    if (part.first == part.last) fail(part.place, "timeRange holds no whole second");
    if (wanted == Labels::optional) return part;
    const json& segments = member(entry, "segments", part.place);
    if (!segments.is_array()) fail(part.place, "segments is no list");
    for (const json& segment : segments) part.segments.push_back(times_of(segment, "a segment", part.place));
    return part;
}

}  // namespace

bool is_chosen(const VideoPart& part, std::int64_t second) {
    const auto begin = static_cast<double>(second);
    return std::ranges::any_of(part.segments, [begin](const SegmentTimes& segment) {
        return segment.begin < begin + 1 && segment.end > begin;
    });
}

SegmentTargets segment_targets(const VideoPart& part, std::int64_t last, std::int64_t length) {
    SegmentTargets targets{.offsets = std::vector<float>(static_cast<std::size_t>(2 * length), -1.0F)};
    // Of each second the length of its segment so far.
    std::vector<double> lengths(static_cast<std::size_t>(length), std::numeric_limits<double>::infinity());
    for (const SegmentTimes& segment : part.segments) {
        const double begin = std::max(segment.begin, static_cast<double>(part.first));
        const double end = std::min(segment.end, static_cast<double>(last));
        // Times that were computed may be late by a rounding.
        constexpr double rounding = 1e-6;
        const auto first = static_cast<std::int64_t>(std::ceil(begin - rounding));
        if (static_cast<double>(first) >= end) ++targets.missed;
        for (std::int64_t second = first; static_cast<double>(second) < end; ++second) {
            const auto t = static_cast<std::size_t>(second - part.first);
            const auto behind = static_cast<float>(end - static_cast<double>(second));
            if (end - begin >= lengths[t] || !(behind > 0)) continue;
            lengths[t] = end - begin;
            targets.offsets[2 * t] = static_cast<float>(std::max(static_cast<double>(second) - begin, 0.0));
            targets.offsets[2 * t + 1] = behind;
        }
    }
    return targets;
}

std::vector<VideoPart> read_segment_list(const std::string& path, Labels segments) {
    const std::string text = read_report(path, "check the path given with --labels");
    json list;
    try {
        list = parse_json<json>(text);
    } catch (const DataError& error) {
        throw DataError(path + ": " + error.what(), "correct it, or write it again with json.dump");
    } catch (const json::exception& error) {
        const std::string reason = json_problem(error.what());
        // It ends with what was read until then.
        if (reason.ends_with("N'") || reason.ends_with("I'"))
            throw DataError(path + ": not JSON, which knows no NaN, Infinity or None: " + reason,
                            "write null in their place (json.dump with allow_nan=False finds them)");
        throw DataError(path + ": not JSON: " + reason, "correct it, or write it again with json.dump");
    }
    if (!list.is_array() || list.empty()) fail(path, "it is no list, or an empty one");
    std::vector<VideoPart> parts;
    for (const json& entry : list)
        parts.push_back(part_of(entry, path + ": entry " + std::to_string(parts.size() + 1), segments));
    return parts;
}

}  // namespace tutti
