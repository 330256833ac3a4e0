#include "tutti/base/fingerprint.hpp"

#include <array>
#include <cstring>

namespace tutti {
namespace {

constexpr std::size_t lanes = 32;
using Lanes = std::array<std::uint64_t, lanes>;

/// One to one in `state` and in `word`: what differs stays different. The shift lets high bits reach low
/// ones.
std::uint64_t mix(std::uint64_t state, std::uint64_t word) {
    constexpr std::uint64_t odd = 0x9e3779b97f4a7c15;  // 2^64 / golden ratio
    const std::uint64_t product = (state ^ word) * odd;
    return product ^ product >> 29;
}

void mix_all(Lanes& state, const std::byte* bytes) {
    Lanes words;
    std::memcpy(words.data(), bytes, sizeof words);
    for (std::size_t i = 0; i < lanes; ++i) state[i] = mix(state[i], words[i]);
}

}  // namespace

std::uint64_t fingerprint(std::span<const std::byte> bytes, std::uint64_t seed) {
    Lanes state;
    for (std::size_t i = 0; i < lanes; ++i) state[i] = mix(seed, i + 1);
    const std::size_t whole = bytes.size() / sizeof state * sizeof state;
    for (std::size_t first = 0; first < whole; first += sizeof state) mix_all(state, bytes.data() + first);
    if (const std::size_t rest = bytes.size() - whole; rest > 0) {
        std::array<std::byte, sizeof state> tail{};
        std::memcpy(tail.data(), bytes.data() + whole, rest);
        mix_all(state, tail.data());
    }
    std::uint64_t result = mix(seed, bytes.size());
    for (const std::uint64_t lane : state) result = mix(result, lane);
    return result;
}

}  // namespace tutti
