#pragma once
// Where an image of any size lies in one of the wanted size.

#include <cstdint>

#include "tutti/input/fit.hpp"

namespace tutti {

/// A line of `from` pixels, scaled to `scaled` of them, the first of which is pixel `offset` of a line of
/// `size`: below 0 where the ends are cut off, above where there is padding.
struct PlacedLine {
    std::int64_t from = 0, scaled = 0, offset = 0, size = 0;

    /// Where the position `x` of the source lies in the result; both count from 0 at the centre of the first
    /// pixel. Scaling maps the area of the line, which begins half a pixel before that, onto the area of the
    /// scaled one (align_corners = False in PyTorch). May be outside of the result.
    double position(double x) const {
        const auto move = static_cast<double>(offset);
        if (scaled == from) return x + move;
        return (x + 0.5) * static_cast<double>(scaled) / static_cast<double>(from) - 0.5 + move;
    }
    /// The other way: which position of the source lies at `x` of the result.
    double source(double x) const {
        const auto move = static_cast<double>(offset);
        if (scaled == from) return x - move;
        return (x - move + 0.5) * step() - 0.5;
    }
    /// Pixels of the source for each of the result.
    double step() const { return static_cast<double>(from) / static_cast<double>(scaled); }
    bool operator==(const PlacedLine&) const = default;
};

struct Placement {
    PlacedLine rows, columns;

    bool operator==(const Placement&) const = default;
};

/// Of an image of from_height × from_width in one of height × width; all are at least 1. Scaled sides are
/// whole pixels: with letterbox the nearest number, with crop the next below. What is cut off
/// begins where torchvision's center_crop begins (scaled_crop.hpp: centre); padding that is odd has its
/// larger half behind.
Placement place_image(std::int64_t from_height, std::int64_t from_width, std::int64_t height,
                      std::int64_t width, Fit fit);

}  // namespace tutti
