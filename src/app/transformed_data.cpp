#include "transformed_data.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "tutti/base/error.hpp"
#include "tutti/train/objective.hpp"

namespace tutti {
namespace {

bool is_flip(const TransformSpec& spec) {
    return spec.kind == TransformSpec::Kind::horizontal_flip ||
           spec.kind == TransformSpec::Kind::vertical_flip;
}

/// Their names make numbers a place; those of another unit, or of a larger picture, mostly show.
void check_places(const Dataset& data, const PlaceTargets& place) {
    const DatasetInfo& info = data.info();
    const std::span<const float> targets = data.targets();
    const struct {
        std::int64_t target, pixels;
    } axes[] = {{place.x, info.sample_shape[1]}, {place.y, info.sample_shape[0]}};
    for (std::int64_t sample = 0; sample < info.samples; ++sample)
        for (const auto& [target, pixels] : axes) {
            const float value = targets[static_cast<std::size_t>(sample * info.targets + target)];
            if (value >= -0.5F && value <= static_cast<float>(pixels) - 0.5F) continue;
            throw DataError(
                fmt::format(
                    "{}: sample {} has {} {}, outside of its {} pixels, so a flip (data.transforms) cannot "
                    "move it with the pixels",
                    data.name(), sample, info.target_names[static_cast<std::size_t>(target)], value, pixels),
                "pack places in pixels of the samples (trainer pack images --target-pixels), or remove the "
                "flip");
        }
}

}  // namespace

std::unique_ptr<Dataset> transformed(std::unique_ptr<Dataset> data, const Config& config, TransformUse use) {
    const auto place = place_targets(config.train, data->info());
    // A locator's are pixels in any case.
    if (place && use == TransformUse::training && config.train.loss != LossChoice::location &&
        data->info().sample_shape.rank() == 3 && std::ranges::any_of(config.data.transforms, is_flip))
        check_places(*data, *place);
    return transform_images(std::move(data), config.data.transforms, config.run.seed, use, place);
}

}  // namespace tutti
