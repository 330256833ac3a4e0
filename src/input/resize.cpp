#include "resize.hpp"

#include <algorithm>
#include <cmath>

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

/// Only what is wanted is computed, from the rows that it sees: a long narrow image, scaled whole, can be
/// thousands of times the size of its centre.
Image resample(const Image& image, const Line& rows, const Line& columns) {
    const std::int64_t channels = image.channels, width = columns.count, row = width * channels;
    const std::vector<Tap> across = taps(columns), down = taps(rows);
    const std::int64_t top = down.front().first;
    const std::int64_t bottom = down.back().first + static_cast<std::int64_t>(down.back().weights.size());
    // Row by row of the source to the new width, then columns.
    std::vector<float> wide(static_cast<std::size_t>((bottom - top) * row));
    for (std::int64_t y = top; y < bottom; ++y)
        for (std::int64_t x = 0; x < width; ++x) {
            const Tap& tap = across[static_cast<std::size_t>(x)];
            for (std::int64_t c = 0; c < channels; ++c) {
                double sum = 0;
                for (std::size_t k = 0; k < tap.weights.size(); ++k) {
                    const std::int64_t column = tap.first + static_cast<std::int64_t>(k);
                    const std::int64_t at = (y * image.width + column) * channels + c;
                    sum += tap.weights[k] * std::to_integer<int>(image.pixels[static_cast<std::size_t>(at)]);
                }
                wide[static_cast<std::size_t>((y - top) * row + x * channels + c)] = static_cast<float>(sum);
            }
        }
    Image result{rows.count, width, channels, {}};
    result.pixels.resize(static_cast<std::size_t>(rows.count * row));
    for (std::int64_t y = 0; y < rows.count; ++y) {
        const Tap& tap = down[static_cast<std::size_t>(y)];
        for (std::int64_t x = 0; x < row; ++x) {
            double sum = 0;
            for (std::size_t k = 0; k < tap.weights.size(); ++k)
                sum += tap.weights[k] * wide[static_cast<std::size_t>(
                                            (tap.first - top + static_cast<std::int64_t>(k)) * row + x)];
            result.pixels[static_cast<std::size_t>(y * row + x)] =
                static_cast<std::byte>(std::clamp<long long>(std::llround(sum), 0, 255));
        }
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
