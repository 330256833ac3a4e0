#pragma once
// Addressed randomness: a number is a pure function of its address, so results do not depend on the number of
// ranks or threads, nor on where a run was interrupted.
//
// Philox4x32-10: J. K. Salmon, M. A. Moraes, R. O. Dror, D. E. Shaw, "Parallel Random Numbers: As Easy as 1,
// 2, 3", SC'11. Known-answer vectors: Random123, kat_vectors.

#include <array>
#include <cstdint>

namespace tutti {

/// Philox4x32-10: 128 random bits for a 128-bit counter and a 64-bit key.
std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter,
                                        std::array<std::uint32_t, 2> key);

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
    RandomStream(std::int64_t seed, RandomPlace place, std::uint64_t a, std::uint64_t b);

    /// 128 random bits.
    std::array<std::uint32_t, 4> bits(std::uint64_t index) const;
    /// Uniform in [0, 1) with 53 random bits.
    double uniform(std::uint64_t index) const;
    /// Standard normal (Box–Muller on two uniforms of one block).
    double normal(std::uint64_t index) const;

  private:
    std::array<std::uint32_t, 2> key_;
    std::array<std::uint32_t, 3> high_;  ///< counter words 1 to 3 without the index
};

}  // namespace tutti
