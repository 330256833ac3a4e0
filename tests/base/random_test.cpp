#include "tutti/base/random.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <vector>

namespace tutti {
namespace {

using Words = std::array<std::uint32_t, 4>;
constexpr std::uint32_t all_ones = 0xffffffffu;

RandomStream stream(std::uint64_t a = 3, std::uint64_t b = 5) {
    return {7, RandomPlace::dropout, a, b};
}

// Known answers: Random123, kat_vectors, "philox4x32 10".
TEST(Philox, gives_the_known_answer_for_zeros) {
    EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
}

TEST(Philox, gives_the_known_answer_for_ones) {
    EXPECT_EQ(philox4x32({all_ones, all_ones, all_ones, all_ones}, {all_ones, all_ones}),
              (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
}

TEST(Philox, gives_the_known_answer_for_the_digits_of_pi) {
    EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
              (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(RandomStream, lies_in_the_half_open_unit_interval) {
    const auto numbers = stream();
    for (std::uint64_t i = 0; i < 100000; ++i) {
        const double u = numbers.uniform(i);
        ASSERT_GE(u, 0);
        ASSERT_LT(u, 1);
    }
}

TEST(RandomStream, is_uniform_in_each_of_64_classes) {
    const auto numbers = stream();
    constexpr int count = 64000;
    std::array<int, 64> classes{};
    for (int i = 0; i < count; ++i)
        ++classes[static_cast<std::size_t>(numbers.uniform(static_cast<std::uint64_t>(i)) * 64)];
    double chi_square = 0;
    for (const int hits : classes) chi_square += std::pow(hits - count / 64.0, 2) / (count / 64.0);
    EXPECT_LT(chi_square, 110);  // 63 degrees of freedom: exceeded with probability 2e-4
}

TEST(RandomStream, uses_the_low_bits_of_the_53_too) {
    const auto numbers = stream();
    int odd = 0;
    for (std::uint64_t i = 0; i < 1000; ++i)
        odd += static_cast<int>(static_cast<std::uint64_t>(numbers.uniform(i) * 0x1p53) & 1);
    EXPECT_NEAR(odd, 500, 80);
}

TEST(RandomStream, has_normal_numbers_with_the_moments_of_a_standard_normal) {
    const auto numbers = stream();
    constexpr int count = 100000;
    double sum = 0, squares = 0, cubes = 0, fourths = 0;
    for (int i = 0; i < count; ++i) {
        const double x = numbers.normal(static_cast<std::uint64_t>(i));
        ASSERT_TRUE(std::isfinite(x));
        sum += x;
        squares += x * x;
        cubes += x * x * x;
        fourths += x * x * x * x;
    }
    EXPECT_NEAR(sum / count, 0, 0.015);
    EXPECT_NEAR(squares / count, 1, 0.02);
    EXPECT_NEAR(cubes / count, 0, 0.06);
    EXPECT_NEAR(fourths / count, 3, 0.15);
}

TEST(RandomStream, does_not_depend_on_the_order_of_calls) {
    const auto first = stream(), second = stream();
    std::vector<double> up, down;
    for (std::uint64_t i = 0; i < 100; ++i) up.push_back(first.uniform(i));
    for (std::uint64_t i = 100; i-- > 0;) down.push_back(second.uniform(i));
    std::reverse(down.begin(), down.end());
    EXPECT_EQ(up, down);
}

TEST(RandomStream, differs_between_all_parts_of_the_address) {
    std::set<double> numbers;
    for (const std::int64_t seed : {std::int64_t{0}, std::int64_t{1}, std::int64_t{-1}, std::int64_t{1} << 32,
                                    std::numeric_limits<std::int64_t>::min()})
        for (const auto place : {RandomPlace::initial_weights, RandomPlace::mask})
            for (const std::uint64_t a : {0u, 1u, (1u << 24) - 1})
                for (const std::uint64_t b : {0ul, 1ul, 1ul << 16, 1ul << 32, (1ul << 48) - 1})
                    for (const std::uint64_t index : {0ul, 1ul, 1ul << 32, (1ul << 48) - 1})
                        numbers.insert(RandomStream(seed, place, a, b).uniform(index));
    EXPECT_EQ(numbers.size(), 5u * 2 * 3 * 5 * 4);
}

TEST(RandomStream, has_the_documented_address) {
    const RandomStream numbers(0x0123456789abcdef, RandomPlace::mask, 0xa1a2a3, 0xb1b2b3b4b5b6);
    const auto words = philox4x32({0xc3c4c5c6, 0xb5b6c1c2, 0xb1b2b3b4, 0x04a1a2a3}, {0x89abcdef, 0x01234567});
    const std::uint64_t bits = (std::uint64_t{words[0]} << 32 | words[1]) >> 11;
    EXPECT_EQ(numbers.uniform(0xc1c2c3c4c5c6), static_cast<double>(bits) / 0x1p53);
}

TEST(RandomStream, shows_no_correlation_between_neighbouring_streams) {
    const auto first = stream(3, 5), second = stream(3, 6);
    constexpr int count = 20000;
    double product = 0;
    for (std::uint64_t i = 0; i < count; ++i) product += (first.uniform(i) - 0.5) * (second.uniform(i) - 0.5);
    EXPECT_NEAR(product / count * 12, 0, 0.03);
}

}  // namespace
}  // namespace tutti
