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

/// The same on tokens {T, C}, with weight and bias as they are given: their arena shapes are seen as {out, C}
/// and {out}.
std::unique_ptr<Layer> make_linear(const Shape& tokens, const ParameterSpec& weight,
                                   const ParameterSpec& bias);

struct Conv2dOptions {
    std::int64_t out = 0;
    std::int64_t kernel_h = 1, kernel_w = 1;
    std::int64_t stride_h = 1, stride_w = 1;
    std::int64_t padding_h = 0, padding_w = 0;
    std::int64_t groups = 1;
    bool bias = true;
    std::optional<Initializer> weight_initial;  ///< instead of the default
};
/// {H, W, C} -> {OH, OW, out}. weight {out, C/groups, KH, KW}, bias {out}: U(±1/√(C/groups·KH·KW))
/// (torch.nn.Conv2d).
std::unique_ptr<Layer> make_conv2d(const Shape& input, const Conv2dOptions& options);

struct ConvTranspose2dOptions {
    std::int64_t out = 0;
    std::int64_t kernel_h = 1, kernel_w = 1;
    std::int64_t stride_h = 1, stride_w = 1;
    std::int64_t padding_h = 0, padding_w = 0;
    std::int64_t output_padding_h = 0, output_padding_w = 0;
    bool bias = true;
};
/// {H, W, C} -> {OH, OW, out}, OH = (H − 1)·stride − 2·padding + kernel + output_padding. weight
/// {C, out, KH, KW}, bias {out}: U(±1/√(out·KH·KW)) (torch.nn.ConvTranspose2d, which counts the fan-in so).
std::unique_ptr<Layer> make_conv_transpose2d(const Shape& input, const ConvTranspose2dOptions& options);

struct BatchNormOptions {
    double eps = 1e-5;
    double momentum = 0.1;
};
/// Per channel of {H, W, C} or {F} (torch.nn.BatchNorm2d, BatchNorm1d). weight {C} 1, bias {C} 0; buffers
/// running_mean {C} 0, running_var {C} 1, num_batches_tracked 0 (may be absent in a file). Training
/// normalises with the batch's mean and biased variance: of this rank's samples, or with
/// sync_batch_statistics of all ranks'. The running statistics follow the mean, weighted by sample count, of
/// the ranks' means and unbiased variances. Where PyTorch refuses to train, with one value per channel, the
/// output is the bias and running_var stays. Evaluation normalises with the running statistics. Behind a
/// flattened image, given as `image` {H, W, C}, a file holds all of them in PyTorch's order (C, H, W).
std::unique_ptr<Layer> make_batch_norm2d(const Shape& input, const BatchNormOptions& options,
                                         const Shape& image = {});

/// The sum of two inputs of any one shape: the end of a residual block.
std::unique_ptr<Layer> make_add(const Shape& input);

/// Zeroes each element with `probability` and divides the others by 1 − probability in training, on any shape
/// (torch.nn.Dropout). The numbers are addressed by seed, epoch, position of the sample and number of the
/// layer: they do not depend on ranks or batches. Evaluation changes nothing.
std::unique_ptr<Layer> make_dropout(const Shape& input, double probability);

/// max(x, 0) on any shape.
std::unique_ptr<Layer> make_relu(const Shape& input);

struct Pool2dOptions {
    std::int64_t kernel_h = 2, kernel_w = 2;
    std::int64_t stride_h = 2, stride_w = 2;
    std::int64_t padding_h = 0, padding_w = 0;
};
/// {H, W, C} -> {OH, OW, C}, torch.nn.MaxPool2d.
std::unique_ptr<Layer> make_max_pool2d(const Shape& input, const Pool2dOptions& options);

/// {H, W, C} -> {OH, OW, C} (torch.nn.AvgPool2d): the sum over the window, divided by its size, to which the
/// padding counts when count_include_pad.
std::unique_ptr<Layer> make_avg_pool2d(const Shape& input, const Pool2dOptions& options,
                                       bool count_include_pad = true);

/// {H, W, C} -> {out_h, out_w, C} (torch.nn.AdaptiveAvgPool2d): output row i averages the input rows
/// [⌊i·H/out_h⌋, ⌈(i + 1)·H/out_h⌉), columns alike. 1 × 1 averages the whole image.
std::unique_ptr<Layer> make_adaptive_avg_pool2d(const Shape& input, std::int64_t out_h, std::int64_t out_w);

/// {H, W, C} -> {H·W·C}, no data moved. The linear layer behind it takes care of PyTorch's order
/// (make_linear).
std::unique_ptr<Layer> make_flatten(const Shape& input);

}  // namespace tutti
