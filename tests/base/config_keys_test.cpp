// Keys: unknown, misplaced, repeated, and texts that are not a map of keys.
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "config_helpers.hpp"
#include "tutti/base/suggest.hpp"

namespace tutti {
namespace {

TEST(ConfigKeys, that_are_misspelt_are_refused_with_line_and_suggestion) {
    EXPECT_EQ(refusal("run:\n  seed: 1\n\ntrain:\n  epochs: 2\n\n  batchsize: 64\n"),
              "jobs/x.yaml:7: train.batchsize is not a known key; did you mean train.batch_size?");
}

TEST(ConfigKeys, of_a_nested_section_are_suggested_too) {
    EXPECT_EQ(
        refusal("train: {checkpoint: {evry: 1 epoch}}"),
        "jobs/x.yaml:1: train.checkpoint.evry is not a known key; did you mean train.checkpoint.every?");
}

TEST(ConfigKeys, that_exist_in_another_section_are_suggested_there) {
    EXPECT_EQ(refusal("train:\n  momentum: 0.1"),
              "jobs/x.yaml:2: train.momentum is not a known key; did you mean optim.momentum?");
    EXPECT_EQ(refusal("batch_size: 3"),
              "jobs/x.yaml:1: batch_size is not a known key; did you mean train.batch_size?");
}

TEST(ConfigKeys, that_are_misspelt_and_misplaced_are_suggested_there) {
    EXPECT_EQ(refusal("data: {batchsize: 3}"),
              "jobs/x.yaml:1: data.batchsize is not a known key; did you mean train.batch_size?");
}

TEST(ConfigKeys, that_are_near_to_nothing_are_refused_with_the_keys_of_the_section) {
    EXPECT_EQ(refusal("train: {checkpoint: {zzzzzzzz: 1}}"),
              "jobs/x.yaml:1: train.checkpoint.zzzzzzzz is not a known key; the keys of train.checkpoint "
              "are: every, "
              "keep, best, best_from");
}

TEST(ConfigKeys, at_the_top_are_suggested) {
    EXPECT_EQ(refusal("trian: {epochs: 1}"), "jobs/x.yaml:1: trian is not a known key; did you mean train?");
    EXPECT_EQ(refusal("optimizer: {lr: 1}"),
              "jobs/x.yaml:1: optimizer is not a known key; did you mean optim?");
}

TEST(ConfigKeys, in_an_unknown_section_are_answered_with_it) {
    EXPECT_EQ(refusal("trainer: {max_epochs: 3, batch_size: 8}"),
              "jobs/x.yaml:1: trainer is not a known key; did you mean train, with train.epochs for "
              "max_epochs?");
    EXPECT_EQ(refusal("trainer:\n  max_epochs: 3\n  gradient_clip_val: 1\n  unheard_of: 1"),
              "jobs/x.yaml:1: trainer is not a known key; did you mean train, with train.epochs for "
              "max_epochs, optim.clip_norm for gradient_clip_val?");
}

TEST(ConfigKeys, of_pytorch_are_answered_with_ours) {
    for (const char* text : {"learning_rate: 0.1", "optim: {learning_rate: 0.1}"})
        EXPECT_NE(refusal(text).find("; did you mean optim.lr?"), std::string::npos) << text;
    for (const auto& [given, ours] : {std::pair("data.num_workers=2", "data.workers"),
                                      {"train.grad_clip=1", "optim.clip_norm"},
                                      {"gradient_accumulation_steps=2", "train.accumulate"},
                                      {"train.gradient_accumulation_steps=2", "train.accumulate"},
                                      {"model.num_classes=3", "model.classes"},
                                      {"model.arch=resnet18", "model.name"},
                                      {"output_dir=x", "run.dir"}})
        EXPECT_TRUE(override_refusal(given).ends_with(std::string("did you mean ") + ours + "?")) << given;
}

TEST(ConfigKeys, that_stand_for_what_others_call_so_are_there) {
    for (const char* name :
         {"accum_iter", "amp", "bs", "max_epochs", "print_freq", "eval_steps", "smoothing", "clip_grad",
          "learning_rate", "wd", "num_workers", "prefetch_factor", "arch", "num_classes", "pretrained",
          "output_dir", "resume_from_checkpoint", "bucket_cap_mb"}) {
        const auto& keys = config_reference();
        EXPECT_NE(std::ranges::find(keys, key_called(name), &ConfigKey::path), keys.end()) << name;
    }
}

TEST(ConfigKeys, that_are_given_a_name_in_place_of_a_section_are_answered_with_the_key_of_the_name) {
    EXPECT_TRUE(
        refusal("model: lenet")
            .starts_with(
                "jobs/x.yaml:1: model: lenet is not a map; did you mean model.name? Its keys are: name, "));
    EXPECT_TRUE(
        override_refusal("optim=adamw").starts_with("optim: adamw is not a map; did you mean optim.name?"));
    EXPECT_TRUE(refusal("model: [lenet]")
                    .starts_with("jobs/x.yaml:1: model: a list is not a map; the keys of model"));
}

TEST(ConfigKeys, at_the_top_are_listed_when_nothing_is_near) {
    EXPECT_EQ(refusal("zzzzzzzz: 1"),
              "jobs/x.yaml:1: zzzzzzzz is not a known key; the keys at the top are: run, device, data, "
              "model, optim, "
              "schedule, train, distributed");
}

TEST(ConfigKeys, that_are_repeated_are_refused) {
    EXPECT_EQ(refusal("train:\n  epochs: 1\n  epochs: 2"),
              "jobs/x.yaml:3: train.epochs is given twice; keep one of them");
    EXPECT_EQ(refusal("train: {epochs: 1}\nrun: {seed: 1}\ntrain: {epochs: 2}"),
              "jobs/x.yaml:3: train is given twice; keep one of them");
}

TEST(ConfigKeys, with_a_dot_are_refused_in_a_file) {
    EXPECT_EQ(refusal("train.epochs: 3"),
              "jobs/x.yaml:1: train.epochs is written with a dot; write epochs inside train:");
}

TEST(ConfigKeys, that_are_not_text_are_refused) {
    EXPECT_EQ(refusal("{[1, 2]: 3}"), "jobs/x.yaml:1: a key is not text; write key: value");
}

TEST(ConfigKeys, inside_a_value_are_set_as_a_whole) {
    EXPECT_EQ(override_refusal("data.normalize.mean=[1]"),
              "data.normalize.mean is not a key of its own; set data.normalize as a whole: "
              "'data.normalize={mean: [0.5], std: [0.25]}'");
    EXPECT_EQ(override_refusal("schedule.name.x=1"),
              "schedule.name.x is not a key of its own; set schedule.name as a whole");
    EXPECT_EQ(refusal("train: {early_stopping.patience: 3}"),
              "jobs/x.yaml:1: train.early_stopping.patience is not a key of its own; set "
              "train.early_stopping as a whole: train: {early_stopping: {metric: val/loss, patience: 3}}");
}

TEST(ConfigKeys, that_are_shown_as_a_whole_can_be_pasted) {
    for (const std::string key : {"data.normalize", "data.transforms", "model.layers", "train.class_weights",
                                  "train.early_stopping", "train.ema"}) {
        const auto shown = [&](const std::string& message) {
            return message.substr(message.find(" as a whole: ") + 13);
        };
        std::string setting = shown(override_refusal(key + ".x=1"));
        ASSERT_TRUE(setting.starts_with("'" + key + "=")) << setting;
        setting = setting.substr(1, setting.size() - 2);  // the shell's quotes
        const Config config = parse("data: {val: v.h5}", {setting});
        EXPECT_NE(config, parse("data: {val: v.h5}"));
        const std::size_t dot = key.find('.');
        const std::string section = key.substr(0, dot), leaf = key.substr(dot + 1);
        const std::string in_file = shown(refusal(section + ": {" + leaf + ".x: 1}"));
        EXPECT_EQ(parse(in_file, {"data.val=v.h5"}), config) << in_file;
    }
}

TEST(ConfigSections, without_a_value_are_empty) {
    EXPECT_EQ(parse("train:\nrun: {seed: 4}").run.seed, 4);
}

TEST(ConfigSections, that_are_not_maps_are_refused) {
    EXPECT_TRUE(
        refusal("train: 5")
            .starts_with("jobs/x.yaml:1: train: 5 is not a map; the keys of train are: batch_size, "));
    EXPECT_EQ(refusal("train:\n  checkpoint: [1]"),
              "jobs/x.yaml:2: train.checkpoint: a list is not a map; the keys of train.checkpoint are: "
              "every, keep, "
              "best, best_from");
}

TEST(ConfigText, that_is_not_a_map_is_refused) {
    EXPECT_EQ(
        refusal("- a\n- b"),
        "jobs/x.yaml:1: the file is not a map; begin it with sections such as data:, model: and train:");
}

TEST(ConfigText, that_is_not_yaml_is_refused_with_its_line) {
    const std::string message = refusal("run: {seed: 1}\ntrain: {epochs: 1\n");
    EXPECT_TRUE(message.starts_with("jobs/x.yaml:") && message.find("not valid YAML") != std::string::npos)
        << message;
    EXPECT_EQ(refusal("run:\n  seed: 1\n\tdir: x"),
              "jobs/x.yaml:3: not valid YAML: illegal tab when looking for indentation; indent with spaces "
              "there, not with a tab");
    EXPECT_TRUE(refusal("run:\n  seed: 1\n dir: x").starts_with("jobs/x.yaml:3: not valid YAML: "));
}

TEST(ConfigText, with_brackets_deeper_than_any_value_is_refused) {
    EXPECT_NE(refusal("train: {epochs: " + std::string(100000, '[')), "accepted");
}

TEST(ConfigText, with_several_documents_is_refused) {
    EXPECT_EQ(refusal("run: {seed: 1}\n---\nrun: {seed: 2}"),
              "jobs/x.yaml: holds more than one YAML document; keep the first and remove the --- lines");
}

TEST(ConfigText, may_use_anchors) {
    EXPECT_EQ(parse("data: {train: &files [a.h5], val: *files}").data.val,
              (std::vector<std::string>{"a.h5"}));
}

}  // namespace
}  // namespace tutti
