#include "pixel_targets.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "tutti/base/error.hpp"

namespace tutti {

PixelTargets::PixelTargets(std::span<const std::string> targets, std::span<const std::string> pixels) {
    if (pixels.size() % 2 != 0)
        throw UsageError(fmt::format("--target-pixels names {} columns, and a place has two", pixels.size()),
                         "name x and y of each place: x,y or x1,y1,x2,y2");
    for (std::size_t i = 0; i < pixels.size(); ++i) {
        const auto target = std::ranges::find(targets, pixels[i]);
        if (target == targets.end())
            throw UsageError("--target-pixels: " + pixels[i] + " is not among the columns of --target",
                             fmt::format("name some of {}", fmt::join(targets, ", ")));
        const std::span<const std::string> before = pixels.first(i);
        if (std::ranges::find(before, pixels[i]) != before.end())
            throw UsageError("--target-pixels names the column " + pixels[i] + " twice",
                             "name each column once");
        (i % 2 == 0 ? x_ : y_).push_back(static_cast<std::size_t>(target - targets.begin()));
    }
}

void PixelTargets::move(std::span<float> values, const Placement& placement) const {
    const auto move_along = [&values](const std::vector<std::size_t>& targets, const PlacedLine& line) {
        for (const std::size_t target : targets)
            values[target] = static_cast<float>(line.position(static_cast<double>(values[target])));
    };
    move_along(x_, placement.columns);
    move_along(y_, placement.rows);
}

bool PixelTargets::has_place_outside(std::span<const float> values, const Placement& placement) const {
    const auto is_outside = [&values](const std::vector<std::size_t>& targets, const PlacedLine& line) {
        return std::ranges::any_of(targets, [&](std::size_t target) {
            const auto end = static_cast<float>(line.size) - 0.5F;
            return values[target] < -0.5F || values[target] > end;
        });
    };
    return is_outside(x_, placement.columns) || is_outside(y_, placement.rows);
}

}  // namespace tutti
