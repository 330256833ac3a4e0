#pragma once
// The encoder of a masked autoencoder as the beginning of a classifier, and a classifier as that of a
// locator.

#include <span>
#include <string>
#include <vector>

#include "tutti/base/named_tensor.hpp"

namespace tutti {

/// Whether these are the weights of a masked autoencoder under VideoMAE's names: there is
/// encoder.patch_embed.proj.weight, and nothing that only a classifier has (patch_embed.proj.weight,
/// fc_norm.*, head.*).
bool is_masked_autoencoder(std::span<const NamedTensor> tensors);

/// What a classifier `videomae` takes of a masked autoencoder, as VideoMAE's run_class_finetuning.py does:
/// names that begin with encoder. go without it; encoder.norm.*, encoder_to_decoder.*, mask_token and
/// decoder.* are left out; fc_norm.* and head.* come from `initial`, which holds the classifier's initial
/// values. All else keeps its name, encoder.fc_norm.* and encoder.head.*, too, for Graph::load to refuse.
std::vector<NamedTensor> classifier_weights(std::vector<NamedTensor> autoencoder,
                                            std::vector<NamedTensor> initial);

/// Whether these are the weights of a classifier under torchvision's names of residual networks: there are
/// conv1.weight and layer1.0.conv1.weight, and nothing whose name begins with backbone.
bool is_residual_network(std::span<const NamedTensor> tensors);

/// What a `locator` takes of a residual network: all but fc.*, behind "backbone."; decoder.* and head.* come
/// from `initial`, the locator's initial values.
std::vector<NamedTensor> locator_weights(std::vector<NamedTensor> network, std::vector<NamedTensor> initial);

/// `parts` (model.init_except) as a locator has them, of which some may be the network's: "conv1" is
/// "backbone.conv1", and what begins with fc names nothing any more and is left out.
std::vector<std::string> locator_parts(std::vector<std::string> parts, std::span<const NamedTensor> network);

}  // namespace tutti
