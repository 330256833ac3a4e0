// Keys that depend on the model or the optimizer.
#include <gtest/gtest.h>

#include "config_helpers.hpp"

namespace tutti {
namespace {

TEST(ConfigModel, of_another_name_takes_its_own_keys) {
    EXPECT_EQ(parse("model: {name: mlp, hidden: [32], classes: 3}").model.hidden,
              (std::vector<std::int64_t>{32}));
    EXPECT_TRUE(parse("model: {hidden: []}").model.hidden.empty());
    EXPECT_EQ(parse("model: {name: lenet, image: 32}").model.image, 32);
}

TEST(ConfigModel, refuses_the_keys_of_other_models_and_names_them) {
    EXPECT_EQ(refusal("model:\n  image: 28"),
              "jobs/x.yaml:2: model.image: the model mlp does not know this key; remove it, or use lenet or "
              "mnist or vit or videomae or videomae_pretrain or locator, which know it");
    EXPECT_EQ(
        refusal("model:\n  name: lenet\n  hidden: [512, 512]"),
        "jobs/x.yaml:3: model.hidden: the model lenet does not know this key; remove it, or use mlp, which "
        "knows it");
}

TEST(ConfigModel, vit_has_keys_with_defaults_and_ranges) {
    const ModelConfig vit = parse("model: {name: vit}").model;
    EXPECT_EQ(vit.patch, 4);
    EXPECT_EQ(vit.dim, 128);
    EXPECT_EQ(vit.depth, 4);
    EXPECT_EQ(vit.heads, 4);
    EXPECT_EQ(vit.mlp_ratio, 4);
    EXPECT_EQ(vit.gelu, "exact");
    EXPECT_TRUE(vit.class_token);
    EXPECT_EQ(vit.norm_eps, 1e-6);
    EXPECT_EQ(vit.drop_path, 0);
    const ModelConfig other = parse(
                                  "model: {name: vit, patch: 7, dim: 32, depth: 2, heads: 8, mlp_ratio: 2.5, "
                                  "gelu: tanh, class_token: false, norm_eps: 1e-5, drop_path: 0.1}")
                                  .model;
    EXPECT_EQ(other.patch, 7);
    EXPECT_EQ(other.mlp_ratio, 2.5);
    EXPECT_EQ(other.gelu, "tanh");
    EXPECT_FALSE(other.class_token);
    EXPECT_EQ(other.drop_path, 0.1);
    for (const char* wrong : {"patch: 0", "dim: 0", "depth: 0", "heads: 0", "mlp_ratio: 0", "gelu: none",
                              "norm_eps: 0", "drop_path: 1", "drop_path: -0.1"})
        EXPECT_NE(refusal(std::string("model: {name: vit, ") + wrong + "}"), "accepted") << wrong;
    EXPECT_EQ(override_refusal("model.patch=4"),
              "model.patch: the model mlp does not know this key; remove it, or use vit or videomae or "
              "videomae_pretrain, which know it");
}

TEST(ConfigModel, of_residual_networks_has_a_stem) {
    for (const char* name : {"resnet18", "resnet34", "resnet50"}) {
        const std::string text = std::string("model: {name: ") + name + ", stem: cifar, channels: 1}";
        EXPECT_EQ(parse(text).model.stem, "cifar");
        EXPECT_EQ(parse(to_yaml(parse(text))).model, parse(text).model);
    }
    EXPECT_EQ(parse("model: {name: resnet18}").model.stem, "imagenet");
    EXPECT_EQ(override_refusal("model.stem=cifar"),
              "model.stem: the model mlp does not know this key; remove it, or use resnet18 or resnet34 or "
              "resnet50, which know it");
}

TEST(ConfigModel, of_clips_has_the_defaults_of_its_small_size) {
    const ModelConfig usual = parse("model: {name: videomae}").model;
    EXPECT_EQ(usual.frames, 16);
    EXPECT_EQ(usual.tubelet, 2);
    EXPECT_EQ(usual.patch, 16);
    EXPECT_EQ(usual.dim, 384);
    EXPECT_EQ(usual.depth, 12);
    EXPECT_EQ(usual.heads, 6);
    const ModelConfig other = parse("model: {name: videomae, patch: 4, dim: 128, depth: 4, heads: 4}").model;
    EXPECT_EQ(other.patch, 4);
    EXPECT_EQ(other.dim, 128);
    EXPECT_EQ(other.depth, 4);
    EXPECT_EQ(other.heads, 4);
    EXPECT_EQ(override_refusal("model.frames=8"),
              "model.frames: the model mlp does not know this key; remove it, or use videomae or "
              "videomae_pretrain, which know it");
    EXPECT_NE(refusal("model: {name: videomae, class_token: true}"), "accepted");
}

TEST(ConfigModel, that_hides_pixels_has_its_keys_and_its_loss) {
    const Config usual = parse("model: {name: videomae_pretrain}");
    EXPECT_EQ(usual.model.patch, 16);
    EXPECT_EQ(usual.model.dim, 384);
    EXPECT_EQ(usual.model.mask_ratio, 0.9);
    EXPECT_FALSE(usual.model.decoder_dim);
    EXPECT_EQ(usual.model.decoder_depth, 4);
    EXPECT_FALSE(usual.model.decoder_heads);
    EXPECT_EQ(usual.train.loss, LossChoice::reconstruction);
    EXPECT_EQ(parse(to_yaml(usual)), usual);
    const std::string given =
        "model: {name: videomae_pretrain, mask_ratio: 0.75, decoder_dim: 512, decoder_depth: 8, "
        "decoder_heads: "
        "8}\ntrain: {loss: reconstruction}";
    EXPECT_EQ(parse(given).model.decoder_dim, 512);
    EXPECT_EQ(parse(to_yaml(parse(given))), parse(given));
    for (const char* wrong : {"mask_ratio: 0", "mask_ratio: 1", "decoder_dim: 0", "decoder_depth: 0",
                              "decoder_heads: 0", "classes: 2"})
        EXPECT_NE(refusal(std::string("model: {name: videomae_pretrain, ") + wrong + "}"), "accepted")
            << wrong;
    EXPECT_NE(refusal("model: {name: videomae, mask_ratio: 0.5}"), "accepted");
    EXPECT_EQ(
        refusal("model: {name: videomae_pretrain}\ntrain: {loss: mse}"),
        "jobs/x.yaml:2: train.loss: the model videomae_pretrain says hidden pixels, and nothing else; set "
        "train.loss to reconstruction or auto");
    EXPECT_EQ(refusal("model: {name: videomae}\ntrain: {loss: reconstruction}"),
              "jobs/x.yaml:2: train.loss: only the model videomae_pretrain hides anything; set train.loss to "
              "auto, or model.name to videomae_pretrain");
}

TEST(ConfigModel, locator_has_a_backbone_and_a_loss_of_its_own) {
    const Config usual = parse("model: {name: locator}");
    EXPECT_EQ(usual.model.backbone, "resnet18");
    EXPECT_EQ(usual.train.loss, LossChoice::location);
    EXPECT_EQ(usual.train.heatmap_sigma, 8);
    EXPECT_EQ(usual.train.heatmap_weight, 100);
    EXPECT_EQ(usual.train.presence_weight, 1);
    EXPECT_EQ(parse(to_yaml(usual)), usual);
    const Config other = parse("model: {name: locator, backbone: resnet50}\ntrain: {heatmap_sigma: 4.5}");
    EXPECT_EQ(other.model.backbone, "resnet50");
    EXPECT_EQ(parse(to_yaml(other)), other);
    EXPECT_EQ(refusal("model: {name: locator}\ntrain: {loss: mse}"),
              "jobs/x.yaml:2: train.loss: the model locator says presence and place, and nothing else; set "
              "train.loss to location or auto");
    EXPECT_EQ(refusal("model: {name: resnet18}\ntrain: {loss: location}"),
              "jobs/x.yaml:2: train.loss: only the model locator says places; set train.loss to auto, or "
              "model.name to locator");
    EXPECT_EQ(refusal("model: {name: locator, classes: 2}"),
              "jobs/x.yaml:1: model.classes: the model locator says presence and place, and no classes; "
              "remove it");
    EXPECT_NE(refusal("model: {name: locator, stem: cifar}"), "accepted");
    EXPECT_NE(refusal("model: {name: locator}\ntrain: {heatmap_sigma: 0}"), "accepted");
}

TEST(ConfigModel, temporal_transformer_has_sizes_and_a_loss_of_its_own) {
    const Config usual = parse("model: {name: temporal_transformer}");
    EXPECT_EQ(usual.model.dim, 512);
    EXPECT_EQ(usual.model.depth, 16);
    EXPECT_EQ(usual.model.heads, 8);
    EXPECT_EQ(usual.model.fusion, "early");
    EXPECT_EQ(usual.train.loss, LossChoice::segments);
    EXPECT_EQ(parse(to_yaml(usual)), usual);
    const Config cross = parse(
        "model: {name: temporal_transformer, fusion: cross, features: [512, 2048, 384]}\n"
        "train: {focal_alpha: 0.5, segments: {threshold: 0.25, shortest: 5, longest: 60}}");
    EXPECT_EQ(cross.model.depth, 3);
    EXPECT_EQ(cross.model.features, (std::vector<std::int64_t>{512, 2048, 384}));
    EXPECT_EQ(cross.train.segments.threshold, 0.25);
    EXPECT_EQ(parse(to_yaml(cross)), cross);
    EXPECT_EQ(refusal("model: {name: temporal_transformer}\ntrain: {segments: {shortest: 91}}"),
              "jobs/x.yaml:2: train.segments.shortest: train.segments.shortest 91 is above longest "
              "90; let shortest be at most longest");
    EXPECT_EQ(refusal("model: {name: temporal_transformer, classes: 2}"),
              "jobs/x.yaml:1: model.classes: the model temporal_transformer says segments, and no classes; "
              "remove it");
    EXPECT_NE(refusal("model: {name: temporal_transformer, patch: 4}"), "accepted");
    EXPECT_NE(refusal("model: {name: temporal_transformer}\ntrain: {focal_alpha: 1.5}"), "accepted");
    EXPECT_NE(refusal("model: {name: vit, fusion: cross}"), "accepted");
}

TEST(ConfigModel, takes_null_for_a_key_that_is_not_given) {
    EXPECT_EQ(parse("model: {name: mlp, classes: null, hidden: null, image: null}").model, parse("").model);
}

TEST(ConfigModel, of_an_unknown_name_is_refused_with_the_nearest) {
    EXPECT_EQ(
        refusal("model: {name: lennet}"),
        "jobs/x.yaml:1: model.name: lennet is not one of mlp, lenet, mnist, resnet18, resnet34, resnet50, "
        "vit, videomae, videomae_pretrain, locator, temporal_transformer; did you mean lenet?");
}

TEST(ConfigModel, refuses_sizes_below_one) {
    EXPECT_EQ(override_refusal("model.hidden=[3, 0]"), "model.hidden[1]: 0 is not an integer of at least 1");
    EXPECT_EQ(override_refusal("model.hidden=3"),
              "model.hidden: 3 is not a list; write it in brackets, as in [3]");
    EXPECT_EQ(override_refusal("model.init_except=fc"),
              "model.init_except: fc is not a list; write it in brackets, as in [fc]");
    EXPECT_EQ(override_refusal("model.classes=0"), "model.classes: 0 is not an integer of at least 1");
}

TEST(ConfigLayers, keep_kind_arguments_and_place) {
    const Config config =
        parse("model:\n  layers:\n    - conv2d: {out: 32, kernel: [3, 5]}\n    - relu\n    - pool: {}\n");
    ASSERT_EQ(config.model.layers.size(), 3u);
    EXPECT_EQ(config.model.name, "");
    EXPECT_EQ(config.model.layers[0],
              (LayerSpec{"conv2d", {{"out", {"32"}}, {"kernel", {"3", "5"}}}, "model.layers[0]"}));
    EXPECT_EQ(config.model.layers[1], (LayerSpec{"relu", {}, "model.layers[1]"}));
    EXPECT_EQ(config.model.layers[2], (LayerSpec{"pool", {}, "model.layers[2]"}));
}

TEST(ConfigLayers, go_with_classes) {
    EXPECT_EQ(parse("model: {layers: [relu], classes: 4}").model.classes, 4);
}

TEST(ConfigLayers, refuse_the_keys_of_named_models) {
    EXPECT_EQ(refusal("model: {layers: [relu], hidden: [3]}"),
              "jobs/x.yaml:1: model.hidden: a model that is given by its layers does not know this key; "
              "remove it, or use "
              "mlp, which knows it");
}

TEST(ConfigModel, freezes_what_is_named_or_all_but_that) {
    EXPECT_EQ(parse("model: {freeze: [fc1, fc2.bias]}").model.freeze,
              (std::vector<std::string>{"fc1", "fc2.bias"}));
    EXPECT_EQ(parse("model: {freeze_except: [fc3]}").model.freeze_except, (std::vector<std::string>{"fc3"}));
    EXPECT_EQ(refusal("model:\n  freeze: [fc1]\n  freeze_except: [fc2]"),
              "jobs/x.yaml:3: model.freeze_except: given together with model.freeze; remove one of them");
}

TEST(ConfigLayers, are_refused_together_with_a_name) {
    EXPECT_EQ(refusal("model:\n  name: mlp\n  layers: [relu]"),
              "jobs/x.yaml:3: model.layers: given together with model.name; remove one of them, for "
              "example with "
              "model.name=null");
    EXPECT_EQ(parse("model: {name: mlp}", {"model.name=null", "model.layers=[relu]"}).model.layers.size(),
              1u);
}

TEST(ConfigLayers, refuse_an_argument_without_a_name) {
    EXPECT_EQ(override_refusal("model.layers=[relu, {linear: 128}]"),
              "model.layers[1]: the value of linear is 128, which names no argument; write its arguments by "
              "name, as "
              "in {linear: {out: 128}}");
}

TEST(ConfigLayers, refuse_other_forms) {
    const std::string remedy = "; write an entry as relu or as {conv2d: {out: 32, kernel: 3}}";
    EXPECT_EQ(override_refusal("model.layers=[{conv2d: {out: 3}, relu: {}}]"),
              "model.layers[0]: a map does not name one layer" + remedy);
    EXPECT_EQ(override_refusal("model.layers=[[relu]]"),
              "model.layers[0]: a list does not name one layer" + remedy);
    EXPECT_EQ(override_refusal("model.layers=[null]"),
              "model.layers[0]: null does not name one layer" + remedy);
    EXPECT_EQ(override_refusal("model.layers=relu"),
              "model.layers: relu is not a list; write it in brackets, as in [relu]");
    EXPECT_EQ(override_refusal("model.layers=[]"),
              "model.layers: the list of layers is empty; name a model or list its layers");
    EXPECT_EQ(override_refusal("model.layers=[{conv2d: {out: 3, out: 4}}]"),
              "model.layers[0].conv2d.out: given twice; keep one of them");
    EXPECT_EQ(override_refusal("model.layers=[{conv2d: {out: null}}]"),
              "model.layers[0].conv2d.out: null is not a value or a list of values");
    EXPECT_EQ(
        override_refusal("model.layers=[{conv2d: {kernel: [[3]]}}]"),
        "model.layers[0].conv2d.kernel: the list holds something else than single values; do not nest lists");
}

TEST(ConfigOptim, has_the_weight_decay_of_pytorch_unless_it_is_given) {
    EXPECT_EQ(parse("optim: {name: sgd}").optim.weight_decay, 0);
    EXPECT_EQ(parse("optim: {name: adamw}").optim.weight_decay, 0.01);
    EXPECT_EQ(parse("optim: {name: adamw, weight_decay: 0}").optim.weight_decay, 0);
    EXPECT_EQ(parse("optim: {name: sgd}", {"optim.name=adamw"}).optim.weight_decay, 0.01);
}

TEST(ConfigOptim, refuses_keys_of_other_optimizers) {
    EXPECT_EQ(refusal("optim:\n  name: adamw\n  momentum: 0.9"),
              "jobs/x.yaml:3: optim.momentum: 0.9 is not a key of the optimizer adamw; remove it, or use "
              "sgd, which "
              "knows it");
    EXPECT_EQ(override_refusal("optim.betas=[0.8, 0.9]"),
              "optim.betas: a list is not a key of the optimizer sgd; remove it, or use adam or adamw or "
              "lamb, which know it");
}

TEST(ConfigOptim, chosen_behind_the_command_names_what_makes_the_file_fit) {
    const auto refused = [](const char* text, const char* chosen) { return refusal(text, {chosen}); };
    EXPECT_EQ(refused("optim: {momentum: 0.9}", "optim.name=adamw"),
              "jobs/x.yaml:1: optim.momentum: 0.9 is not a key of the optimizer adamw; give "
              "optim.momentum=0, too, or "
              "use sgd, which knows it");
    EXPECT_NO_THROW(parse("optim: {momentum: 0.9}", {"optim.name=adamw", "optim.momentum=0"}));
    EXPECT_EQ(refused("model: {name: mlp, hidden: [32]}", "model.name=vit"),
              "jobs/x.yaml:1: model.hidden: the model vit does not know this key; give model.hidden=null, "
              "too, or use "
              "mlp, which knows it");
    EXPECT_NO_THROW(parse("model: {name: mlp, hidden: [32]}", {"model.name=vit", "model.hidden=null"}));
    EXPECT_EQ(refused("schedule: {name: cosine, min_lr: 0.5}", "schedule.name=step"),
              "jobs/x.yaml:1: schedule.min_lr: 0.5 is not a key of the schedule step; give "
              "schedule.min_lr=0, too, or "
              "use cosine or linear, which know it");
    EXPECT_NO_THROW(
        parse("schedule: {name: cosine, min_lr: 0.5}", {"schedule.name=step", "schedule.min_lr=0"}));
}

TEST(ConfigModel, has_no_more_layers_than_memory_could_hold) {
    EXPECT_EQ(override_refusal("model.depth=1000000000"),
              "model.depth: 1000000000 is not an integer of at most 4096");
    EXPECT_EQ(override_refusal("model.hidden=[4611686018427387904]"),
              "model.hidden[0]: 4611686018427387904 is not an integer of at most 2147483647");
    EXPECT_EQ(override_refusal("model.mlp_ratio=1e300"),
              "model.mlp_ratio: 1e300 is not a number above 0 and up to 1000000");
}

TEST(ConfigOptim, allows_the_default_of_another_optimizers_key) {
    EXPECT_NO_THROW(parse("optim: {name: adamw, momentum: 0}"));
}

TEST(ConfigOptim, takes_two_betas_below_one) {
    EXPECT_EQ(override_refusal("optim.betas=[0.9]"), "optim.betas: the list has 1 value; give 2");
    EXPECT_EQ(override_refusal("optim.betas=[0.9, 1]"),
              "optim.betas[1]: 1 is not a number of at least 0 and below 1");
}

TEST(ConfigOptim, allows_nesterov_only_with_momentum_and_without_dampening) {
    EXPECT_EQ(refusal("optim:\n  nesterov: true"),
              "jobs/x.yaml:2: optim.nesterov: Nesterov's form needs momentum; set optim.momentum, for "
              "example to 0.9");
    EXPECT_EQ(refusal("optim: {nesterov: true, momentum: 0.9, dampening: 0.1}"),
              "jobs/x.yaml:1: optim.nesterov: Nesterov's form allows no dampening; set optim.dampening to 0");
    EXPECT_TRUE(parse("optim: {nesterov: true, momentum: 0.9}").optim.nesterov);
}

}  // namespace
}  // namespace tutti
