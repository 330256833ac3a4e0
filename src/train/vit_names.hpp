#pragma once
// Vision transformers under the names of other libraries.

#include <vector>

#include "tutti/base/named_tensor.hpp"

namespace tutti {

/// Weights of torchvision's VisionTransformer (class_token, conv_proj.weight, …, also with the mlp.linear_1
/// and linear_2 of its first version) or of Hugging Face's ViTModel and ViTForImageClassification
/// (embeddings.cls_token, …, with or without vit. before them) get the names that timm and the model `vit`
/// have; query, key and value of a layer, which are apart in the latter, become its attn.qkv. What has no
/// such name keeps its own, for Graph::load to refuse; all other weights stay as they are.
void take_timms_names(std::vector<NamedTensor>& tensors);

}  // namespace tutti
