// key=value on the command line.
#include <gtest/gtest.h>

#include "config_helpers.hpp"

namespace tutti {
namespace {

TEST(ConfigOverride, replaces_the_value_of_the_file) {
    const Config config = parse("optim: {lr: 0.1, momentum: 0.9}", {"optim.lr=0.2"});
    EXPECT_EQ(config.optim.lr, 0.2);
    EXPECT_EQ(config.optim.momentum, 0.9);
}

TEST(ConfigOverride, replaces_an_earlier_one) {
    EXPECT_EQ(parse("", {"run.seed=1", "run.seed=2"}).run.seed, 2);
}

TEST(ConfigOverride, leaves_values_alone_that_share_an_anchor) {
    const Config config = parse("data: {train: &f [a.h5], val: *f}", {"data.train=b.h5"});
    EXPECT_EQ(config.data.train, (std::vector<std::string>{"b.h5"}));
    EXPECT_EQ(config.data.val, (std::vector<std::string>{"a.h5"}));
}

TEST(ConfigOverride, takes_lists) {
    EXPECT_EQ(parse("", {"data.train=[a.h5,b.h5]"}).data.train, (std::vector<std::string>{"a.h5", "b.h5"}));
    EXPECT_EQ(parse("", {"model.layers=[{linear: {out: 3}}, relu]"}).model.layers.size(), 2u);
}

TEST(ConfigOverride, takes_a_value_with_an_equals_sign) {
    EXPECT_EQ(parse("", {"data.train=fold=1/a.h5"}).data.train, (std::vector<std::string>{"fold=1/a.h5"}));
}

TEST(ConfigOverride, of_a_section_replaces_the_whole) {
    const Config config = parse("model: {name: mlp, hidden: [3]}", {"model={name: lenet, image: 28}"});
    EXPECT_EQ(config.model.name, "lenet");
    EXPECT_EQ(config.model.image, 28);
}

TEST(ConfigOverride, of_a_nested_section_leaves_its_neighbours) {
    const Config config =
        parse("train: {epochs: 9, checkpoint: {keep: 7}}", {"train.checkpoint={every: 5 steps}"});
    EXPECT_EQ(config.train.epochs, 9);
    EXPECT_EQ(config.train.checkpoint.keep, 3);
    EXPECT_EQ(config.train.checkpoint.every, (Interval{5, Interval::Unit::steps}));
}

TEST(ConfigOverride, takes_a_key_at_the_top) {
    EXPECT_EQ(parse("", {"device=cpu"}).device, DeviceChoice::cpu);
}

TEST(ConfigOverride, of_an_unknown_key_is_refused_with_a_suggestion) {
    EXPECT_EQ(refusal("", {"train.batchsize=3"}),
              "command line: train.batchsize is not a known key; did you mean train.batch_size?");
    EXPECT_EQ(refusal("", {"trian.batch_size=3"}),
              "command line: trian.batch_size is not a known key; did you mean train.batch_size?");
    EXPECT_EQ(refusal("", {"trian.foo=3"}),
              "command line: trian.foo is not a known key; did you mean train?");
}

TEST(ConfigOverride, of_a_key_with_other_marks_in_it_is_refused_with_the_key) {
    for (const char* written : {"rundir", "run-dir", "run/dir", "Run_Dir", "run:dir"})
        EXPECT_EQ(refusal("", {std::string(written) + "=x"}),
                  std::string("command line: ") + written + " is not a known key; did you mean run.dir?");
    EXPECT_EQ(refusal("", {"trainbatch-size=3"}),
              "command line: trainbatch-size is not a known key; did you mean train.batch_size?");
    EXPECT_EQ(refusal("rundir: x"), "jobs/x.yaml:1: rundir is not a known key; did you mean run.dir?");
}

TEST(ConfigOverride, that_yaml_would_take_for_no_value_is_refused) {
    for (const std::string value : {"%x-%j", "!w.h5", "#1", "&w", "...", "--- x", "---"}) {
        const std::string mark =
            value.starts_with("-") || value.starts_with(".") ? value.substr(0, 3) : value.substr(0, 1);
        EXPECT_EQ(refusal("", {"run.dir=" + value}),
                  "command line: run.dir: '" + value + "' begins with " + mark +
                      ", which has a meaning of its own in YAML; quote the value for YAML, too: 'run.dir=\"" +
                      value + "\"'");
    }
    EXPECT_EQ(parse("", {"run.dir=\"%x-%j\""}).run.dir, "%x-%j");
    EXPECT_EQ(parse("", {"run.dir=----"}).run.dir, "----");
}

TEST(ConfigOverride, without_an_equals_sign_is_refused) {
    EXPECT_EQ(refusal("", {"train.epochs"}),
              "command line: train.epochs is not key=value; write for example train.epochs=5, without blanks "
              "around the =");
    EXPECT_EQ(refusal("", {"my.yaml"}),
              "command line: my.yaml is not key=value; a config is given with -c: -c my.yaml");
    EXPECT_EQ(refusal("", {"train.h5"}),
              "command line: train.h5 is not key=value; a data set is trained on with data.train=train.h5");
    EXPECT_EQ(
        refusal("", {"=5"}),
        "command line: =5 is not key=value; write for example train.epochs=5, without blanks around the =");
}

TEST(ConfigOverride, with_no_folder_for_the_run_is_refused) {  // run.dir=$UNSET
    EXPECT_EQ(refusal("run: {dir: a}", {"run.dir="}),
              "command line: run.dir: no value; write a FOLDER, or leave the key out");
    EXPECT_EQ(refusal("run: {dir: ''}"),
              "jobs/x.yaml:1: run.dir: no value; write a FOLDER, or leave the key out");
    EXPECT_EQ(parse("run: {dir: a}", {"run.dir=null"}).run.dir, "runs/x");
}

TEST(ConfigOverride, may_be_empty_where_a_text_may_be) {
    EXPECT_EQ(parse("model: {init_from: a.h5}", {"model.init_from="}).model.init_from, "");
    EXPECT_EQ(
        parse("train: {checkpoint: {best: val/loss}}", {"train.checkpoint.best="}).train.checkpoint.best, "");
}

TEST(ConfigOverride, may_not_be_empty_elsewhere) {
    EXPECT_EQ(override_refusal("train.epochs="), "train.epochs: \"\" is not an integer");
    EXPECT_EQ(override_refusal("train.max_steps="), "train.max_steps: \"\" is not an integer");
    EXPECT_EQ(override_refusal("data.train="), "data.train: no value; write FILE");
    EXPECT_EQ(override_refusal("run.resume="), "run.resume: no value; write auto | never | FILE");
    EXPECT_EQ(override_refusal("train=").substr(0, 22), "train: \"\" is not a map");
}

TEST(ConfigOverride, that_is_not_yaml_is_refused_with_its_key) {
    const std::string message = override_refusal("data.train=[a.h5");
    EXPECT_TRUE(message.starts_with("data.train: not valid YAML: ")) << message;
    EXPECT_TRUE(message.ends_with("; quote the value")) << message;
    EXPECT_TRUE(override_refusal("data.train=[*.h5]")
                    .ends_with("; quote what begins with * for YAML, as \"*.h5\", or write ./*.h5"));
}

TEST(ConfigOverride, that_yaml_would_cut_is_refused) {
    EXPECT_EQ(override_refusal("run.dir=runs/exp #3"),
              "run.dir: what begins with # in 'runs/exp #3' is a comment; quote the value for YAML, too: "
              "'run.dir=\"runs/exp #3\"'");
    EXPECT_EQ(parse("", {"run.dir='runs/exp #3'"}).run.dir, "runs/exp #3");
    EXPECT_EQ(parse("", {"run.dir=runs/exp#3"}).run.dir, "runs/exp#3");
}

}  // namespace
}  // namespace tutti
