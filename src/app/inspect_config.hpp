#pragma once
// What a config will do: layers, memory, buckets.

#include <cstdint>

#include "training_recipe.hpp"

namespace tutti {

/// Prints what training by recipe.config_path on `world` ranks of this host computes, holds and sends. The
/// shapes are those of data.train, or, with recipe.own_data and where data.train is not set, those of
/// synthetic_data(), of `sample_shape` where it has dimensions. Throws UsageError and DataError.
void inspect_config(const RecipeArguments& recipe, const Shape& sample_shape, std::int64_t world);

}  // namespace tutti
