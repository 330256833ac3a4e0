#pragma once
// Windows of 3×3 or 4×4 as windows of 3×3 that move by 1. Where a window moves by 2, pixels of even and odd
// rows and columns make four images, the phases of the image, and the convolution is the sum of one of 3×3 on
// each. These windows have zeros at their edges: along a side
//
//     4 places g₀ … g₃  even pixels  0 g₁ g₃    3 places g₀ g₁ g₂  even pixels  0 g₁ 0
//                       odd pixels   g₀ g₂ 0                       odd pixels   g₀ g₂ 0
//
// so that transformed they are 0 at the point 0 where the first place is none, at ∞ where the last is none,
// and products with them are left out: of 144 along both sides and phases 100 and 81 are left, where the
// definition has 256 and 144.

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "fp32_winograd_tile.hpp"
#include "image_pixels.hpp"

namespace tutti {

struct Fp32WinogradWindow {
    std::int64_t size;  ///< places along a side
    std::int64_t step;  ///< 1, or 2 with a padding of 1

    static constexpr std::int64_t none = -1;

    std::int64_t phases() const { return step * step; }
    std::int64_t places() const { return size * size; }
    ImagePhase phase(std::int64_t number) const { return {step, number / step, number % step}; }

    /// Where place `place` of the 3×3 of a phase lies in the window; none: it is 0.
    std::int64_t find(std::int64_t number, std::int64_t place) const {
        const std::int64_t row = along(number / step, place / 3), column = along(number % step, place % 3);
        return row == none || column == none ? none : row * size + column;
    }

    /// Whether product `product` of the transform has weights that are not 0 for that phase. turned: of the
    /// window turned around.
    bool uses(std::int64_t number, std::int64_t product, bool turned) const {
        return uses_along(number / step, product / fp32_winograd_input, turned) &&
               uses_along(number % step, product % fp32_winograd_input, turned);
    }
    /// The products that uses() tells of, bit by bit, of each phase: for loops over products.
    std::array<std::uint64_t, 4> used_products(bool turned) const {
        std::array<std::uint64_t, 4> bits{};
        for (std::int64_t number = 0; number < phases(); ++number)
            for (std::int64_t product = 0; product < fp32_winograd_products; ++product)
                bits[static_cast<std::size_t>(number)] |=
                    static_cast<std::uint64_t>(uses(number, product, turned)) << product;
        return bits;
    }
    /// How many products of all phases have.
    std::int64_t used() const {
        std::int64_t sum = 0;
        for (const std::uint64_t bits : used_products(false)) sum += std::popcount(bits);
        return sum;
    }

  private:
    std::int64_t along(std::int64_t phase, std::int64_t place) const {
        const std::int64_t in_window = step == 1 ? place : 2 * place + phase - 1;
        return in_window < 0 || in_window >= size ? none : in_window;
    }
    bool uses_along(std::int64_t phase, std::int64_t point, bool turned) const {
        constexpr std::int64_t infinity = fp32_winograd_input - 1;
        if (point != 0 && point != infinity) return true;
        return along(phase, (point == 0) != turned ? 0 : 2) != none;
    }
};

}  // namespace tutti
