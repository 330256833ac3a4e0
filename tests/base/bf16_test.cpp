#include "tutti/base/bf16.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace tutti {
namespace {

using Limits = std::numeric_limits<float>;

TEST(Bf16, rounds_to_the_nearest_and_ties_to_even) {
    const float step = 1.0F / 128;  // between neighbours in [1, 2)
    EXPECT_EQ(float_of_bf16(bf16_bits(1 + step * 0.49F)), 1.0F);
    EXPECT_EQ(float_of_bf16(bf16_bits(1 + step * 0.5F)), 1.0F);
    EXPECT_EQ(float_of_bf16(bf16_bits(1 + step * 0.51F)), 1 + step);
    EXPECT_EQ(float_of_bf16(bf16_bits(1 + step * 1.5F)), 1 + 2 * step);
    EXPECT_EQ(float_of_bf16(bf16_bits(-1 - step * 1.5F)), -1 - 2 * step);
    EXPECT_EQ(float_of_bf16(bf16_bits(2 - step * 0.4F)), 2.0F);  // into the next power of two
}

TEST(Bf16, is_half_a_step_from_the_value_at_most) {
    for (float value = 1e-30F; value < 1e30F; value *= 1.0371F)
        EXPECT_LE(std::abs(float_of_bf16(bf16_bits(value)) - value), value / 256) << value;
}

TEST(Bf16, keeps_what_fits) {
    for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
        const float value = float_of_bf16(static_cast<std::uint16_t>(bits));
        if (std::isnan(value))
            EXPECT_TRUE(std::isnan(float_of_bf16(bf16_bits(value)))) << bits;
        else
            EXPECT_EQ(bf16_bits(value), bits);
    }
}

TEST(Bf16, what_is_not_finite_stays_so) {
    EXPECT_EQ(float_of_bf16(bf16_bits(Limits::infinity())), Limits::infinity());
    EXPECT_EQ(float_of_bf16(bf16_bits(-Limits::infinity())), -Limits::infinity());
    EXPECT_EQ(float_of_bf16(bf16_bits(Limits::max())), Limits::infinity());
    // Of every NaN: also those whose set bits are all in the lower half, or would carry out of the upper one.
    for (const std::uint32_t bits : {0x7f800001u, 0x7fffffffu, 0xffffffffu, 0xff80ffffu, 0x7fc00000u})
        EXPECT_TRUE(std::isnan(float_of_bf16(bf16_bits(std::bit_cast<float>(bits))))) << bits;
}

TEST(Bf16, goes_through_ranges_of_any_length) {
    for (const std::size_t count : {0u, 1u, 7u, 16u, 1027u}) {
        std::vector<float> values(count), back(count);
        for (std::size_t i = 0; i < count; ++i) values[i] = std::exp(static_cast<float>(i % 97)) - 3;
        std::vector<std::uint16_t> bits(count);
        round_to_bf16(values, bits.data());
        widen_bf16(bits, back.data());
        for (std::size_t i = 0; i < count; ++i) {
            EXPECT_EQ(bits[i], bf16_bits(values[i]));
            EXPECT_EQ(back[i], float_of_bf16(bits[i]));
        }
    }
}

}  // namespace
}  // namespace tutti
