#pragma once
// Models by name or from a list of layers.

#include <span>
#include <string>
#include <vector>

#include "tutti/base/config.hpp"
#include "tutti/model/graph.hpp"

namespace tutti {

/// What the data bring: one sample's shape and the number of classes.
struct ModelInput {
    Shape sample_shape;
    std::int64_t classes = 0;
};

/// The model of a config. Config values that contradict the data are refused (UsageError naming both).
/// Names of the parameters: mlp: fc1, fc2, …; lenet: conv1, conv2, fc1, fc2; a list of layers: the place in
/// the list, as torch.nn.Sequential does.
GraphSpec build_model(const ModelConfig& config, const ModelInput& input);

/// torch.nn.Sequential of linear layers with ReLU between: hidden widths, then classes.
GraphSpec build_mlp(const Shape& input, std::span<const std::int64_t> hidden, std::int64_t classes);
/// conv 1→32 3×3 pad 1, ReLU, max-pool 2, conv 32→64, ReLU, max-pool 2, fc 128, ReLU, fc.
GraphSpec build_lenet(const Shape& input, std::int64_t classes);
/// The layers of `model.layers`, one after the other.
GraphSpec build_sequential(const Shape& input, std::span<const LayerSpec> layers);

/// The kinds that `model.layers` knows, with their arguments, for the README and for suggestions.
struct LayerKind {
    std::string kind;
    std::vector<std::string> required, optional;
};
std::vector<LayerKind> layer_kinds();

}  // namespace tutti
