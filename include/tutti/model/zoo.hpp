#pragma once
// Models by name or from a list of layers.

#include <span>
#include <string>
#include <vector>

#include "tutti/base/config.hpp"
#include "tutti/model/graph.hpp"
#include "tutti/model/layers_transformer.hpp"

namespace tutti {

/// What the data bring: one sample's shape, and the number of classes, of which a model may have more, or of
/// targets, of which it has as many.
struct ModelInput {
    Shape sample_shape;
    std::int64_t classes = 0;
    bool targets = false;
    /// What pixels were divided by: one number or one per channel; empty: 1. For models that say pixels.
    std::vector<float> std = {};
    std::int64_t frames = 0;  ///< that the channels are those of; 0: not known
};

/// The model of a config. Config values that contradict the data are refused (UsageError naming both).
/// Names of the parameters: mlp: fc1, fc2, …; lenet and mnist: conv1, conv2, fc1, fc2; resnet18, resnet34,
/// resnet50: torchvision's (locator: behind "backbone."); vit: timm's; videomae and videomae_pretrain:
/// VideoMAE's; temporal_transformer: torch.nn.TransformerEncoderLayer's within
/// a layer; a list of layers: the place in the list, as torch.nn.Sequential
/// does.
GraphSpec build_model(const ModelConfig& config, const ModelInput& input);

/// torch.nn.Sequential of linear layers with ReLU between: hidden widths, then classes.
GraphSpec build_mlp(const Shape& input, std::span<const std::int64_t> hidden, std::int64_t classes);
/// conv 1→32 3×3 pad 1, ReLU, max-pool 2, conv 32→64, ReLU, max-pool 2, fc 128, ReLU, fc.
GraphSpec build_lenet(const Shape& input, std::int64_t classes);
/// The network of PyTorch's mnist example: conv 1→32 3×3, ReLU, conv 32→64 3×3, ReLU, max-pool 2, dropout
/// 0.25, fc 128, ReLU, dropout 0.5, fc.
GraphSpec build_mnist(const Shape& input, std::int64_t classes);
/// resnet18, resnet34 or resnet50, as torchvision has them. stem: "imagenet" (7×7 stride 2, max-pool 3 stride
/// 2) or "cifar" (3×3, no pooling).
GraphSpec build_resnet(const std::string& name, const Shape& input, const std::string& stem,
                       std::int64_t classes);
/// A resnet18, resnet34 or resnet50 up to its last block, three transposed convolutions (4×4, stride 2, 256
/// channels) with batch norms and ReLUs, and a 1×1 convolution: of images {H, W, C} whose sides are multiples
/// of 32 the outputs {H/4, W/4, 2} of LocationLoss, whose stride is 4. Names: those of build_resnet behind
/// "backbone.", then decoder.0 to decoder.8 and head.
GraphSpec build_locator(const std::string& backbone, const Shape& input);
struct VitOptions {
    std::int64_t patch = 4;  ///< height and width in pixels; divides the image's
    std::int64_t dim = 128, depth = 4;
    std::int64_t heads = 4;  ///< divides dim
    double mlp_ratio = 4;
    GeluForm gelu = GeluForm::exact;
    bool class_token = true;  ///< false: the mean of all tokens
    double norm_eps = 1e-6;
    double drop_path = 0;  ///< of the last block; rises linearly from 0 at the first
};
/// The vision transformer (Dosovitskiy et al. 2021) as timm's VisionTransformer builds it, with its names and
/// initial values (pre-norm, GELU, biases everywhere). Without a class token: global_pool 'avg' with
/// the norm before it (fc_norm=False).
GraphSpec build_vit(const Shape& input, const VitOptions& options, std::int64_t classes);
struct VideoMaeOptions {
    Tubelet tubelet;
    std::int64_t dim = 384, depth = 12;
    std::int64_t heads = 6;  ///< divides dim
    double mlp_ratio = 4;
    GeluForm gelu = GeluForm::exact;
    double norm_eps = 1e-6;
    double drop_path = 0;  ///< of the last block; rises linearly from 0 at the first
};
/// The video transformer of VideoMAE (Tong et al. 2022), as its fine-tuning has it: tubelets as tokens, fixed
/// sinusoidal positions, no class token, pre-norm blocks with learned biases of queries and values and none
/// of keys, the mean of all tokens, norm, and a linear layer that begins at a thousandth. Names and initial
/// values are VideoMAE's; the default size is its ViT-S/16. input: {H, W, frames·C}, clips as `trainer pack
/// clips` makes them.
GraphSpec build_videomae(const Shape& input, const VideoMaeOptions& options, std::int64_t classes);
struct MaskingOptions {
    double ratio = 0.9;  ///< of the places of a frame that are hidden, rounded down
    std::int64_t decoder_dim = 192, decoder_depth = 4;
    std::int64_t decoder_heads = 3;  ///< divides decoder_dim
    /// VideoMAE V2's: of each cell of four places of a frame, the fraction that the decoder does not say,
    /// rounded down to quarters; 0: it says all that is hidden (running_cells).
    double decoder_ratio = 0;
};
/// VideoMAE's pre-training: the encoder, which is build_videomae's up to the last block and a norm, sees the
/// tokens that are not hidden (layers_masking.hpp), and a decoder says the pixels of the hidden ones, or of
/// those of them that running cells keep. Output:
/// the differences {M·D} from what they are (make_patch_differences, with `std`), of whose squares the mean
/// is the loss. Names and initial values are VideoMAE's (PretrainVisionTransformer).
GraphSpec build_videomae_pretrain(const Shape& input, const VideoMaeOptions& options,
                                  const MaskingOptions& masking, std::span<const float> std = {});
struct TemporalTransformerOptions {
    /// Widths of the features of a second, side by side; empty: all are one. Of `cross` those of picture,
    /// sound and text.
    std::vector<std::int64_t> features;
    bool cross = false;
    std::int64_t dim = 512;
    std::int64_t depth = 16;  ///< layers; of `cross` of picture and sound each
    std::int64_t heads = 8;   ///< divides dim
    double mlp_ratio = 4;
    std::int64_t text_depth = 3, cross_depth = 3;  ///< of `cross`
};
/// Of sequences {T, F + 1}, whose last feature is 1 for seconds that exist and 0 for padding behind them, the
/// outputs {T, 4} of SegmentLoss: by a pre-norm transformer with ReLU and sinusoidal positions over a linear
/// layer of all features and its norm; or, `cross`, by one over each feature behind an mlp, then of picture
/// and sound over the text and over each other, and a linear layer of both.
GraphSpec build_temporal_transformer(const Shape& input, const TemporalTransformerOptions& options);
/// The layers of `model.layers`, one after the other.
GraphSpec build_sequential(const Shape& input, std::span<const LayerSpec> layers);

/// The same layers in fewest words: arguments that have their default are left out, and [n, n] is n. Two
/// lists of the same layers are then equal.
std::vector<LayerSpec> without_defaults(std::span<const LayerSpec> layers);

/// The kinds that `model.layers` knows, with their arguments, for jobs/configuration.md and for suggestions.
struct LayerKind {
    std::string kind;
    std::vector<std::string> required, optional;
};
std::vector<LayerKind> layer_kinds();

}  // namespace tutti
