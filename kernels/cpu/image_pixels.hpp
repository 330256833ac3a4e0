#pragma once
// Square parts of NHWC images, pixel by pixel, as transforms of tiles take them.

#include <cstdint>

namespace tutti {

/// One image of a batch.
struct ImageShape {
    std::int64_t height, width, channels;
    std::int64_t size() const { return height * width * channels; }
};

/// pixels[size × size], row by row, are the first channels from (top, left) on; `outside` where the image has
/// none.
template <class Value>
void find_pixels(Value* image, const ImageShape& shape, std::int64_t top, std::int64_t left,
                 std::int64_t size, Value* outside, Value** pixels) {
    const bool inside = top >= 0 && left >= 0 && top + size <= shape.height && left + size <= shape.width;
    for (std::int64_t row = top; row < top + size; ++row)
        for (std::int64_t column = left; column < left + size; ++column, ++pixels) {
            const bool there =
                inside || (row >= 0 && row < shape.height && column >= 0 && column < shape.width);
            *pixels = there ? image + (row * shape.width + column) * shape.channels : outside;
        }
}

}  // namespace tutti
