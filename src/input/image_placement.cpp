#include "image_placement.hpp"

#include <algorithm>
#include <cmath>

#include "scaled_crop.hpp"

namespace tutti {
namespace {

PlacedLine centred(std::int64_t from, std::int64_t scaled, std::int64_t size) {
    return {from, scaled, -centre(scaled, size), size};
}

}  // namespace

Placement place_image(std::int64_t from_height, std::int64_t from_width, std::int64_t height,
                      std::int64_t width, Fit fit) {
    std::int64_t scaled_height = height, scaled_width = width;
    if (fit == Fit::crop) {
        // In whole numbers: a product of a scale that was rounded may be just below the pixel that it is.
        scaled_height = std::max(height, from_height * width / from_width);
        scaled_width = std::max(width, from_width * height / from_height);
    } else if (fit == Fit::letterbox) {
        const auto h = static_cast<double>(from_height), w = static_cast<double>(from_width);
        const double scale = std::min(static_cast<double>(height) / h, static_cast<double>(width) / w);
        scaled_height = std::clamp<std::int64_t>(std::llround(h * scale), 1, height);
        scaled_width = std::clamp<std::int64_t>(std::llround(w * scale), 1, width);
    }
    return {centred(from_height, scaled_height, height), centred(from_width, scaled_width, width)};
}

}  // namespace tutti
