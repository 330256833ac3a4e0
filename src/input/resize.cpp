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

Image resize(const Image& image, const Placement& placement) {
    const auto visible = [](const PlacedLine& line) {
        const std::int64_t first = std::max<std::int64_t>(0, -line.offset);
        const std::int64_t room = line.size - std::max<std::int64_t>(0, line.offset);
        return ScaledLine{line.from, line.scaled, first, std::min(line.scaled - first, room)};
    };
    const auto& [rows, columns] = placement;
    Image part = scaled(image, visible(rows), visible(columns));
    if (part.height == rows.size && part.width == columns.size) return part;
    Image result{rows.size, columns.size, image.channels, {}};
    const auto bytes = [&image](std::int64_t pixels) {
        return static_cast<std::size_t>(pixels * image.channels);
    };
    result.pixels.resize(bytes(result.height * result.width));
    std::byte* to = result.pixels.data() + bytes(std::max<std::int64_t>(0, rows.offset) * result.width +
                                                 std::max<std::int64_t>(0, columns.offset));
    for (std::int64_t y = 0; y < part.height; ++y, to += bytes(result.width))
        std::copy_n(part.pixels.data() + bytes(y * part.width), bytes(part.width), to);
    return result;
}

}  // namespace tutti
