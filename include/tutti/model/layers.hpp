#pragma once
// The layers. Shapes are one sample's: {H, W, C} or {F}. Initial values are PyTorch's defaults. Each throws
// UsageError when the input does not fit (what came, what is wanted).

#include <memory>
#include <optional>

#include "tutti/model/layer.hpp"

namespace tutti {

/// Initial values of a linear layer that differ from PyTorch's defaults.
struct LinearInitial {
    std::optional<Initializer> weight, bias;
};
/// y = x Wᵀ + b on {F}, on {H, W, C}, which it flattens, or on each of the tokens {T, C}. weight {out, in},
/// bias {out}: U(±1/√in) (torch.nn.Linear: Kaiming uniform with a = √5). Behind an image, given as the input
/// or as `flattened_from` (what a flatten layer before it flattened), a file holds the weight for PyTorch's
/// order (C, H, W) and the arena for ours (H, W, C).
std::unique_ptr<Layer> make_linear(const Shape& input, std::int64_t out, bool bias,
                                   const Shape& flattened_from = {}, const LinearInitial& initial = {});

struct Conv2dOptions {
    std::int64_t out = 0;
    std::int64_t kernel_h = 1, kernel_w = 1;
    std::int64_t stride_h = 1, stride_w = 1;
    std::int64_t padding_h = 0, padding_w = 0;
    std::int64_t groups = 1;
    bool bias = true;
};
/// {H, W, C} -> {OH, OW, out}. weight {out, C/groups, KH, KW}, bias {out}: U(±1/√(C/groups·KH·KW))
/// (torch.nn.Conv2d).
std::unique_ptr<Layer> make_conv2d(const Shape& input, const Conv2dOptions& options);

/// max(x, 0) on any shape.
std::unique_ptr<Layer> make_relu(const Shape& input);

struct Pool2dOptions {
    std::int64_t kernel_h = 2, kernel_w = 2;
    std::int64_t stride_h = 2, stride_w = 2;
    std::int64_t padding_h = 0, padding_w = 0;
};
/// {H, W, C} -> {OH, OW, C}, torch.nn.MaxPool2d.
std::unique_ptr<Layer> make_max_pool2d(const Shape& input, const Pool2dOptions& options);

/// {H, W, C} -> {H·W·C}, no data moved. The linear layer behind it takes care of PyTorch's order
/// (make_linear).
std::unique_ptr<Layer> make_flatten(const Shape& input);

}  // namespace tutti
