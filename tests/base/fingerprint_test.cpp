#include "tutti/base/fingerprint.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

namespace tutti {
namespace {

std::vector<std::byte> pattern(std::size_t count) {
    std::vector<std::byte> bytes(count);
    for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(i * 37 + i / 251);
    return bytes;
}

TEST(Fingerprint, depends_on_every_bit) {
    // Within whole rounds, and in what is left behind them.
    for (const std::size_t size : {1u, 7u, 255u, 256u, 257u, 700u}) {
        std::vector<std::byte> bytes = pattern(size);
        std::set<std::uint64_t> seen{fingerprint(bytes)};
        for (std::size_t bit = 0; bit < 8 * size; ++bit) {
            bytes[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
            seen.insert(fingerprint(bytes));
            bytes[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
        }
        EXPECT_EQ(seen.size(), 8 * size + 1) << size << " bytes";
    }
}

TEST(Fingerprint, tells_changes_of_signs_that_a_lane_could_cancel) {
    // Bit 63 of two words that meet in one lane.
    std::vector<std::byte> bytes(1024);
    const std::uint64_t before = fingerprint(bytes);
    for (const std::size_t other : {256u, 512u, 768u}) {
        std::vector<std::byte> changed = bytes;
        changed[7] = changed[other + 7] = std::byte{0x80};
        EXPECT_NE(fingerprint(changed), before) << other;
    }
}

TEST(Fingerprint, tells_the_order_of_values_lengths_and_seeds) {
    std::vector<std::byte> bytes = pattern(2048);
    const std::uint64_t before = fingerprint(bytes);
    std::swap_ranges(bytes.begin(), bytes.begin() + 256, bytes.begin() + 256);
    EXPECT_NE(fingerprint(bytes), before);
    EXPECT_NE(fingerprint(std::vector<std::byte>(3)), fingerprint(std::vector<std::byte>(4)));
    EXPECT_NE(fingerprint({}, 1), fingerprint({}, 2));
    EXPECT_NE(fingerprint(bytes, 1), fingerprint(bytes, 2));
}

TEST(Fingerprint, does_not_depend_on_where_the_bytes_lie) {
    const std::vector<std::byte> bytes = pattern(1000);
    std::vector<std::byte> elsewhere(1001);
    std::ranges::copy(bytes, elsewhere.begin() + 1);
    EXPECT_EQ(fingerprint(std::span(elsewhere).subspan(1)), fingerprint(bytes));
}

}  // namespace
}  // namespace tutti
