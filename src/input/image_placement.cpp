#include "image_placement.hpp"

#include <algorithm>
#include <cmath>

namespace tutti {
namespace {

PlacedLine centred(std::int64_t from, std::int64_t scaled, std::int64_t size) {
    return {from, scaled, scaled > size ? -((scaled - size) / 2) : (size - scaled) / 2, size};
}

}  // namespace

Placement place_image(std::int64_t from_height, std::int64_t from_width, std::int64_t height,
                      std::int64_t width, Fit fit) {
    const auto h = static_cast<double>(from_height), w = static_cast<double>(from_width);
    const double down = static_cast<double>(height) / h, across = static_cast<double>(width) / w;
    std::int64_t scaled_height = height, scaled_width = width;
    if (fit == Fit::crop) {
        const double scale = std::max(down, across);
        scaled_height = std::max(height, static_cast<std::int64_t>(h * scale));
        scaled_width = std::max(width, static_cast<std::int64_t>(w * scale));
    } else if (fit == Fit::letterbox) {
        const double scale = std::min(down, across);
        scaled_height = std::clamp<std::int64_t>(std::llround(h * scale), 1, height);
        scaled_width = std::clamp<std::int64_t>(std::llround(w * scale), 1, width);
    }
    return {centred(from_height, scaled_height, height), centred(from_width, scaled_width, width)};
}

}  // namespace tutti
