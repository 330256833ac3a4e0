// Lists of parts of videos.
#include <gtest/gtest.h>

#include "input/segment_list.hpp"
#include "pack_helpers.hpp"

namespace tutti {
namespace {

class SegmentLists : public test::Pack {
  protected:
    std::string refused(const std::string& text) const {
        write("l.json", text);
        return refusal([&] { read_segment_list(at("l.json")); });
    }
    std::string refused_entry(const std::string& members) const {
        const std::string text = refused(R"([{"youtube_id": "ab", )" + members + "}]");
        const std::string place = "4 " + at("l.json") + ": entry 1 (ab): ";
        EXPECT_EQ(text.substr(0, place.size()), place);
        return text.substr(std::min(place.size(), text.size()), text.find("; entries are {") - place.size());
    }
};

TEST_F(SegmentLists, PartsAreReadInTheirOrder) {
    write("l.json", R"([{"youtube_id": "b", "timeRange": [0, 59.9], "segments": [[1.5, 3.0], [7, 7.25]],
                        "timeRangeOffset": [0, 59.9], "coverage": 0.1},
                       {"youtube_id": "a", "timeRange": [1800, 3600.0], "segments": []}])");
    const std::vector<VideoPart> parts = read_segment_list(at("l.json"));
    ASSERT_EQ(parts.size(), 2U);
    EXPECT_EQ(parts[0].id, "b");
    EXPECT_EQ(parts[0].first, 0);
    EXPECT_EQ(parts[0].last, 59);
    EXPECT_EQ(parts[0].place, at("l.json") + ": entry 1 (b)");
    EXPECT_EQ(parts[1].id, "a");
    EXPECT_EQ(parts[1].first, 1800);
    EXPECT_EQ(parts[1].last, 3600);
    // Seconds 1 and 2 of [1.5, 3), 7 of [7, 7.25).
    std::vector<std::int64_t> chosen;
    for (std::int64_t second = 0; second < 59; ++second)
        if (is_chosen(parts[0], second)) chosen.push_back(second);
    EXPECT_EQ(chosen, (std::vector<std::int64_t>{1, 2, 7}));
    EXPECT_FALSE(is_chosen(parts[1], 1800));
}

TEST_F(SegmentLists, SegmentsMayBeLeftUnread) {
    write("l.json", R"([{"youtube_id": "b", "timeRange": [0, 5]},
                       {"youtube_id": "a", "timeRange": [0, 5], "segments": 3}])");
    const std::vector<VideoPart> parts = read_segment_list(at("l.json"), Labels::optional);
    ASSERT_EQ(parts.size(), 2U);
    EXPECT_TRUE(parts[1].segments.empty());
}

/// The offsets of a part from second 10 on.
std::vector<float> offsets(const std::vector<SegmentTimes>& segments, std::int64_t last, std::int64_t length,
                           std::int64_t missed = 0) {
    const VideoPart part{.id = "a", .first = 10, .last = last, .segments = segments, .place = ""};
    const SegmentTargets targets = segment_targets(part, last, length);
    EXPECT_EQ(targets.missed, missed);
    return targets.offsets;
}

TEST(SegmentTargets, ASecondIsInsideWhereItsBeginningIs) {
    // Seconds 10 … 14; one more is padding.
    EXPECT_EQ(offsets({{10.5, 13}}, 15, 6),
              (std::vector<float>{-1, -1, 0.5, 2, 1.5, 1, -1, -1, -1, -1, -1, -1}));
    EXPECT_EQ(offsets({{11, 12.25}}, 13, 3), (std::vector<float>{-1, -1, 0, 1.25, 1, 0.25}));
    EXPECT_EQ(offsets({}, 12, 2), (std::vector<float>{-1, -1, -1, -1}));
}

TEST(SegmentTargets, SegmentsAreCutToThePart) {
    EXPECT_EQ(offsets({{2, 11.5}}, 12, 2), (std::vector<float>{0, 1.5, 1, 0.5}));
    EXPECT_EQ(offsets({{11, 99}}, 13, 4), (std::vector<float>{-1, -1, 0, 2, 1, 1, -1, -1}));
    EXPECT_EQ(offsets({{0, 99}}, 12, 2), (std::vector<float>{0, 2, 1, 1}));
}

TEST(SegmentTargets, OfSeveralSegmentsTheShortestHasTheSecond) {
    const std::vector<float> inner{0, 4, 0, 1, 2, 2, 3, 1};
    EXPECT_EQ(offsets({{10, 14}, {11, 12}}, 14, 4), inner);
    EXPECT_EQ(offsets({{11, 12}, {10, 14}}, 14, 4), inner);
    // Of the same length: the first. What is cut off does not count.
    EXPECT_EQ(offsets({{10, 12}, {11, 13}}, 13, 3), (std::vector<float>{0, 2, 1, 1, 1, 1}));
    EXPECT_EQ(offsets({{11, 99}, {10, 13}}, 13, 3), (std::vector<float>{0, 3, 0, 2, 1, 1}));
}

TEST(SegmentTargets, SegmentsWithoutTheBeginningOfASecondAreCounted) {
    // Between two seconds; nothing; before, behind and at the end of the part.
    EXPECT_EQ(offsets({{10.25, 10.75}, {11, 11}, {1, 9}, {70, 71}, {12, 13}}, 12, 2, 5),
              (std::vector<float>{-1, -1, -1, -1}));
}

TEST_F(SegmentLists, WhatIsWrongIsNamedWithItsEntry) {
    EXPECT_EQ(refused_entry(R"("segments": [])"), "it has no timeRange");
    EXPECT_EQ(refused_entry(R"("timeRange": [0, 5])"), "it has no segments");
    EXPECT_EQ(refused_entry(R"("timeRange": 5, "segments": [])"), "timeRange is 5, not two times");
    EXPECT_EQ(refused_entry(R"("timeRange": [0, "5"], "segments": [])"),
              "timeRange is [0,\"5\"], not two times");
    EXPECT_EQ(refused_entry(R"("timeRange": [2.2, 2.8], "segments": [])"), "timeRange holds no whole second");
    const std::string order = ", but must begin at 0 or later and not end before it begins";
    EXPECT_EQ(refused_entry(R"("timeRange": [-1, 5], "segments": [])"), "timeRange is [-1,5]" + order);
    EXPECT_EQ(refused_entry(R"("timeRange": [0, 1e30], "segments": [])"), "timeRange is [0,1e+30]" + order);
    EXPECT_EQ(refused_entry(R"("timeRange": [0, 5], "segments": 3)"), "segments is no list");
    EXPECT_EQ(refused_entry(R"("timeRange": [0, 5], "segments": [[3, 2]])"), "a segment is [3,2]" + order);
    EXPECT_EQ(refused("[{\"youtube_id\": 7}]").substr(0, 60),
              ("4 " + at("l.json") + ": entry 1: its youtube_id is no text").substr(0, 60));
    EXPECT_NE(refused("[7]").find("entry 1: it is no object; entries are {"), std::string::npos);
}

TEST_F(SegmentLists, FilesThatAreNoListsAreRefused) {
    EXPECT_NE(refused("{}").find(": it is no list, or an empty one; entries are {"), std::string::npos);
    EXPECT_NE(refused("[]").find(": it is no list, or an empty one"), std::string::npos);
    for (const char* number : {"NaN", "Infinity", "-Infinity"})
        EXPECT_NE(refused(std::string("[{\"coverage\": ") + number + "}]")
                      .find("JSON, which knows no NaN, Infinity"),
                  std::string::npos);
    EXPECT_NE(refused("[{").find(": not JSON: parse error at line 1, column 3"), std::string::npos);
    EXPECT_EQ(refusal([&] { read_segment_list(at("none.json")); }),
              "4 " + at("none.json") +
                  ": cannot be read: No such file or directory; check the path given with --labels");
}

}  // namespace
}  // namespace tutti
