#include "tutti/base/random.hpp"

#include <cassert>
#include <cmath>
#include <numbers>

namespace tutti {
namespace {

struct Product {
    std::uint32_t high, low;
};
constexpr Product multiply(std::uint32_t a, std::uint32_t b) {
    const std::uint64_t product = std::uint64_t{a} * b;
    return {static_cast<std::uint32_t>(product >> 32), static_cast<std::uint32_t>(product)};
}

constexpr std::uint32_t low_word(std::uint64_t value) {
    return static_cast<std::uint32_t>(value);
}

/// The upper 53 of 64 bits as a multiple of 2^-53, in [0, 1).
double unit_interval(std::uint32_t high, std::uint32_t low) {
    const std::uint64_t bits = (std::uint64_t{high} << 32 | low) >> 11;
    return static_cast<double>(bits) * 0x1p-53;
}

}  // namespace

std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter,
                                        std::array<std::uint32_t, 2> key) {
    // The constants are those of the paper: two multipliers, and the golden ratio and sqrt(3) - 1 as key
    // steps.
    for (int round = 0; round < 10; ++round) {
        const Product first = multiply(0xD2511F53u, counter[0]);
        const Product second = multiply(0xCD9E8D57u, counter[2]);
        counter = {second.high ^ counter[1] ^ key[0], second.low, first.high ^ counter[3] ^ key[1],
                   first.low};
        key[0] += 0x9E3779B9u;
        key[1] += 0xBB67AE85u;
    }
    return counter;
}

RandomStream::RandomStream(std::int64_t seed, RandomPlace place, std::uint64_t a, std::uint64_t b) {
    assert(static_cast<std::uint32_t>(place) < 1u << 8);
    assert(a < std::uint64_t{1} << 24);
    assert(b < std::uint64_t{1} << 48);
    const auto bits = static_cast<std::uint64_t>(seed);
    key_ = {low_word(bits), low_word(bits >> 32)};
    high_ = {low_word(b) << 16, low_word(b >> 16), low_word(a) | static_cast<std::uint32_t>(place) << 24};
}

std::array<std::uint32_t, 4> RandomStream::bits(std::uint64_t index) const {
    assert(index < std::uint64_t{1} << 48);
    return philox4x32({low_word(index), high_[0] | low_word(index >> 32), high_[1], high_[2]}, key_);
}

double RandomStream::uniform(std::uint64_t index) const {
    const auto words = bits(index);
    return unit_interval(words[0], words[1]);
}

double RandomStream::normal(std::uint64_t index) const {
    const auto words = bits(index);
    // 1 - u lies in (0, 1], so the logarithm is finite.
    const double radius = std::sqrt(-2 * std::log1p(-unit_interval(words[0], words[1])));
    return radius * std::cos(2 * std::numbers::pi * unit_interval(words[2], words[3]));
}

}  // namespace tutti
