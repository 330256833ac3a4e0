#include "resize.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace tutti {
namespace {

/// The part of a line of the source that one pixel of the result sees; the weights add up to 1.
struct Tap {
    std::int64_t first = 0;
    std::vector<double> weights;
};

std::vector<Tap> taps(std::int64_t from, std::int64_t to) {
    const double scale = static_cast<double>(from) / static_cast<double>(to);
    const double reach = std::max(scale, 1.0);
    std::vector<Tap> result(static_cast<std::size_t>(to));
    for (std::int64_t i = 0; i < to; ++i) {
        Tap& tap = result[static_cast<std::size_t>(i)];
        const double centre = (static_cast<double>(i) + 0.5) * scale;
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

}  // namespace

Image resize(const Image& image, std::int64_t height, std::int64_t width) {
    if (image.height == height && image.width == width) return image;
    const std::int64_t channels = image.channels;
    const std::vector<Tap> across = taps(image.width, width), down = taps(image.height, height);
    // Row by row of the source to the new width, then columns.
    std::vector<float> wide(static_cast<std::size_t>(image.height * width * channels));
    for (std::int64_t y = 0; y < image.height; ++y)
        for (std::int64_t x = 0; x < width; ++x) {
            const Tap& tap = across[static_cast<std::size_t>(x)];
            for (std::int64_t c = 0; c < channels; ++c) {
                double sum = 0;
                for (std::size_t k = 0; k < tap.weights.size(); ++k) {
                    const std::int64_t column = tap.first + static_cast<std::int64_t>(k);
                    const std::int64_t at = (y * image.width + column) * channels + c;
                    sum += tap.weights[k] * std::to_integer<int>(image.pixels[static_cast<std::size_t>(at)]);
                }
                wide[static_cast<std::size_t>((y * width + x) * channels + c)] = static_cast<float>(sum);
            }
        }
    Image result{height, width, channels, {}};
    const std::int64_t row = width * channels;
    result.pixels.resize(static_cast<std::size_t>(height * row));
    for (std::int64_t y = 0; y < height; ++y) {
        const Tap& tap = down[static_cast<std::size_t>(y)];
        for (std::int64_t x = 0; x < row; ++x) {
            double sum = 0;
            for (std::size_t k = 0; k < tap.weights.size(); ++k)
                sum += tap.weights[k] *
                       wide[static_cast<std::size_t>((tap.first + static_cast<std::int64_t>(k)) * row + x)];
            result.pixels[static_cast<std::size_t>(y * row + x)] =
                static_cast<std::byte>(std::clamp<long long>(std::llround(sum), 0, 255));
        }
    }
    return result;
}

Image resize_and_crop(const Image& image, std::int64_t height, std::int64_t width) {
    const auto h = static_cast<double>(image.height), w = static_cast<double>(image.width);
    const double scale = std::max(static_cast<double>(height) / h, static_cast<double>(width) / w);
    const Image scaled = resize(image, std::max(height, static_cast<std::int64_t>(h * scale)),
                                std::max(width, static_cast<std::int64_t>(w * scale)));
    Image result{height, width, image.channels, {}};
    const std::int64_t top = (scaled.height - height) / 2, left = (scaled.width - width) / 2;
    const auto row = static_cast<std::size_t>(width * image.channels);
    result.pixels.resize(static_cast<std::size_t>(height) * row);
    for (std::int64_t y = 0; y < height; ++y)
        std::memcpy(result.pixels.data() + static_cast<std::size_t>(y) * row,
                    scaled.pixels.data() +
                        static_cast<std::size_t>(((top + y) * scaled.width + left) * image.channels),
                    row);
    return result;
}

}  // namespace tutti
