#pragma once
// Data sets as a config's augmentation makes them.

#include <memory>

#include "tutti/base/config.hpp"
#include "tutti/input/transforms.hpp"

namespace tutti {

/// transform_images() with data.transforms; targets that are a place (place_targets) move with the pixels.
/// Throws UsageError as that does, and DataError where flips are to move two targets that are named like a
/// place and one lies outside of its sample.
std::unique_ptr<Dataset> transformed(std::unique_ptr<Dataset> data, const Config& config, TransformUse use);

}  // namespace tutti
