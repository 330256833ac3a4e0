#include "config_schema_parts.hpp"

#include <limits>

#include "config_row.hpp"

namespace tutti::config {

void add_model(std::vector<Row>& rows) {
    using M = ModelConfig;
    const auto model = &Config::model;
    // So that the products of two of them stay in 64 bits.
    constexpr std::int64_t largest = std::numeric_limits<std::int32_t>::max();
    const auto dimension = integer(1, largest);
    const auto size = optional(dimension);
    const auto names = choice<std::string>({{"mlp", "mlp"},
                                            {"lenet", "lenet"},
                                            {"mnist", "mnist"},
                                            {"resnet18", "resnet18"},
                                            {"resnet34", "resnet34"},
                                            {"resnet50", "resnet50"},
                                            {"vit", "vit"},
                                            {"videomae", "videomae"},
                                            {"videomae_pretrain", "videomae_pretrain"},
                                            {"locator", "locator"},
                                            {"temporal_transformer", "temporal_transformer"}});
    const auto fusions = choice<std::string>({{"early", "early"}, {"cross", "cross"}});
    const auto backbones =
        choice<std::string>({{"resnet18", "resnet18"}, {"resnet34", "resnet34"}, {"resnet50", "resnet50"}});
    const auto stems = choice<std::string>({{"imagenet", "imagenet"}, {"cifar", "cifar"}});
    const auto gelu_forms = choice<std::string>({{"exact", "exact"}, {"tanh", "tanh"}});
    const Range positive{.low = 0, .low_open = true};
    const Range ratio{.low = 0, .high = 1e6, .low_open = true};
    const Range fraction{.low = 0, .high = 1, .high_open = true};
    rows.insert(
        rows.end(),
        {
            default_is("mlp", row("model.name", at(model, &M::name), names, "a built-in model")),
            only({"mlp"}, row("model.hidden", at(model, &M::hidden), list_of(dimension),
                              "widths of the hidden layers")),
            row("model.classes", at(model, &M::classes), size, "outputs; null: the data set's"),
            only({"lenet", "mnist", "resnet18", "resnet34", "resnet50", "vit", "videomae",
                  "videomae_pretrain", "locator"},
                 row("model.channels", at(model, &M::channels), size,
                     "channels of the input (videomae: of all frames together); null: the data set's")),
            only({"lenet", "mnist", "vit", "videomae", "videomae_pretrain", "locator"},
                 row("model.image", at(model, &M::image), size,
                     "height and width in pixels; null: the data set's")),
            only({"resnet18", "resnet34", "resnet50"},
                 row("model.stem", at(model, &M::stem), stems,
                     "first layers; imagenet: 7x7 stride 2 and max-pool, cifar: 3x3 stride 1, no pool")),
            only({"locator"}, row("model.backbone", at(model, &M::backbone), backbones,
                                  "the residual network in front of the heat map")),
            only({"videomae", "videomae_pretrain"},
                 row("model.frames", at(model, &M::frames), dimension, "frames of a clip")),
            only({"videomae", "videomae_pretrain"}, row("model.tubelet", at(model, &M::tubelet), dimension,
                                                        "frames of a token; divides model.frames")),
            only({"vit", "videomae", "videomae_pretrain"},
                 default_is("4, videomae: 16", row("model.patch", at(model, &M::patch), dimension,
                                                   "height and width of a patch in pixels; divides the "
                                                   "image's"))),
            only({"vit", "videomae", "videomae_pretrain", "temporal_transformer"},
                 default_is("128, videomae: 384, temporal_transformer: 512",
                            row("model.dim", at(model, &M::dim), dimension, "width of a token"))),
            only({"vit", "videomae", "videomae_pretrain", "temporal_transformer"},
                 default_is("4, videomae: 12, temporal_transformer: 16, with model.fusion: cross 3",
                            row("model.depth", at(model, &M::depth), integer(1, 4096),
                                "transformer layers; with model.fusion: cross of picture and sound each"))),
            only({"vit", "videomae", "videomae_pretrain", "temporal_transformer"},
                 default_is("4, videomae: 6, temporal_transformer: 8",
                            row("model.heads", at(model, &M::heads), dimension,
                                "attention heads; divides model.dim"))),
            only({"vit", "videomae", "videomae_pretrain", "temporal_transformer"},
                 row("model.mlp_ratio", at(model, &M::mlp_ratio), number(ratio),
                     "width of the hidden layer over that of a token; the product is rounded")),
            only({"vit", "videomae", "videomae_pretrain"},
                 row("model.gelu", at(model, &M::gelu), gelu_forms,
                     "activation of the hidden layers; exact: x times the normal distribution's "
                     "function, as torch.nn.GELU(); tanh: approximate='tanh'")),
            only({"vit"}, row("model.class_token", at(model, &M::class_token), boolean(),
                              "classify by a token of its own; false: by the mean of all tokens")),
            only({"vit", "videomae", "videomae_pretrain"},
                 row("model.norm_eps", at(model, &M::norm_eps), number(positive),
                     "added to the variance in layer norms")),
            only({"vit", "videomae", "videomae_pretrain"},
                 row("model.drop_path", at(model, &M::drop_path), number(fraction),
                     "probability that a sample skips a branch of the last layer; rises from 0 at the "
                     "first, in encoder and decoder")),
            only({"videomae_pretrain"},
                 row("model.mask_ratio", at(model, &M::mask_ratio),
                     number({.low = 0, .high = 1, .low_open = true, .high_open = true}),
                     "fraction of the patches of a frame that is hidden, in all frames of a clip; rounded "
                     "down")),
            only({"videomae_pretrain"},
                 row("model.decoder_mask_ratio", at(model, &M::decoder_mask_ratio),
                     number({.low = 0, .high = 1, .high_open = true}),
                     "fraction of the patches that the decoder is not asked for, in quarters, by cells of 2 "
                     "x 2 that run over the frames (VideoMAE V2: 0.5); 0: it says all that is hidden")),
            only({"videomae_pretrain"},
                 row("model.decoder_dim", at(model, &M::decoder_dim), size,
                     "width of a token in the decoder; null: half of model.dim, at most 512")),
            only({"videomae_pretrain"}, row("model.decoder_depth", at(model, &M::decoder_depth),
                                            integer(1, 4096), "transformer layers of the decoder")),
            only({"videomae_pretrain"},
                 row("model.decoder_heads", at(model, &M::decoder_heads), size,
                     "attention heads of the decoder; divides model.decoder_dim; null: half of "
                     "model.heads")),
            only({"temporal_transformer"}, row("model.features", at(model, &M::features), list_of(dimension),
                                               "widths of the features of a second, side by side in the "
                                               "data, which model.fusion: cross takes "
                                               "apart; []: all together")),
            only({"temporal_transformer"},
                 row("model.fusion", at(model, &M::fusion), fusions,
                     "early: one transformer over all features; cross: of three features, picture, sound "
                     "and text, a transformer each, then picture and sound attend to the text and to each "
                     "other")),
            only({"temporal_transformer"},
                 row("model.text_depth", at(model, &M::text_depth), integer(1, 4096),
                     "transformer layers of the text; model.fusion: cross")),
            only({"temporal_transformer"},
                 row("model.cross_depth", at(model, &M::cross_depth), integer(1, 4096),
                     "layers of each attention to another feature; model.fusion: cross")),
            only(
                {layers_model},
                row("model.layers", at(model, &M::layers), layers(),
                    "the layers one by one, instead of a name: [{conv2d: {out: 32, kernel: 3}}, relu, ...]")),
            row("model.init_from", at(model, &M::init_from), path("FILE", "none"),
                "initial weights by PyTorch's names: a checkpoint, a run directory (its latest; of both not "
                "train.ema's average), other HDF5 or safetensors; vit as timm, torchvision and Hugging Face "
                "name it; videomae also takes the encoder of a masked autoencoder, locator a resnet of its "
                "backbone"),
            row("model.init_except", at(model, &M::init_except), list_of(text("NAME")),
                "weights that begin anew all the same, by their names or the beginnings of these up to a "
                "dot: [fc] "
                "for other classes; what the file has of them is not read"),
            row("model.freeze", at(model, &M::freeze), list_of(text("NAME")),
                "weights that keep their values, named likewise: [conv1, bn1, layer1]; no gradients, no "
                "state, nothing sent"),
            row("model.freeze_except", at(model, &M::freeze_except), list_of(text("NAME")),
                "all weights but these keep their values: [fc] trains the head of a resnet alone"),
            row("model.freeze_statistics", at(model, &M::freeze_statistics), boolean(),
                "batch norms whose weights are frozen keep their running statistics, too, and normalise by "
                "them"),
        });
}

}  // namespace tutti::config
