#include "multi_scale_crop.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>

namespace tutti {
namespace {

/// The last places in the list of scales that a height and a width may be apart (max_distort).
constexpr std::int64_t distortion = 1;

/// In fourths of the rows and of the columns beside the cut: corners, centre, middles of edges, centres of
/// quarters.
constexpr std::array<std::array<std::int64_t, 2>, 13> places{
    {{0, 0}, {0, 4}, {4, 0}, {4, 4}, {2, 2}, {2, 0}, {2, 4}, {4, 2}, {0, 2}, {1, 1}, {1, 3}, {3, 1}, {3, 3}}};

std::int64_t side(std::int64_t base, double scale, std::int64_t wanted, std::int64_t image) {
    const auto scaled =
        std::max<std::int64_t>(1, static_cast<std::int64_t>(static_cast<double>(base) * scale));
    return std::abs(scaled - wanted) < 3 && wanted <= image ? wanted : scaled;
}

}  // namespace

MultiScaleCrop::MultiScaleCrop(const TransformSpec& spec, std::int64_t height, std::int64_t width,
                               std::int64_t channels, DType dtype)
    : ScaledCrop(spec, height, width, height, channels, dtype), base_(std::min(height, width)) {
    keep(base_, base_);
    const auto scales = static_cast<std::int64_t>(spec.scales.size());
    for (std::int64_t i = 0; i < scales; ++i)
        for (std::int64_t k = std::max<std::int64_t>(0, i - distortion);
             k < std::min(scales, i + distortion + 1); ++k) {
            shapes_.emplace_back(side(base_, spec.scales[static_cast<std::size_t>(i)], spec.height, height),
                                 side(base_, spec.scales[static_cast<std::size_t>(k)], spec.width, width));
            keep(shapes_.back().first, shapes_.back().second);
        }
}

MultiScaleCrop::Cut MultiScaleCrop::random_cut(const RandomStream& random, std::uint64_t address) const {
    const auto one_of = [&](std::uint64_t place, std::size_t count) {
        return static_cast<std::size_t>(draw_below(random, place, static_cast<std::int64_t>(count)));
    };
    const auto [h, w] = shapes_[one_of(address, shapes_.size())];
    const auto [down, right] = places[one_of(address + 1, places.size())];
    return {h, w, down * ((height_ - h) / 4), right * ((width_ - w) / 4)};
}

}  // namespace tutti
