#include "random_resized_crop.hpp"

#include <algorithm>
#include <cmath>

namespace tutti {
namespace {

constexpr int attempts = 10;

/// As Python rounds: halves to even. What is far beyond any image stays beyond it.
std::int64_t rounded(double value) {
    return static_cast<std::int64_t>(std::nearbyint(std::min(value, 1e9)));
}

}  // namespace

RandomResizedCrop::RandomResizedCrop(const TransformSpec& spec, std::int64_t height, std::int64_t width,
                                     std::int64_t channels, DType dtype)
    : ScaledCrop(spec, height, width, height, channels, dtype), fallback_(fallback()), central_(evaluated()) {
    keep(central_.height, central_.width);
}

RandomResizedCrop::Cut RandomResizedCrop::random_cut(const RandomStream& random,
                                                     std::uint64_t address) const {
    const auto between = [&](std::uint64_t place, double low, double high) {
        return low + (high - low) * random.uniform(place);
    };
    for (int attempt = 0; attempt < attempts; ++attempt, address += 4) {
        const double area =
            static_cast<double>(height_ * width_) * between(address, spec_.scale[0], spec_.scale[1]);
        const double ratio =
            std::exp(between(address + 1, std::log(spec_.ratio[0]), std::log(spec_.ratio[1])));
        const std::int64_t w = rounded(std::sqrt(area * ratio)), h = rounded(std::sqrt(area / ratio));
        if (w < 1 || w > width_ || h < 1 || h > height_) continue;
        return {h, w, draw_below(random, address + 2, height_ - h + 1),
                draw_below(random, address + 3, width_ - w + 1)};
    }
    return fallback_;
}

RandomResizedCrop::Cut RandomResizedCrop::fallback() const {
    const double shape = static_cast<double>(width_) / static_cast<double>(height_);
    std::int64_t h = height_, w = width_;
    if (shape < spec_.ratio[0])
        h = std::clamp<std::int64_t>(rounded(static_cast<double>(w) / spec_.ratio[0]), 1, height_);
    else if (shape > spec_.ratio[1])
        w = std::clamp<std::int64_t>(rounded(static_cast<double>(h) * spec_.ratio[1]), 1, width_);
    return {h, w, (height_ - h) / 2, (width_ - w) / 2};
}

RandomResizedCrop::Cut RandomResizedCrop::evaluated() const {
    const double scale = std::min(static_cast<double>(height_) / static_cast<double>(spec_.height),
                                  static_cast<double>(width_) / static_cast<double>(spec_.width)) *
                         spec_.center;
    const auto side = [&](std::int64_t wanted, std::int64_t image) {
        return std::clamp<std::int64_t>(rounded(static_cast<double>(wanted) * scale), 1, image);
    };
    return in_the_centre(side(spec_.height, height_), side(spec_.width, width_));
}

}  // namespace tutti
