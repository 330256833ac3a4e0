#include "transformed_data.hpp"

#include <algorithm>
#include <utility>

#include "tutti/train/objective.hpp"

namespace tutti {

std::unique_ptr<Dataset> transformed(std::unique_ptr<Dataset> data, const Config& config, TransformUse use) {
    const auto place = place_targets(config.train, data->info());
    // A locator's are pixels in any case.
    if (place && use == TransformUse::training && config.train.loss != LossChoice::location &&
        data->info().sample_shape.rank() == 3 && std::ranges::any_of(config.data.transforms, is_flip))
        check_places(*data, *place);
    return transform_images(std::move(data), config.data.transforms, config.run.seed, use, place);
}

}  // namespace tutti
