// The configuration as a whole: defaults, the resolved dump, the reference, differences, files.
#include "tutti/base/config.hpp"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <locale>
#include <set>
#include <sstream>

#include "config_helpers.hpp"

namespace tutti {
namespace {

namespace fs = std::filesystem;

constexpr const char* every_available_key = R"(
run: {dir: "runs/mine: 1", seed: -9223372036854775808, resume: never, log_level: debug, trace: true, trace_steps: 7,
      deterministic: true, virtual_shards: 16}
device: cuda
data:
  train: [a.h5, "b, c.h5"]
  val: v.h5
  workers: 3
  prefetch: 2
  shuffle: false
  drop_last: true
  tail: pad
  normalize: {mean: [0.1, 0.2, 0.3], std: [0.25]}
  transforms: [horizontal_flip, {random_crop: {size: 24, padding: 2}}]
  on_error: skip
model: {name: lenet, classes: 10, channels: 3, image: 32, init_from: null.h5}
optim: {name: sgd, lr: 0.1, momentum: 0.9, nesterov: true, weight_decay: 5e-4, decay_1d: false, layer_decay: 0.75, clip_norm: 1.5}
schedule: {name: cosine, warmup_epochs: 0.5, warmup_lr: 1e-6, warmup: power, warmup_power: 3, min_lr: 1e-5}
train:
  batch_size: 128
  epochs: 0
  max_steps: 7
  accumulate: 4
  precision: fp64
  scale_lr_by_world_size: true
  log_every: 1
  eval_every: 2
  checkpoint: {every: 200 steps, keep: 1, best: val/loss, best_from: 30}
  nan_policy: skip
  ema: {decay: 0.99, warmup: true}
  early_stopping: {metric: val/balanced_accuracy, patience: 5, min_delta: 0.01}
  topk: 5
  confusion: true
distributed: {strategy: ddp, backend: mpi, timeout: 0.5, bucket_mb: 0.1, first_bucket_mb: 1e-3, bucket_policy: per_layer}
)";

TEST(Config, of_an_empty_file_has_the_defaults) {
    const Config config = parse("");
    EXPECT_EQ(config.run.dir, "runs/x");
    EXPECT_EQ(config.run.seed, 0);
    EXPECT_EQ(config.run.resume, "auto");
    EXPECT_EQ(config.device, DeviceChoice::automatic);
    EXPECT_TRUE(config.data.train.empty());
    EXPECT_EQ(config.data.workers, std::nullopt);
    EXPECT_EQ(config.data.normalize, std::nullopt);
    EXPECT_EQ(config.model.name, "mlp");
    EXPECT_EQ(config.model.hidden, (std::vector<std::int64_t>{512, 512}));
    EXPECT_EQ(config.model.classes, std::nullopt);
    EXPECT_EQ(config.optim.name, "sgd");
    EXPECT_EQ(config.train.batch_size, 64);
    EXPECT_EQ(config.train.checkpoint.every, (Interval{1, Interval::Unit::epochs}));
    EXPECT_EQ(config.distributed.bucket_mb, 25);
}

TEST(Config, takes_every_available_key) {
    const Config config = parse(every_available_key);
    EXPECT_EQ(config.run.dir, "runs/mine: 1");
    EXPECT_EQ(config.run.seed, std::numeric_limits<std::int64_t>::min());
    EXPECT_EQ(config.run.resume, "never");
    EXPECT_EQ(config.run.log_level, "debug");
    EXPECT_TRUE(config.run.trace);
    EXPECT_EQ(config.run.trace_steps, 7);
    EXPECT_TRUE(config.run.deterministic);
    EXPECT_EQ(config.run.virtual_shards, 16);
    EXPECT_EQ(config.device, DeviceChoice::cuda);
    EXPECT_EQ(config.data.train, (std::vector<std::string>{"a.h5", "b, c.h5"}));
    EXPECT_EQ(config.data.val, (std::vector<std::string>{"v.h5"}));
    EXPECT_EQ(config.data.workers, 3);
    EXPECT_EQ(config.data.prefetch, 2);
    EXPECT_FALSE(config.data.shuffle);
    EXPECT_TRUE(config.data.drop_last);
    EXPECT_EQ(config.data.tail, Tail::pad);
    EXPECT_EQ(config.data.normalize, (Normalize{{0.1, 0.2, 0.3}, {0.25}}));
    EXPECT_EQ(config.model.name, "lenet");
    EXPECT_EQ(config.model.classes, 10);
    EXPECT_EQ(config.model.channels, 3);
    EXPECT_EQ(config.model.image, 32);
    EXPECT_EQ(config.model.init_from, "null.h5");
    EXPECT_EQ(config.optim.lr, 0.1);
    EXPECT_EQ(config.optim.momentum, 0.9);
    EXPECT_TRUE(config.optim.nesterov);
    EXPECT_EQ(config.optim.weight_decay, 5e-4);
    EXPECT_FALSE(config.optim.decay_1d);
    EXPECT_EQ(config.optim.layer_decay, 0.75);
    EXPECT_EQ(config.optim.clip_norm, 1.5);
    EXPECT_EQ(config.schedule, (ScheduleConfig{.name = "cosine",
                                               .warmup_epochs = 0.5,
                                               .warmup_lr = 1e-6,
                                               .warmup = WarmUp::power,
                                               .warmup_power = 3,
                                               .min_lr = 1e-5}));
    EXPECT_EQ(config.train.accumulate, 4);
    EXPECT_EQ(config.train.nan_policy, NanPolicy::skip);
    EXPECT_EQ(config.train.ema, (EmaConfig{0.99, true}));
    EXPECT_EQ(config.train.early_stopping, (EarlyStoppingConfig{"val/balanced_accuracy", 5, 0.01}));
    EXPECT_EQ(config.train.topk, 5);
    EXPECT_TRUE(config.train.confusion);
    EXPECT_EQ(config.train.batch_size, 128);
    EXPECT_EQ(config.train.epochs, 0);
    EXPECT_EQ(config.train.max_steps, 7);
    EXPECT_EQ(config.train.precision, Precision::fp64);
    EXPECT_TRUE(config.train.scale_lr_by_world_size);
    EXPECT_EQ(config.train.log_every, 1);
    EXPECT_EQ(config.train.eval_every, (Interval{2, Interval::Unit::epochs}));
    EXPECT_EQ(config.train.checkpoint.every, (Interval{200, Interval::Unit::steps}));
    EXPECT_EQ(config.train.checkpoint.keep, 1);
    EXPECT_EQ(config.train.checkpoint.best, "val/loss");
    EXPECT_EQ(config.train.checkpoint.best_from, 30);
    EXPECT_EQ(config.distributed.strategy, Strategy::ddp);
    EXPECT_EQ(config.distributed.backend, Backend::mpi);
    EXPECT_EQ(config.distributed.timeout, 0.5);
    EXPECT_EQ(config.distributed.bucket_mb, 0.1);
    EXPECT_EQ(config.distributed.first_bucket_mb, 1e-3);
    EXPECT_EQ(config.distributed.bucket_policy, BucketPolicy::per_layer);
}

TEST(Config, names_the_run_folder_after_its_source) {
    EXPECT_EQ(parse_config("", "jobs/lenet.yaml", {}).run.dir, "runs/lenet");
    EXPECT_EQ(parse_config("", "quickstart", {}).run.dir, "runs/quickstart");
}

TEST(ConfigDump, reads_back_as_the_same_defaults) {
    const Config config = parse("");
    EXPECT_EQ(parse(to_yaml(config)), config);
}

TEST(ConfigDump, reads_back_every_available_key) {
    const Config config = parse(every_available_key);
    EXPECT_EQ(parse(to_yaml(config)), config);
    EXPECT_EQ(to_yaml(parse(to_yaml(config))), to_yaml(config));
}

TEST(ConfigDump, reads_back_listed_layers) {
    const Config config = parse(
        "model: {layers: [{conv2d: {out: 32, kernel: [3, 5], padding: 'a b'}}, relu, {dropout: {rate: "
        "-1.5e-3}}]}");
    ASSERT_EQ(config.model.layers.size(), 3u);
    EXPECT_EQ(parse(to_yaml(config)), config);
}

TEST(ConfigDump, reads_back_an_optimizer_with_other_keys) {
    const Config config = parse("optim: {name: adamw, betas: [0.8, 0.99], eps: 1e-7}");
    EXPECT_EQ(parse(to_yaml(config)), config);
}

TEST(ConfigDump, keeps_every_bit_of_a_number) {
    for (const double value : {0.1, 1.0 / 3, 5e-324, 1.7976931348623157e308, 123456789.0}) {
        Config config = parse("");
        config.optim.lr = value;
        EXPECT_EQ(parse(to_yaml(config)).optim.lr, value);
    }
}

TEST(ConfigDump, keeps_texts_that_look_like_something_else) {
    for (const char* text : {"null", "~x", "true", "12", "a: b", "#x", "- y", "'", "\"", "a\\b", "Grüße", "[",
                             "*.h5", " blank ", "tab\tline\nend", "-", "..."}) {
        Config config = parse("");
        config.run.dir = text;
        config.data.train = {text, "b.h5"};
        EXPECT_EQ(parse(to_yaml(config)), config) << text;
    }
}

/// The paths of all values in a dump, from the names and their indentation.
std::set<std::string> dumped_paths(const std::string& yaml) {
    std::set<std::string> paths;
    std::vector<std::string> sections;
    std::istringstream lines(yaml);
    for (std::string line; std::getline(lines, line);) {
        const std::size_t begin = line.find_first_not_of(' ');
        const std::string name = line.substr(begin, line.find(':') - begin) + ".";
        sections.resize(begin / 2);
        sections.push_back(name);
        std::string path;
        for (const std::string& section : sections) path += section;
        if (!line.ends_with(':')) paths.insert(path.substr(0, path.size() - 1));
    }
    return paths;
}

TEST(ConfigDump, holds_every_key_outside_the_model) {
    const auto paths = dumped_paths(to_yaml(parse("")));
    for (const ConfigKey& key : config_reference()) {
        if (key.path.starts_with("model.")) continue;
        EXPECT_TRUE(paths.contains(key.path)) << key.path;
    }
}

TEST(ConfigDump, holds_every_key_that_the_model_knows) {
    const auto paths = dumped_paths(to_yaml(parse("model: {name: lenet}")));
    for (const char* name : {"name", "classes", "channels", "image", "init_from"})
        EXPECT_TRUE(paths.contains(std::string("model.") + name)) << name;
}

TEST(ConfigDump, leaves_out_the_keys_of_other_models) {
    EXPECT_EQ(to_yaml(parse("model: {name: lenet}")).find("hidden"), std::string::npos);
}

/// Writes 1234.5 as "1.234,5".
struct GermanNumbers : std::numpunct<char> {
    char do_decimal_point() const override { return ','; }
    char do_thousands_sep() const override { return '.'; }
    std::string do_grouping() const override { return "\3"; }
};

TEST(ConfigDump, does_not_depend_on_the_locale) {
    const std::locale before = std::locale::global(std::locale(std::locale::classic(), new GermanNumbers));
    const Config config = parse("{optim: {lr: 0.25}, train: {epochs: 12345}}");
    const std::string yaml = to_yaml(config);
    std::locale::global(before);
    EXPECT_EQ(config.optim.lr, 0.25);
    EXPECT_NE(yaml.find("lr: 0.25\n"), std::string::npos);
    EXPECT_NE(yaml.find("epochs: 12345\n"), std::string::npos);
}

TEST(ConfigReference, names_each_key_once_with_type_default_and_help) {
    std::set<std::string> paths;
    for (const ConfigKey& key : config_reference()) {
        EXPECT_TRUE(paths.insert(key.path).second) << key.path;
        EXPECT_FALSE(key.type.empty()) << key.path;
        EXPECT_FALSE(key.default_value.empty()) << key.path;
        EXPECT_FALSE(key.help.empty()) << key.path;
    }
    EXPECT_TRUE(paths.contains("train.checkpoint.every"));
    EXPECT_TRUE(paths.contains("device"));
}

TEST(TrainingDifferences, are_empty_for_equal_configurations) {
    EXPECT_TRUE(training_differences(parse(every_available_key), parse(every_available_key)).empty());
}

TEST(TrainingDifferences, show_both_values) {
    EXPECT_EQ(training_differences(parse(""), parse("optim: {lr: 0.1}")),
              (std::vector<std::string>{"optim.lr: 0.05 -> 0.1"}));
}

TEST(TrainingDifferences, show_the_shards_of_two_deterministic_parts_of_a_run) {
    const Config four = parse("run: {deterministic: true, virtual_shards: 4}");
    EXPECT_EQ(training_differences(parse("run: {deterministic: true}"), four),
              (std::vector<std::string>{"run.virtual_shards: 8 -> 4"}));
    EXPECT_TRUE(training_differences(parse(""), four).empty());
    EXPECT_EQ(course_differences(parse(""), four),
              (std::vector<std::string>{"run.deterministic: false -> true"}));
}

TEST(TrainingDifferences, show_the_device_of_two_deterministic_parts_of_a_run) {
    const Config somewhere = parse("run: {deterministic: true}"),
                 cpu = parse("{device: cpu, run: {deterministic: true}}"),
                 gpu = parse("{device: cuda, run: {deterministic: true}}");
    for (const Config& here : {somewhere, cpu}) {
        EXPECT_EQ(training_differences(here, gpu), (std::vector<std::string>{"device: cpu -> cuda"}));
        EXPECT_EQ(training_differences(gpu, here), (std::vector<std::string>{"device: cuda -> cpu"}));
        EXPECT_TRUE(training_differences(parse("device: cuda"), here).empty());
    }
    EXPECT_TRUE(training_differences(somewhere, cpu).empty());
    EXPECT_TRUE(training_differences(cpu, parse("device: cuda")).empty());
    EXPECT_TRUE(training_differences(parse("device: cpu"), parse("device: cuda")).empty());
}

TEST(CourseDifferences, show_what_a_resume_may_change) {
    EXPECT_EQ(
        course_differences(parse(""), parse("{schedule: {name: step, step_size: 2}, train: {accumulate: "
                                            "2, ema: 0.9, epochs: 9}, run: {dir: b}, optim: {lr: 1}}")),
        (std::vector<std::string>{"schedule.name: constant -> step", "schedule.step_size: 30 -> 2",
                                  "train.accumulate: 1 -> 2",
                                  "train.ema: null -> {decay: 0.9, warmup: false}"}));
}

TEST(CourseDifferences, show_the_epochs_where_the_schedule_depends_on_them) {
    for (const std::string name : {"cosine", "linear"})
        EXPECT_EQ(course_differences(parse("schedule: {name: " + name + "}"),
                                     parse("{schedule: {name: " + name + "}, train: {epochs: 9}}")),
                  (std::vector<std::string>{"train.epochs: 3 -> 9"}));
    const std::string steps = "schedule: {name: multi_step, milestones: [2]}";
    EXPECT_EQ(course_differences(parse(steps), parse("{" + steps + ", train: {epochs: 9}}")),
              std::vector<std::string>{});
}

TEST(TrainingDifferences, leave_out_what_does_not_change_the_training_state) {
    EXPECT_TRUE(training_differences(
                    parse("model: {init_from: a.h5, init_except: [fc2]}"),
                    parse("{model: {init_except: [fc1]}, train: {epochs: 9}, run: {dir: b}, data: {val: c}}"))
                    .empty());
}

TEST(TrainingDifferences, show_first_weights_that_would_not_be_used) {
    EXPECT_EQ(training_differences(parse(""), parse("model: {init_from: a.h5}")),
              (std::vector<std::string>{"model.init_from: null -> a.h5"}));
    EXPECT_EQ(training_differences(parse("model: {init_from: a.h5, init_except: [fc2]}"),
                                   parse("model: {init_from: a.h5, init_except: [fc1]}")),
              (std::vector<std::string>{"model.init_except: [fc2] -> [fc1]"}));
}

TEST(TrainingDifferences, show_keys_that_only_one_model_knows) {
    EXPECT_EQ(training_differences(parse(""), parse("model: {name: lenet, image: 28}")),
              (std::vector<std::string>{"model.name: mlp -> lenet", "model.hidden: [512, 512] -> not set",
                                        "model.channels: not set -> null", "model.image: not set -> 28"}));
}

TEST(LoadConfig, reads_a_file_and_applies_overrides) {
    std::string folder = (fs::temp_directory_path() / "tutti-config-XXXXXX").string();
    ASSERT_NE(mkdtemp(folder.data()), nullptr);
    const std::string path = folder + "/small.yaml";
    std::ofstream(path) << "train: {epochs: 5, batch_size: 8}\n";
    const Config config = load_config(path, std::vector<std::string>{"train.epochs=6"});
    fs::remove_all(folder);
    EXPECT_EQ(config.train.epochs, 6);
    EXPECT_EQ(config.train.batch_size, 8);
    EXPECT_EQ(config.run.dir, "runs/small");
}

TEST(LoadConfig, refuses_a_missing_file_and_names_it) {
    try {
        load_config("no/such/file.yaml", {});
        FAIL() << "accepted";
    } catch (const UsageError& error) {
        EXPECT_STREQ(
            error.what(),
            "no/such/file.yaml: cannot read the config file: No such file or directory; check the path "
            "given with -c");
    }
}

TEST(LoadConfig, refuses_a_folder) {
    EXPECT_THROW(load_config(fs::temp_directory_path().string(), {}), UsageError);
}

}  // namespace
}  // namespace tutti
