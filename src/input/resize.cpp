#include "resize.hpp"

#include <algorithm>

#include "resample.hpp"

namespace tutti {
namespace {

/// Only what is wanted is computed, from the rows that it sees: a long narrow image, scaled whole, can be
/// thousands of times the size of its centre.
Image scaled(const Image& image, const ScaledLine& rows, const ScaledLine& columns) {
    const Taps down(rows), across(columns);
    const auto channels = static_cast<std::size_t>(image.channels);
    Image result{rows.count, columns.count, image.channels, {}};
    result.pixels.resize(down.size() * across.size() * channels);
    std::vector<float> memory(resample_memory(down, across, channels));
    resample(image.pixels.data(), static_cast<std::size_t>(image.width) * channels, channels, down, across,
             memory.data(), result.pixels.data());
    return result;
}

}  // namespace

Image resize(const Image& image, std::int64_t height, std::int64_t width) {
    if (image.height == height && image.width == width) return image;
    return scaled(image, {image.height, height, 0, height}, {image.width, width, 0, width});
}

Image resize_and_crop(const Image& image, std::int64_t height, std::int64_t width) {
    if (image.height == height && image.width == width) return image;
    const auto h = static_cast<double>(image.height), w = static_cast<double>(image.width);
    const double scale = std::max(static_cast<double>(height) / h, static_cast<double>(width) / w);
    const std::int64_t scaled_height = std::max(height, static_cast<std::int64_t>(h * scale));
    const std::int64_t scaled_width = std::max(width, static_cast<std::int64_t>(w * scale));
    return scaled(image, {image.height, scaled_height, (scaled_height - height) / 2, height},
                  {image.width, scaled_width, (scaled_width - width) / 2, width});
}

}  // namespace tutti
