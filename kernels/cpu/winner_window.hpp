#pragma once
// The 3×3 places of a window, for sums that are kept in the registers.

#include <cstddef>
#include <cstdint>

#include "tile_vector.hpp"

namespace tutti {

inline constexpr std::int64_t winner_window_side = 3;
inline constexpr std::size_t winner_window_taps = 9;

/// Calls visit(tap, vector, offset) for each vector of a window, of so many vectors of channels. All is
/// unrolled: what belongs to a tap stays in a register.
template <std::size_t vectors, class Visit>
[[gnu::always_inline]] inline void for_winner_window(std::int64_t row, std::int64_t pixel,
                                                     const Visit& visit) {
#pragma GCC unroll 9
    for (std::size_t t = 0; t < winner_window_taps; ++t)
#pragma GCC unroll 2
        for (std::size_t v = 0; v < vectors; ++v)
            visit(t, v,
                  static_cast<std::int64_t>(t) / winner_window_side * row +
                      static_cast<std::int64_t>(t) % winner_window_side * pixel +
                      static_cast<std::int64_t>(v) * lanes<float>);
}

}  // namespace tutti
