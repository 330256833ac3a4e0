#pragma once
// A convolution as sums of products without gathering windows (as in "implicit" matrix products): where an
// image is kept with its padding, pixels of a row lie `pitch` behind those of the row before, and the pixel
// that an output meets at a place of the window lies a constant distance from where the output would lie in
// such an image. That place is a tap. With a stride, an image is kept as planes of the pixels that leave the
// same remainder. The input's gradient is the same in the output's gradient, a grid of outputs for each
// remainder.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "tutti/device/ops.hpp"

namespace tutti {

/// Along one axis.
struct TapAxis {
    struct Tap {
        std::int64_t window;  ///< place in the window
        std::int64_t plane, offset;
    };
    /// Outputs phase, phase + step, ... : so many.
    struct Grid {
        std::int64_t phase, size;
        std::vector<Tap> taps;
    };
    std::int64_t from;           ///< size of what is read
    std::int64_t before;         ///< padding before it
    std::int64_t planes, plane;  ///< how many, and the size of each
    std::int64_t step;           ///< of outputs of a grid
    std::vector<Grid> grids;

    /// The first of what is read that lies in a plane, and how many there do.
    std::int64_t first_in(std::int64_t which) const { return ((which - before) % planes + planes) % planes; }
    std::int64_t count_in(std::int64_t which) const {
        return std::max<std::int64_t>((from - first_in(which) + planes - 1) / planes, 0);
    }
    std::int64_t place_of(std::int64_t at) const { return (at + before) / planes; }

    static TapAxis forward(std::int64_t size, std::int64_t window, std::int64_t stride,
                           std::int64_t padding) {
        TapAxis axis{size, padding, stride, (size + 2 * padding + stride - 1) / stride, 1, {}};
        Grid grid{0, (size + 2 * padding - window) / stride + 1, {}};
        for (std::int64_t k = 0; k < window; ++k) grid.taps.push_back({k, k % stride, k / stride});
        axis.grids.push_back(std::move(grid));
        return axis;
    }

    /// Of the input's gradient: input stride·a + phase has output a + (phase + padding − k) / stride for each
    /// place k of the window that makes this a whole number.
    static TapAxis backward(std::int64_t size, std::int64_t window, std::int64_t stride,
                            std::int64_t padding) {
        const std::int64_t outputs = (size + 2 * padding - window) / stride + 1;
        TapAxis axis{outputs, 0, 1, 0, stride, {}};
        std::int64_t least = 0, most = outputs - 1;
        for (std::int64_t phase = 0; phase < std::min(stride, size); ++phase) {
            Grid grid{phase, (size - phase + stride - 1) / stride, {}};
            for (std::int64_t k = 0; k < window; ++k) {
                if ((phase + padding - k) % stride != 0) continue;
                const std::int64_t offset = (phase + padding - k) / stride;
                grid.taps.push_back({k, 0, offset});
                least = std::min(least, offset);
                most = std::max(most, grid.size - 1 + offset);
            }
            axis.grids.push_back(std::move(grid));
        }
        axis.before = -least;
        axis.plane = most - least + 1;
        for (Grid& grid : axis.grids)
            for (Tap& tap : grid.taps) tap.offset -= least;
        return axis;
    }
};

}  // namespace tutti
