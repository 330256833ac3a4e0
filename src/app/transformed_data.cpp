#include "transformed_data.hpp"

#include <utility>

#include "tutti/train/objective.hpp"

namespace tutti {

std::unique_ptr<Dataset> transformed(std::unique_ptr<Dataset> data, const Config& config, TransformUse use) {
    const auto place = place_targets(config.train, data->info());
    return transform_images(std::move(data), config.data.transforms, config.run.seed, use, place);
}

}  // namespace tutti
