#pragma once
// Where a sample lies in the picture that it shows a part of.

#include <cstddef>

namespace tutti {

/// Pixel (x, y) of the sample is at (this.x + x_step · x, this.y + y_step · y) of the picture, both in pixels
/// to the right and down from the centre of the first. A row of /placements (data/README.md).
struct SamplePlacement {
    double x = 0, y = 0;
    double x_step = 1, y_step = 1;
    friend bool operator==(const SamplePlacement&, const SamplePlacement&) = default;
};

/// Numbers of one, which lie in memory as in a row of the file.
inline constexpr std::size_t placement_numbers = 4;
static_assert(sizeof(SamplePlacement) == placement_numbers * sizeof(double));

}  // namespace tutti
