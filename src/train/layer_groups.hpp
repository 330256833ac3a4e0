#pragma once
// Which parameters form a layer, for layer-wise learning rates.

#include <cstddef>
#include <string>
#include <vector>

namespace tutti {

/// The layer of each parameter, from 0. `names` are PyTorch's, in the order of registration. Where a name
/// holds "blocks.N." or "layers.N.", as in transformers, or "layerS.B.", as in residual networks, each block
/// is a layer, and what stands between two, before the first or behind the last is one together (so do BEiT
/// and MAE; timm counts the norm in front of the head with the last block); else every module that has
/// parameters is one. Pure.
std::vector<std::size_t> layer_groups(const std::vector<std::string>& names);

/// decay^(L − i) for the layer i of each parameter, where L is the last one: 1 there. Pure.
std::vector<double> layer_scales(const std::vector<std::string>& names, double decay);

}  // namespace tutti
