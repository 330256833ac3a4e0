#pragma once
// A convolution as sums of products without gathering windows (as in "implicit" matrix products): where rows
// are kept `pitch` pixels apart, with zeros between them, the pixel that an output meets at a place of the
// window lies a constant distance from where the output would lie in such rows. That place is a tap. The
// zeros between two rows are the padding behind the one and before the other, and so are the rows of zeros
// between two images. With a stride, pixels that leave the same remainder are kept together, as a plane. The
// input's gradient is the same in the output's gradient, with a grid of outputs for each remainder.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "tutti/device/ops.hpp"

namespace tutti {

/// Along one axis.
class TapAxis {
  public:
    struct Tap {
        std::int64_t window;  ///< place in the window
        std::int64_t plane, offset;
    };
    /// Outputs phase, phase + step, ... : so many.
    struct Grid {
        std::int64_t phase, size;
        std::vector<Tap> taps;
    };
    std::int64_t from;       ///< size of what is read
    std::int64_t before;     ///< padding before the first
    std::int64_t planes;     ///< how many
    std::int64_t step;       ///< of outputs of a grid
    std::int64_t pitch = 0;  ///< from one to the next, in each plane; no less than the size of a grid
    std::int64_t reach = 0;  ///< places of the last one that are read
    std::vector<Grid> grids;

    /// The first of what is read that lies in a plane, and how many there do.
    std::int64_t first_in(std::int64_t which) const { return ((which - before) % planes + planes) % planes; }
    std::int64_t count_in(std::int64_t which) const {
        return std::max<std::int64_t>((from - first_in(which) + planes - 1) / planes, 0);
    }
    std::int64_t place_of(std::int64_t at) const { return (at + before) / planes; }

    static TapAxis forward(std::int64_t size, std::int64_t window, std::int64_t stride,
                           std::int64_t padding) {
        TapAxis axis{size, padding, stride, 1, 0, 0, {}};
        Grid grid{0, (size + 2 * padding - window) / stride + 1, {}};
        for (std::int64_t k = 0; k < window; ++k) grid.taps.push_back({k, k % stride, k / stride});
        axis.grids.push_back(std::move(grid));
        axis.set_pitch();
        return axis;
    }

    /// Of the input's gradient: input stride·a + phase has output a + (phase + padding − k) / stride for each
    /// place k of the window that makes this a whole number.
    static TapAxis backward(std::int64_t size, std::int64_t window, std::int64_t stride,
                            std::int64_t padding) {
        TapAxis axis{(size + 2 * padding - window) / stride + 1, 0, 1, stride, 0, 0, {}};
        std::int64_t least = 0;
        for (std::int64_t phase = 0; phase < std::min(stride, size); ++phase) {
            Grid grid{phase, (size - phase + stride - 1) / stride, {}};
            for (std::int64_t k = 0; k < window; ++k) {
                if ((phase + padding - k) % stride != 0) continue;
                grid.taps.push_back({k, 0, (phase + padding - k) / stride});
                least = std::min(least, grid.taps.back().offset);
            }
            axis.grids.push_back(std::move(grid));
        }
        axis.before = -least;
        for (Grid& grid : axis.grids)
            for (Tap& tap : grid.taps) tap.offset -= least;
        axis.set_pitch();
        return axis;
    }

  private:
    /// Between what is read of one row and of the next lie as many zeros as are read behind the one or before
    /// the other.
    void set_pitch() {
        for (std::int64_t plane = 0; plane < planes; ++plane) {
            if (count_in(plane) == 0) continue;
            pitch = std::max(pitch, count_in(plane));
            reach = std::max(reach, place_of(first_in(plane)) + count_in(plane));
        }
        for (const Grid& grid : grids) {
            pitch = std::max(pitch, grid.size);
            for (const Tap& tap : grid.taps) {
                const std::int64_t first = place_of(first_in(tap.plane)),
                                   beyond = first + count_in(tap.plane);
                pitch = std::max({pitch, grid.size + tap.offset - first, beyond - tap.offset});
                reach = std::max(reach, grid.size + tap.offset);
            }
        }
    }
};

}  // namespace tutti
