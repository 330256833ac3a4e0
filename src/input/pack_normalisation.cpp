#include "pack_normalisation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tutti/base/error.hpp"

namespace tutti {
namespace {

/// Repeated until there are so many.
std::vector<float> repeated(const std::vector<float>& values, std::int64_t count) {
    std::vector<float> all(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = values[i % values.size()];
    return all;
}

}  // namespace

PackNormalisation::PackNormalisation(const std::vector<float>& mean, const std::vector<float>& std)
    : mean_(mean), std_(std) {
    if (mean.size() != std.size())
        throw UsageError(fmt::format("--mean has {} numbers, --std {}", mean.size(), std.size()),
                         "give as many of both");
    const auto is_no_number = [](float value) { return !std::isfinite(value); };
    if (std::ranges::any_of(mean, is_no_number) || std::ranges::any_of(std, is_no_number))
        throw UsageError("--mean and --std must be finite numbers", "give a number for each channel");
    if (const auto at = std::ranges::find_if(std, [](float value) { return value <= 0; }); at != std.end())
        throw UsageError(fmt::format("--std must be greater than 0, but has {}", *at),
                         "give 1 where nothing shall be divided");
}

void PackNormalisation::put_into(DatasetInfo& info, std::int64_t frames) const {
    if (mean_.empty()) return;
    const std::int64_t channels = info.sample_shape[info.sample_shape.rank() - 1];
    const auto given = static_cast<std::int64_t>(mean_.size());
    if (given != 1 && given != channels / frames && given != channels) {
        const char* const things = info.dtype == DType::f32 ? "features" : "channels";
        throw UsageError(
            fmt::format("--mean and --std have {} numbers, but samples have {} {}{}", given, channels, things,
                        frames > 1 ? fmt::format(" ({} frames of {})", frames, channels / frames) : ""),
            fmt::format("give one number, or {} of each", channels / frames));
    }
    info.mean = repeated(mean_, channels);
    info.std = repeated(std_, channels);
}

}  // namespace tutti
