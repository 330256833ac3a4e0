#pragma once
// Addressed randomness: a number is a pure function of its address, so results do not depend on the number of
// ranks or threads, nor on where a run was interrupted.
//
// Philox4x32-10: J. K. Salmon, M. A. Moraes, R. O. Dror, D. E. Shaw, "Parallel Random Numbers: As Easy as 1,
// 2, 3", SC'11. Known-answer vectors: Random123, kat_vectors.

#include <array>
#include <cassert>
#include <cstdint>

namespace tutti {

// What CUDA kernels draw, too, is constexpr: nvcc compiles such functions for the device.

/// Philox4x32-10: 128 random bits for a 128-bit counter and a 64-bit key.
constexpr std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter,
                                                  std::array<std::uint32_t, 2> key) {
    // The constants are those of the paper: two multipliers, and the golden ratio and sqrt(3) - 1 as key
    // steps.
    for (int round = 0; round < 10; ++round) {
        const std::uint64_t first = std::uint64_t{0xD2511F53u} * counter[0];
        const std::uint64_t second = std::uint64_t{0xCD9E8D57u} * counter[2];
        counter = {static_cast<std::uint32_t>(second >> 32) ^ counter[1] ^ key[0],
                   static_cast<std::uint32_t>(second),
                   static_cast<std::uint32_t>(first >> 32) ^ counter[3] ^ key[1],
                   static_cast<std::uint32_t>(first)};
        key[0] += 0x9E3779B9u;
        key[1] += 0xBB67AE85u;
    }
    return counter;
}

/// What draws the numbers; part of the address, so that no two uses share a stream.
enum class RandomPlace : std::uint32_t {
    initial_weights = 1,
    dropout = 2,
    augmentation = 3,
    mask = 4,
    drop_path = 5
};

/// The stream of numbers at (seed, place, a, b): for weights a = parameter's number, b = 0; for samples a =
/// epoch, b = position. `index` counts elements in logical (PyTorch's) order, so layout does not matter.
///
/// Addresses do not collide: the key is the seed (low word, high word), and the counter holds the rest, from
/// its lowest bit on: index 48 bits, b 48 bits, a 24 bits, place 8 bits. Values beyond these widths are a
/// programming error (asserted). Immutable, hence safe to share between threads.
class RandomStream {
  public:
    constexpr RandomStream(std::int64_t seed, RandomPlace place, std::uint64_t a, std::uint64_t b)
        : key_{low_word(static_cast<std::uint64_t>(seed)), low_word(static_cast<std::uint64_t>(seed) >> 32)},
          high_{low_word(b) << 16, low_word(b >> 16), low_word(a) | static_cast<std::uint32_t>(place) << 24} {
        assert(static_cast<std::uint32_t>(place) < 1u << 8);
        assert(a < std::uint64_t{1} << 24);
        assert(b < std::uint64_t{1} << 48);
    }

    /// 128 random bits.
    constexpr std::array<std::uint32_t, 4> bits(std::uint64_t index) const {
        assert(index < std::uint64_t{1} << 48);
        return philox4x32({low_word(index), high_[0] | low_word(index >> 32), high_[1], high_[2]}, key_);
    }
    /// Uniform in [0, 1) with 53 random bits.
    constexpr double uniform(std::uint64_t index) const {
        const auto words = bits(index);
        return unit_interval(words[0], words[1]);
    }
    /// Standard normal (Box–Muller on two uniforms of one block).
    double normal(std::uint64_t index) const;

  private:
    static constexpr std::uint32_t low_word(std::uint64_t value) { return static_cast<std::uint32_t>(value); }
    /// The upper 53 of 64 bits as a multiple of 2^-53, in [0, 1).
    static constexpr double unit_interval(std::uint32_t high, std::uint32_t low) {
        return static_cast<double>((std::uint64_t{high} << 32 | low) >> 11) * 0x1p-53;
    }

    std::array<std::uint32_t, 2> key_;
    std::array<std::uint32_t, 3> high_;  ///< counter words 1 to 3 without the index
};

}  // namespace tutti
