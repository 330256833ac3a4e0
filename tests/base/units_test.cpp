#include "tutti/base/units.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "tutti/base/error.hpp"

namespace tutti {
namespace {

constexpr std::uint64_t largest = std::numeric_limits<std::uint64_t>::max();

TEST(FormatBytes, prints_plain_bytes_below_one_kib) {
    EXPECT_EQ(format_bytes(0), "0 B");
    EXPECT_EQ(format_bytes(1023), "1023 B");
}

TEST(FormatBytes, prints_binary_units_with_one_decimal) {
    EXPECT_EQ(format_bytes(1536), "1.5 KiB");
    EXPECT_EQ(format_bytes(25u << 20), "25.0 MiB");
    EXPECT_EQ(format_bytes(std::uint64_t{3} << 40), "3.0 TiB");
}

TEST(FormatNumber, prints_four_decimals_where_they_say_enough) {
    EXPECT_EQ(format_number(0), "0.0000");
    EXPECT_EQ(format_number(2.30259), "2.3026");
    EXPECT_EQ(format_number(-0.001), "-0.0010");
    EXPECT_EQ(format_number(999999.5), "999999.5000");
    EXPECT_EQ(format_number(std::numeric_limits<double>::quiet_NaN()), "nan");
}

TEST(FormatNumber, prints_four_digits_of_large_and_of_small_ones) {
    EXPECT_EQ(format_number(4.43002568290688e+44), "4.43e+44");
    EXPECT_EQ(format_number(-1e6), "-1e+06");
    EXPECT_EQ(format_number(2.34501e-05), "2.345e-05");
    EXPECT_EQ(format_number(-0.00023456), "-0.0002346");
    EXPECT_EQ(format_number(std::numeric_limits<double>::infinity()), "inf");
}

TEST(Counted, knows_the_singular) {
    EXPECT_EQ(counted(1, "step"), "1 step");
    EXPECT_EQ(counted(std::size_t{0}, "step"), "0 steps");
    EXPECT_EQ(counted(std::int64_t{1}, "batch", "batches"), "1 batch");
    EXPECT_EQ(counted(-1, "batch", "batches"), "-1 batches");
}

TEST(FormatBytes, moves_to_the_next_unit_instead_of_printing_1024) {
    EXPECT_EQ(format_bytes((1u << 20) - 1), "1.0 MiB");
}

TEST(FormatBytes, prints_the_largest_count) {
    EXPECT_EQ(format_bytes(largest), "16.0 EiB");
}

TEST(FormatDuration, prints_minutes_and_seconds_below_one_hour) {
    EXPECT_EQ(format_duration(7), "0:07");
    EXPECT_EQ(format_duration(12 * 60 + 34), "12:34");
}

TEST(FormatDuration, prints_hours_when_there_are_some) {
    EXPECT_EQ(format_duration(3 * 3600 + 4 * 60 + 5), "3:04:05");
}

TEST(FormatDuration, rounds_to_whole_seconds_across_units) {
    EXPECT_EQ(format_duration(6.5), "0:07");
    EXPECT_EQ(format_duration(3599.7), "1:00:00");
}

TEST(FormatDuration, prints_a_question_mark_for_what_is_no_duration) {
    EXPECT_EQ(format_duration(-1), "?");
    EXPECT_EQ(format_duration(std::numeric_limits<double>::infinity()), "?");
    EXPECT_EQ(format_duration(std::numeric_limits<double>::quiet_NaN()), "?");
    EXPECT_EQ(format_duration(1e300), "?");
}

TEST(ParseBytes, reads_plain_numbers) {
    EXPECT_EQ(parse_bytes("123"), 123u);
}

TEST(ParseBytes, reads_binary_multiples) {
    EXPECT_EQ(parse_bytes("4K"), 4096u);
    EXPECT_EQ(parse_bytes("256M"), 256u << 20);
    EXPECT_EQ(parse_bytes("1G"), 1u << 30);
    EXPECT_EQ(parse_bytes("2T"), std::uint64_t{2} << 40);
}

TEST(ParseBytes, refuses_other_text_and_names_it) {
    for (const char* text : {"", "K", "-1", "1.5M", "12 K", "4KB", "0x10"}) {
        try {
            parse_bytes(text);
            ADD_FAILURE() << "accepted \"" << text << '"';
        } catch (const UsageError& error) {
            EXPECT_NE(std::string(error.what()).find('"' + std::string(text) + '"'), std::string::npos);
        }
    }
}

TEST(ParseBytes, refuses_what_64_bits_cannot_hold) {
    EXPECT_EQ(parse_bytes("16777215T"), std::uint64_t{16777215} << 40);
    EXPECT_THROW(parse_bytes("16777216T"), UsageError);
    EXPECT_THROW(parse_bytes("18446744073709551616"), UsageError);
}

struct SizesRow {
    const char* text;
    std::vector<std::uint64_t> sizes;
};

TEST(ParseByteSizes, reads_ranges_lists_and_single_sizes) {
    const std::uint64_t k = 1024;
    const std::vector<SizesRow> rows = {
        {"4K:32K", {4 * k, 8 * k, 16 * k, 32 * k}},
        {"4K:31K", {4 * k, 8 * k, 16 * k}},
        {"4K:256K:4", {4 * k, 16 * k, 64 * k, 256 * k}},
        {"1M:1M", {k * k}},
        {"100:250", {100, 200}},
        {"4K,1M", {4 * k, k * k}},
        {"1M,4,1M", {k * k, 4, k * k}},
        {"64K", {64 * k}},
        {"8388608T:16777215T", {std::uint64_t{1} << 63}},
    };
    for (const SizesRow& row : rows) EXPECT_EQ(parse_byte_sizes(row.text), row.sizes) << row.text;
}

TEST(ParseByteSizes, rejects_what_is_no_range_and_names_it) {
    for (const char* text : {"", ":", "4K:", ":4K", "8K:4K", "0:4K", "4K:8K:1", "4K:8K:0", "4K:8K:2:2", "4K,",
                             ",4K", "4K,,8K", "4X:8K", "4K-8K", "4K:8K,16K", "-4K"}) {
        try {
            parse_byte_sizes(text);
            ADD_FAILURE() << text;
        } catch (const UsageError&) {
        }
    }
    try {
        parse_byte_sizes("8K:4K");
    } catch (const UsageError& error) {
        EXPECT_NE(std::string(error.what()).find("\"8K:4K\""), std::string::npos) << error.what();
    }
}

}  // namespace
}  // namespace tutti
