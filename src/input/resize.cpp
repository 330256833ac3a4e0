#include "resize.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

namespace tutti {
namespace {

/// The part of a line of the source that one pixel of the result sees; the weights add up to 1.
struct Tap {
    std::int64_t first = 0;
    std::vector<double> weights;
};

/// A line of the source, the line it is scaled to, and the part of that which is wanted.
struct Line {
    std::int64_t from = 0, to = 0, first = 0, count = 0;
};

std::vector<Tap> taps(const Line& line) {
    const std::int64_t from = line.from, to = line.to;
    const double scale = static_cast<double>(from) / static_cast<double>(to);
    const double reach = std::max(scale, 1.0);
    std::vector<Tap> result(static_cast<std::size_t>(line.count));
    for (std::int64_t i = 0; i < line.count; ++i) {
        Tap& tap = result[static_cast<std::size_t>(i)];
        const double centre = (static_cast<double>(line.first + i) + 0.5) * scale;
        tap.first = std::max<std::int64_t>(0, std::llround(std::floor(centre - reach + 0.5)));
        const std::int64_t end = std::min<std::int64_t>(from, std::llround(std::floor(centre + reach + 0.5)));
        double sum = 0;
        for (std::int64_t k = tap.first; k < end; ++k) {
            const double distance = std::abs(static_cast<double>(k) + 0.5 - centre) / reach;
            tap.weights.push_back(std::max(0.0, 1 - distance));
            sum += tap.weights.back();
        }
        for (double& weight : tap.weights) weight /= sum;
    }
    return result;
}

/// Halves are rounded up.
std::byte to_byte(double value) {
    const double inside = std::clamp(value, 0.0, 255.0);
    const int whole = static_cast<int>(inside);
    return static_cast<std::byte>(whole + (inside - whole >= 0.5 ? 1 : 0));
}

/// One row of the source, to the new width.
template <std::size_t channels>
void scale_row(const std::byte* from, std::span<const Tap> taps, float* to) {
    for (const Tap& tap : taps) {
        std::array<double, channels> sum{};
        const std::byte* pixel = from + static_cast<std::size_t>(tap.first) * channels;
        for (const double weight : tap.weights)
            for (std::size_t c = 0; c < channels; ++c) sum[c] += weight * std::to_integer<int>(*pixel++);
        for (const double value : sum) *to++ = static_cast<float>(value);
    }
}

/// Only what is wanted is computed, from the rows that it sees: a long narrow image, scaled whole, can be
/// thousands of times the size of its centre.
Image resample(const Image& image, const Line& rows, const Line& columns) {
    const std::vector<Tap> across = taps(columns), down = taps(rows);
    const auto channels = static_cast<std::size_t>(image.channels);
    const std::size_t source_row = static_cast<std::size_t>(image.width) * channels;
    const std::size_t row = static_cast<std::size_t>(columns.count) * channels;
    const auto top = static_cast<std::size_t>(down.front().first);
    const std::size_t bottom = static_cast<std::size_t>(down.back().first) + down.back().weights.size();
    // Row by row of the source to the new width, then columns.
    std::vector<float> wide((bottom - top) * row);
    for (std::size_t y = top; y < bottom; ++y)
        (channels == 1 ? scale_row<1> : scale_row<3>)(image.pixels.data() + y * source_row, across,
                                                      wide.data() + (y - top) * row);
    Image result{rows.count, columns.count, image.channels, {}};
    result.pixels.resize(static_cast<std::size_t>(rows.count) * row);
    std::byte* to = result.pixels.data();
    std::vector<double> sums(row);
    for (const Tap& tap : down) {
        std::ranges::fill(sums, 0.0);
        const float* from = wide.data() + (static_cast<std::size_t>(tap.first) - top) * row;
        for (const double weight : tap.weights)
            for (std::size_t x = 0; x < row; ++x) sums[x] += weight * static_cast<double>(*from++);
        for (const double sum : sums) *to++ = to_byte(sum);
    }
    return result;
}

}  // namespace

Image resize(const Image& image, std::int64_t height, std::int64_t width) {
    if (image.height == height && image.width == width) return image;
    return resample(image, {image.height, height, 0, height}, {image.width, width, 0, width});
}

Image resize_and_crop(const Image& image, std::int64_t height, std::int64_t width) {
    if (image.height == height && image.width == width) return image;
    const auto h = static_cast<double>(image.height), w = static_cast<double>(image.width);
    const double scale = std::max(static_cast<double>(height) / h, static_cast<double>(width) / w);
    const std::int64_t scaled_height = std::max(height, static_cast<std::int64_t>(h * scale));
    const std::int64_t scaled_width = std::max(width, static_cast<std::int64_t>(w * scale));
    return resample(image, {image.height, scaled_height, (scaled_height - height) / 2, height},
                    {image.width, scaled_width, (scaled_width - width) / 2, width});
}

}  // namespace tutti
