#pragma once
// Square parts of NHWC images, pixel by pixel, as transforms of tiles take them.

#include <cstdint>

namespace tutti {

/// One image of a batch.
struct ImageShape {
    std::int64_t height, width, channels;
    std::int64_t size() const { return height * width * channels; }
};

/// Every step-th pixel of an image's rows and columns: an image of its own.
struct ImagePhase {
    std::int64_t step = 1, row = 0, column = 0;  ///< row and column: of its first pixel
};

/// pixels[size × size], row by row, are the first channels from (top, left) of the phase on; `outside` where
/// the image has none.
template <class Value>
void find_pixels(Value* image, const ImageShape& shape, std::int64_t top, std::int64_t left,
                 std::int64_t size, Value* outside, Value** pixels, const ImagePhase& phase = {}) {
    const std::int64_t first_row = top * phase.step + phase.row, end_row = first_row + size * phase.step;
    const std::int64_t first = left * phase.step + phase.column, end = first + size * phase.step;
    const bool inside =
        first_row >= 0 && first >= 0 && end_row - phase.step < shape.height && end - phase.step < shape.width;
    if (inside) {
        const std::int64_t to_next = phase.step * shape.channels, to_next_row = to_next * shape.width;
        Value* const begin = image + (first_row * shape.width + first) * shape.channels;
        for (std::int64_t r = 0; r < size; ++r)
            for (std::int64_t c = 0; c < size; ++c) *pixels++ = begin + r * to_next_row + c * to_next;
        return;
    }
    for (std::int64_t row = first_row; row < end_row; row += phase.step)
        for (std::int64_t column = first; column < end; column += phase.step, ++pixels) {
            const bool there = row >= 0 && row < shape.height && column >= 0 && column < shape.width;
            *pixels = there ? image + (row * shape.width + column) * shape.channels : outside;
        }
}

}  // namespace tutti
