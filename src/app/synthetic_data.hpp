#pragma once
// `--synthetic` and `--shape` of benches: random samples in memory instead of a data set.

#include <functional>
#include <memory>
#include <string>

#include "training_recipe.hpp"

namespace tutti {

class OptionParser;

/// The two options. `shape` as typed: synthetic_shape() reads it.
void add_synthetic_options(OptionParser& parser, RecipeArguments& recipe, std::string& shape);

/// "28x28x1", "900x2945", "784"; of nothing a shape without dimensions. Throws UsageError, also for a shape
/// without --synthetic.
Shape synthetic_shape(const RecipeArguments& recipe, const std::string& text);

/// For open_training: samples enough for so many updates in one epoch, so that the loader begins once; of
/// `sample_shape`, or, where that has no dimensions, {image, image, channels} of the model, where it names
/// them, else {28, 28, 1}, of a locator {96, 96, 3}, of clips {224, 224, 3 · frames}; for the model
/// temporal_transformer sequences with segments (make_random_sequences()), {256, 2945} unless given. Empty
/// where the recipe does not ask for it. What is returned throws UsageError for a shape that the model does
/// not take, and where there would be more than can be counted.
std::function<std::unique_ptr<Dataset>()> synthetic_data(const RecipeArguments& recipe, const Config& config,
                                                         const Shape& sample_shape, int ranks,
                                                         std::int64_t updates);

/// Where the recipe asks for random samples: the weights stay as they begin, by a learning rate of 0. There
/// is nothing to learn in them, and at many rates the loss would be no number after some steps, which compute
/// the same at any rate.
void keep_first_weights(const RecipeArguments& recipe, Config& config);

}  // namespace tutti
