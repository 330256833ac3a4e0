// Values: types, ranges, words, and what this version does not carry out.
#include <gtest/gtest.h>

#include "config_helpers.hpp"

namespace tutti {
namespace {

TEST(ConfigInteger, refuses_other_values_with_key_value_and_type) {
    EXPECT_EQ(refusal("train:\n  batch_size: 64.5"),
              "jobs/x.yaml:2: train.batch_size: 64.5 is not an integer");
    EXPECT_EQ(override_refusal("train.batch_size=1e3"), "train.batch_size: 1e3 is not an integer");
    EXPECT_EQ(override_refusal("train.batch_size=[1]"), "train.batch_size: a list is not an integer");
    EXPECT_EQ(override_refusal("train.batch_size={a: 1}"), "train.batch_size: a map is not an integer");
    EXPECT_EQ(override_refusal("train.batch_size=null"), "train.batch_size: null is not an integer");
    EXPECT_EQ(override_refusal("train.batch_size=many"), "train.batch_size: many is not an integer");
}

TEST(ConfigInteger, takes_all_of_64_bits_and_no_more) {
    EXPECT_EQ(parse("run: {seed: 9223372036854775807}").run.seed, 9223372036854775807);
    EXPECT_EQ(override_refusal("run.seed=9223372036854775808"),
              "run.seed: 9223372036854775808 is not an integer of 64 bits");
}

TEST(ConfigInteger, has_a_smallest_value) {
    EXPECT_EQ(override_refusal("train.batch_size=0"), "train.batch_size: 0 is not an integer of at least 1");
    EXPECT_EQ(override_refusal("train.epochs=-1"), "train.epochs: -1 is not an integer of at least 0");
    EXPECT_EQ(override_refusal("train.log_every=0"), "train.log_every: 0 is not an integer of at least 1");
    EXPECT_EQ(override_refusal("data.prefetch=0"), "data.prefetch: 0 is not an integer of at least 1");
    EXPECT_EQ(override_refusal("data.prefetch=5000"),
              "data.prefetch: 5000 is not an integer of at most 4096");
    EXPECT_EQ(override_refusal("data.workers=-1"), "data.workers: -1 is not an integer of at least 0");
    EXPECT_EQ(override_refusal("train.max_steps=-1"), "train.max_steps: -1 is not an integer of at least 0");
}

TEST(ConfigNumber, may_have_a_plus_as_in_yaml) {
    EXPECT_EQ(parse("optim: {lr: +0.1}").optim.lr, 0.1);
    EXPECT_EQ(parse("", {"optim.lr=+1e-3", "train.batch_size=+8"}).train.batch_size, 8);
    EXPECT_EQ(override_refusal("optim.lr=+-1"), "optim.lr: +-1 is not a number");
    EXPECT_EQ(override_refusal("train.batch_size=+"), "train.batch_size: + is not an integer");
}

TEST(ConfigNumber, refuses_other_values) {
    EXPECT_EQ(override_refusal("optim.lr=fast"), "optim.lr: fast is not a number");
    EXPECT_EQ(override_refusal("optim.lr=0.1x"), "optim.lr: 0.1x is not a number");
    EXPECT_EQ(override_refusal("optim.lr=\"0,1\""), "optim.lr: 0,1 is not a number");
    EXPECT_EQ(override_refusal("optim.lr=1e999"), "optim.lr: 1e999 is not a number of 64 bits");
}

TEST(ConfigNumber, is_finite_and_in_its_range) {
    EXPECT_EQ(override_refusal("optim.lr=-0.1"), "optim.lr: -0.1 is not a number of at least 0");
    EXPECT_EQ(override_refusal("optim.lr=inf"), "optim.lr: inf is not a number of at least 0");
    EXPECT_EQ(override_refusal("optim.lr=nan"), "optim.lr: nan is not a number of at least 0");
    EXPECT_EQ(override_refusal("optim.momentum=1"),
              "optim.momentum: 1 is not a number of at least 0 and below 1");
    EXPECT_EQ(override_refusal("distributed.timeout=0"), "distributed.timeout: 0 is not a number above 0");
    EXPECT_EQ(override_refusal("distributed.bucket_mb=0"),
              "distributed.bucket_mb: 0 is not a number above 0");
    EXPECT_EQ(parse("optim: {lr: 0}").optim.lr, 0);
}

TEST(ConfigNumber, says_what_it_counts_to_those_who_write_a_unit) {
    EXPECT_EQ(override_refusal("run.walltime=1h"),
              "run.walltime: 1h is not a number of seconds; write it without a unit, as in 3600");
    EXPECT_EQ(override_refusal("distributed.timeout=30m"),
              "distributed.timeout: 30m is not a number of seconds; write it without a unit, as in 3600");
    EXPECT_EQ(override_refusal("distributed.bucket_mb=25MB"),
              "distributed.bucket_mb: 25MB is not a number of MiB; write it without a unit, as in 25");
}

TEST(ConfigInteger, of_epochs_is_none_below_0) {
    EXPECT_EQ(parse("").train.checkpoint.best_from, 0);
    EXPECT_EQ(parse("", {"train.checkpoint.best_from=30"}).train.checkpoint.best_from, 30);
    for (const char* value : {"-1", "2.5", "null", "3 epochs"})
        EXPECT_TRUE(override_refusal(std::string("train.checkpoint.best_from=") + value)
                        .starts_with(std::string("train.checkpoint.best_from: ") + value))
            << value;
}

TEST(ConfigBoolean, takes_the_words_of_yaml) {
    EXPECT_FALSE(parse("data: {shuffle: false}").data.shuffle);
    EXPECT_FALSE(parse("data: {shuffle: no}").data.shuffle);
}

TEST(ConfigBoolean, refuses_other_values) {
    EXPECT_EQ(override_refusal("data.shuffle=0"), "data.shuffle: 0 is not true or false");
    EXPECT_EQ(override_refusal("data.shuffle=null"), "data.shuffle: null is not true or false");
}

TEST(ConfigChoice, suggests_the_nearest_word) {
    EXPECT_EQ(override_refusal("data.tail=exat"),
              "data.tail: exat is not one of exact, pad; did you mean exact?");
}

TEST(ConfigChoice, suggests_the_only_word_that_ends_so) {
    for (const char* given : {"accuracy", "Accuracy"})
        EXPECT_TRUE(override_refusal(std::string("train.checkpoint.best=") + given)
                        .ends_with("; did you mean val/accuracy?"))
            << given;
    EXPECT_TRUE(override_refusal("train.early_stopping={metric: loss}").ends_with("did you mean val/loss?"));
}

TEST(ConfigChoice, of_the_warm_ups_form_says_where_its_length_is_set) {
    EXPECT_EQ(override_refusal("schedule.warmup=5"),
              "schedule.warmup: 5 is not one of linear, power; for the length of the warm-up write "
              "schedule.warmup_epochs=5");
    EXPECT_EQ(override_refusal("train.warmup=0.5"),
              "train.warmup is not a known key; for the length of the warm-up write "
              "schedule.warmup_epochs=0.5");
    EXPECT_EQ(refusal("warmup: 5"),
              "jobs/x.yaml:1: warmup is not a known key; for the length of the warm-up write "
              "schedule.warmup_epochs=5");
    EXPECT_EQ(override_refusal("train.warmup=power"),
              "train.warmup is not a known key; did you mean schedule.warmup?");
    EXPECT_EQ(override_refusal("schedule.warmup=cubic"),
              "schedule.warmup: cubic is not a choice; use one of linear, power");
}

TEST(ConfigChoice, lists_the_allowed_words) {
    EXPECT_EQ(override_refusal("distributed.strategy=horovod"),
              "distributed.strategy: horovod is not a choice; use one of auto, single, ddp, zero1");
}

TEST(ConfigChoice, takes_capitals_as_pytorch_spells_its_classes) {
    const Config config = parse("optim: {name: AdamW, eps: 1e-7}\nmodel: {name: MLP, hidden: [8]}",
                                {"distributed.strategy=DDP", "run.log_level=INFO"});
    EXPECT_EQ(config.optim.name, "adamw");
    EXPECT_EQ(config.optim.weight_decay, 0.01);  // AdamW's default, not SGD's
    EXPECT_EQ(config.model.name, "mlp");
    EXPECT_EQ(config.distributed.strategy, Strategy::ddp);
    EXPECT_EQ(config.run.log_level, "info");
}

TEST(ConfigChoice, refuses_what_is_not_a_word) {
    EXPECT_EQ(override_refusal("data.tail=[pad]"), "data.tail: a list is not one of exact, pad");
}

TEST(ConfigOptional, takes_its_word_for_no_value) {
    EXPECT_EQ(parse("data: {workers: 2}", {"data.workers=auto"}).data.workers, std::nullopt);
    EXPECT_EQ(parse("train: {max_steps: 2}", {"train.max_steps=null"}).train.max_steps, std::nullopt);
    EXPECT_EQ(parse("train: {checkpoint: {best: null}}").train.checkpoint.best, "");
}

TEST(ConfigPaths, are_one_file_or_a_list) {
    EXPECT_EQ(parse("data: {train: a.h5}").data.train, (std::vector<std::string>{"a.h5"}));
    EXPECT_EQ(parse("data: {train: [a.h5, ../b.h5]}").data.train,
              (std::vector<std::string>{"a.h5", "../b.h5"}));
    EXPECT_TRUE(parse("data: {train: null}").data.train.empty());
}

TEST(ConfigPaths, refuse_other_values) {
    EXPECT_EQ(override_refusal("data.train={a: b}"), "data.train: a map is not a file or a list of files");
    EXPECT_EQ(override_refusal("data.train=[a, [b]]"), "data.train[1]: a list is not text");
    EXPECT_EQ(override_refusal("data.train=[a, null]"), "data.train[1]: no value; write FILE");
}

TEST(ConfigInterval, counts_epochs_steps_and_minutes) {
    const auto every = [](const std::string& text) {
        return parse("train: {checkpoint: {every: " + text + "}}").train.checkpoint.every;
    };
    EXPECT_EQ(every("1 epoch"), (Interval{1, Interval::Unit::epochs}));
    EXPECT_EQ(every("2 epochs"), (Interval{2, Interval::Unit::epochs}));
    EXPECT_EQ(every("1 step"), (Interval{1, Interval::Unit::steps}));
    EXPECT_EQ(every("200 steps"), (Interval{200, Interval::Unit::steps}));
    EXPECT_EQ(every("10 min"), (Interval{10, Interval::Unit::minutes}));
    EXPECT_EQ(every("0.5 minutes"), (Interval{0.5, Interval::Unit::minutes}));
}

TEST(ConfigInterval, of_zero_means_never) {
    for (const char* text : {"0", "never", "0 epochs", "0 steps", "0 min"})
        EXPECT_EQ(parse("", {std::string("train.checkpoint.every=") + text}).train.checkpoint.every.count, 0);
}

TEST(ConfigInterval, refuses_other_values_with_an_example) {
    const std::string remedy = "; write for example 1 epoch, 200 steps, 10 min or never";
    EXPECT_EQ(override_refusal("train.checkpoint.every=5"), "train.checkpoint.every: 5 has no unit" + remedy);
    EXPECT_EQ(override_refusal("train.checkpoint.every=often"),
              "train.checkpoint.every: often is not an interval" + remedy);
    EXPECT_EQ(override_refusal("train.checkpoint.every=-1 epoch"),
              "train.checkpoint.every: -1 epoch is not an interval" + remedy);
    EXPECT_EQ(override_refusal("train.checkpoint.every=2 days"),
              "train.checkpoint.every: 2 days is not an interval in epochs, steps or min" + remedy);
    EXPECT_EQ(override_refusal("train.checkpoint.every=1.5 steps"),
              "train.checkpoint.every: 1.5 steps is not an interval of whole epochs or steps" + remedy);
    EXPECT_EQ(override_refusal("train.checkpoint.every=1e19 steps"),
              "train.checkpoint.every: 1e19 steps is not an interval; write never for none");
}

TEST(ConfigInterval, survives_the_dump) {
    for (const char* text : {"1 epoch", "3 epochs", "200 steps", "2.5 min", "never"}) {
        const Config config = parse("", {std::string("train.checkpoint.every=") + text});
        EXPECT_NE(to_yaml(config).find(std::string("every: ") + text + "\n"), std::string::npos) << text;
    }
}

TEST(ConfigEvaluations, come_every_so_many_epochs_or_steps) {
    const auto given = [](const std::string& text) {
        return parse("", {"train.eval_every=" + text}).train.eval_every;
    };
    using enum Interval::Unit;
    EXPECT_EQ(parse("").train.eval_every, (Interval{1, epochs}));
    EXPECT_EQ(given("3"), (Interval{3, epochs}));
    EXPECT_EQ(given("1 epoch"), (Interval{1, epochs}));
    EXPECT_EQ(given("500 steps"), (Interval{500, steps}));
    for (const char* text : {"0", "never", "0 steps"}) EXPECT_EQ(given(text).count, 0) << text;
    for (const char* text : {"3", "0", "500 steps", "1 step"}) {
        const std::string dump = to_yaml(parse("", {std::string("train.eval_every=") + text}));
        EXPECT_NE(dump.find(std::string("eval_every: ") + text + "\n"), std::string::npos) << text;
    }
    for (const char* text : {"5 min", "often", "-1", "1.5", "1e3", "0.5 steps", "1e19 steps"})
        EXPECT_EQ(override_refusal(std::string("train.eval_every=") + text),
                  std::string("train.eval_every: ") + text +
                      " is not a number of epochs, or of steps; write for example 1 or 2 epochs, 500 "
                      "steps, or 0 for only at the end");
}

TEST(ConfigNormalize, takes_lists_and_single_values) {
    EXPECT_EQ(parse("data: {normalize: {mean: [0.1, 0.2], std: [0.3, 0.4]}}").data.normalize,
              (Normalize{{0.1, 0.2}, {0.3, 0.4}}));
    EXPECT_EQ(parse("data: {normalize: {mean: 0.1307, std: 0.3081}}").data.normalize,
              (Normalize{{0.1307}, {0.3081}}));
    EXPECT_EQ(parse("data: {normalize: {mean: 0, std: 2}}").data.normalize, (Normalize{{0}, {2}}));
    EXPECT_EQ(parse("data: {normalize: null}").data.normalize, std::nullopt);
    const std::string both =
        "; write 'data.normalize={mean: [0.5], std: [0.25]}', or null for those of the data";
    EXPECT_EQ(override_refusal("data.normalize={}"), "data.normalize: there is neither mean nor std" + both);
    EXPECT_EQ(override_refusal("data.normalize={std: [1]}"),
              "data.normalize: std is given without mean" + both);
    EXPECT_EQ(override_refusal("data.normalize={mean: 1}"),
              "data.normalize: mean is given without std" + both);
}

TEST(ConfigNormalize, refuses_other_values) {
    EXPECT_EQ(override_refusal("data.normalize=0.5"),
              "data.normalize: 0.5 is not a map of mean and std; write 'data.normalize={mean: [0.5], std: "
              "[0.25]}'");
    EXPECT_EQ(override_refusal("data.normalize={mean: 0, sd: 1}"),
              "data.normalize: sd is not a key of it; did you mean std?");
    EXPECT_EQ(override_refusal("data.normalize={scale: 1}"),
              "data.normalize: scale is not a key of it; write 'data.normalize={mean: [0.5], std: [0.25]}'");
    EXPECT_EQ(override_refusal("data.normalize={mean: 0, mean: 1}"),
              "data.normalize: mean is given twice; keep one of them");
    EXPECT_EQ(override_refusal("data.normalize={std: [1, 0]}"),
              "data.normalize.std[1]: 0 is not a number above 0");
    EXPECT_EQ(override_refusal("data.normalize={mean: [x]}"), "data.normalize.mean[0]: x is not a number");
    EXPECT_EQ(override_refusal("data.normalize={mean: []}"),
              "data.normalize.mean: the list is empty; give one value, or one per channel");
    EXPECT_EQ(override_refusal("data.normalize={mean: [1, 2, 3], std: [1, 2]}"),
              "data.normalize: mean has 3 values and std has 2; give both one value per channel, or one "
              "value for all");
}

TEST(ConfigValues, virtual_shards_are_a_power_of_two) {
    EXPECT_EQ(parse("").run.virtual_shards, 8);
    EXPECT_EQ(parse("run: {virtual_shards: 1}").run.virtual_shards, 1);
    EXPECT_EQ(refusal("run:\n  virtual_shards: 6"),
              "jobs/x.yaml:2: run.virtual_shards: 6 is not a power of two");
    EXPECT_EQ(override_refusal("run.virtual_shards=0"),
              "run.virtual_shards: 0 is not an integer of at least 1");
    EXPECT_EQ(override_refusal("run.virtual_shards=131072"),
              "run.virtual_shards: 131072 is not an integer of at most 65536");
}

TEST(ConfigValues, ranks_may_be_compared_every_so_many_steps) {
    EXPECT_EQ(parse("").distributed.verify_every, 0);
    EXPECT_EQ(parse("distributed: {verify_every: 10}").distributed.verify_every, 10);
    EXPECT_EQ(override_refusal("distributed.verify_every=-1"),
              "distributed.verify_every: -1 is not an integer of at least 0");
}

TEST(ConfigValues, gradients_of_fp64_are_not_compressed) {
    EXPECT_EQ(parse("").distributed.compress, Compress::none);
    EXPECT_EQ(parse("distributed: {compress: bf16}").distributed.compress, Compress::bf16);
    EXPECT_EQ(
        refusal("train: {precision: fp64}\ndistributed:\n  compress: bf16"),
        "jobs/x.yaml:3: distributed.compress: train.precision is fp64, which is for results without such "
        "roundings; set distributed.compress: none, or another train.precision");
    EXPECT_NO_THROW(parse("{train: {precision: fp64}, distributed: {compress: none}}"));
}

TEST(ConfigValues, takes_the_key_for_unused_parameters_in_both_ways) {
    EXPECT_FALSE(parse("distributed: {find_unused_parameters: false}").distributed.find_unused_parameters);
    EXPECT_TRUE(parse("distributed: {find_unused_parameters: true}").distributed.find_unused_parameters);
}

TEST(ConfigValues, a_trace_is_bounded) {
    EXPECT_EQ(parse("").run.trace_steps, 50);
    EXPECT_EQ(override_refusal("run.trace_steps=0"), "run.trace_steps: 0 is not an integer of at least 1");
    EXPECT_EQ(override_refusal("run.trace_steps=10001"),
              "run.trace_steps: 10001 is not an integer of at most 10000");
    EXPECT_NE(override_refusal("run.trace_step=5").find("run.trace_steps"), std::string::npos);
}

TEST(ConfigValues, a_walltime_is_a_number_of_seconds_above_zero) {
    EXPECT_EQ(parse("").run.walltime, std::nullopt);
    EXPECT_EQ(parse("run: {walltime: 3600}").run.walltime, 3600);
    EXPECT_EQ(override_refusal("run.walltime=0"), "run.walltime: 0 is not a number above 0");
    EXPECT_EQ(override_refusal("run.walltime=-5"), "run.walltime: -5 is not a number above 0");
}

TEST(ConfigValues, label_smoothing_is_a_part_up_to_all) {
    EXPECT_EQ(parse("").train.label_smoothing, 0);
    EXPECT_EQ(parse("train: {label_smoothing: 0.1}").train.label_smoothing, 0.1);
    EXPECT_EQ(parse("train: {label_smoothing: 1}").train.label_smoothing, 1);
    EXPECT_EQ(override_refusal("train.label_smoothing=1.1"),
              "train.label_smoothing: 1.1 is not a number of at least 0 and up to 1");
}

TEST(ConfigValues, class_weights_are_balanced_or_a_list) {
    EXPECT_EQ(parse("").train.class_weights, std::nullopt);
    EXPECT_EQ(parse("train: {class_weights: null}").train.class_weights, std::nullopt);
    EXPECT_EQ(parse("train: {class_weights: balanced}").train.class_weights, ClassWeightsConfig{});
    EXPECT_EQ(parse("train: {class_weights: [1, 2.5]}").train.class_weights, (ClassWeightsConfig{{1, 2.5}}));
    EXPECT_NE(override_refusal("train.class_weights=even").find("balanced"), std::string::npos);
    EXPECT_EQ(parse("train: {class_weights: [1, 0]}").train.class_weights, (ClassWeightsConfig{{1, 0}}));
    EXPECT_EQ(override_refusal("train.class_weights=[0,0]"),
              "train.class_weights: all weights are 0; give a class that is to be learned a weight above 0");
    EXPECT_EQ(override_refusal("train.class_weights=[1,-2]"),
              "train.class_weights[1]: -2 is not a number of at least 0");
    EXPECT_NE(override_refusal("train.class_weights={a: 1}").find("a list"), std::string::npos);
}

}  // namespace
}  // namespace tutti
