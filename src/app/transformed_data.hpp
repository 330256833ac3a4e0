#pragma once
// Data sets as a config's augmentation makes them.

#include <memory>

#include "tutti/base/config.hpp"
#include "tutti/input/transforms.hpp"

namespace tutti {

/// transform_images() with data.transforms; targets that are a place (place_targets) move with the pixels.
std::unique_ptr<Dataset> transformed(std::unique_ptr<Dataset> data, const Config& config, TransformUse use);

}  // namespace tutti
