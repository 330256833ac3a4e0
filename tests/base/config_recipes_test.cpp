// Settings of training recipes: defaults of optimizers, schedules, the moving average, early stopping.
#include <gtest/gtest.h>

#include "config_helpers.hpp"

namespace tutti {
namespace {

TEST(ConfigOptimizer, has_the_defaults_of_its_own_kind) {
    struct Defaults {
        const char* name;
        double lr, weight_decay, eps;
    };
    for (const Defaults& expected : {Defaults{"sgd", 0.05, 0, 1e-8}, Defaults{"adam", 1e-3, 0, 1e-8},
                                     Defaults{"adamw", 1e-3, 0.01, 1e-8}, Defaults{"adadelta", 1, 0, 1e-6},
                                     Defaults{"lamb", 1e-3, 0.01, 1e-6}}) {
        const OptimConfig optim = parse("", {std::string("optim.name=") + expected.name}).optim;
        EXPECT_EQ(optim.lr, expected.lr) << expected.name;
        EXPECT_EQ(optim.weight_decay, expected.weight_decay) << expected.name;
        EXPECT_EQ(optim.eps, expected.eps) << expected.name;
        const Config config = parse("", {std::string("optim.name=") + expected.name});
        EXPECT_EQ(parse(to_yaml(config)), config) << expected.name;
    }
}

TEST(ConfigOptimizer, keeps_what_is_given) {
    const OptimConfig optim =
        parse("optim: {name: adadelta, lr: 0.05, eps: 1e-8, rho: 0.95, weight_decay: 0.1}").optim;
    EXPECT_EQ(optim.lr, 0.05);
    EXPECT_EQ(optim.eps, 1e-8);
    EXPECT_EQ(optim.rho, 0.95);
    EXPECT_EQ(optim.weight_decay, 0.1);
}

TEST(ConfigOptimizer, refuses_the_keys_of_others) {
    EXPECT_EQ(override_refusal("optim.rho=0.5"),
              "optim.rho: 0.5 is not a key of the optimizer sgd; remove it, or use adadelta, which knows it");
    EXPECT_EQ(override_refusal("optim.layer_decay=1.5"),
              "optim.layer_decay: 1.5 is not a number of at least 0 and up to 1");
}

TEST(ConfigSchedule, refuses_the_keys_of_others) {
    EXPECT_EQ(override_refusal("schedule.gamma=0.5"),
              "schedule.gamma: 0.5 is not a key of the schedule constant; remove it, or use step or "
              "multi_step, which know it");
    EXPECT_EQ(refusal("schedule: {name: step, min_lr: 0.5}"),
              "jobs/x.yaml:1: schedule.min_lr: 0.5 is not a key of the schedule step; remove it, or use "
              "cosine or linear, which know it");
    EXPECT_EQ(override_refusal("schedule.step_size=0"),
              "schedule.step_size: 0 is not an integer of at least 1");
}

TEST(ConfigSchedule, of_several_steps_has_their_epochs_in_order) {
    const ScheduleConfig schedule =
        parse("schedule: {name: multi_step, milestones: [30, 60, 80], gamma: 0.2}").schedule;
    EXPECT_EQ(schedule.milestones, (std::vector<std::int64_t>{30, 60, 80}));
    EXPECT_EQ(schedule.gamma, 0.2);
    EXPECT_EQ(parse("", {"schedule.name=multi_step", "schedule.milestones=[5]"}).schedule.milestones,
              std::vector<std::int64_t>{5});
    EXPECT_EQ(
        override_refusal("schedule.name=multi_step"),
        "schedule.name: multi_step has no milestones; set schedule.milestones to the epochs behind which the "
        "rate falls, as in [30, 60, 80]");
    EXPECT_EQ(
        refusal("schedule: {name: multi_step, milestones: [30, 20]}"),
        "jobs/x.yaml:1: schedule.milestones: 20 comes behind 30; give epochs in ascending order, each once");
    EXPECT_EQ(
        refusal("schedule: {name: multi_step, milestones: [3, 3]}"),
        "jobs/x.yaml:1: schedule.milestones: 3 comes behind 3; give epochs in ascending order, each once");
    EXPECT_EQ(refusal("schedule: {name: multi_step, milestones: 30}"),
              "jobs/x.yaml:1: schedule.milestones: 30 is not a list; write it in brackets, as in [30]");
    EXPECT_EQ(refusal("schedule: {name: multi_step, milestones: [0, 3]}"),
              "jobs/x.yaml:1: schedule.milestones[0]: 0 is not an integer of at least 1");
    EXPECT_EQ(
        refusal("schedule: {name: cosine, milestones: [3]}"),
        "jobs/x.yaml:1: schedule.milestones: a list is not a key of the schedule cosine; remove it, or use "
        "multi_step, which knows it");
}

TEST(ConfigSchedule, survives_the_dump) {
    const Config config = parse("schedule: {name: step, step_size: 2, gamma: 0.7, warmup: power}");
    EXPECT_EQ(parse(to_yaml(config)), config);
}

TEST(ConfigEma, is_a_map_or_the_decay_alone) {
    EXPECT_EQ(parse("train: {ema: {decay: 0.99}}").train.ema, (EmaConfig{0.99, false}));
    EXPECT_EQ(parse("train: {ema: {warmup: true}}").train.ema, (EmaConfig{0.999, true}));
    EXPECT_EQ(parse("train: {ema: 0.9}").train.ema, (EmaConfig{0.9, false}));
    EXPECT_EQ(parse("train: {ema: 0.9}", {"train.ema=null"}).train.ema, std::nullopt);
}

TEST(ConfigEma, refuses_other_values) {
    EXPECT_EQ(override_refusal("train.ema={decay: 1}"),
              "train.ema.decay: 1 is not a number of at least 0 and below 1");
    EXPECT_EQ(override_refusal("train.ema={rate: 1}"),
              "train.ema: rate is not a key of it; write 'train.ema={decay: 0.999}'");
    EXPECT_EQ(override_refusal("train.ema={deacy: 1}"),
              "train.ema: deacy is not a key of it; did you mean decay?");
    EXPECT_EQ(override_refusal("train.early_stopping={patiense: 1}"),
              "train.early_stopping: patiense is not a key of it; did you mean patience?");
    EXPECT_EQ(override_refusal("train.ema={decay: 0.5, decay: 0.6}"),
              "train.ema: decay is given twice; keep one of them");
    EXPECT_EQ(override_refusal("train.ema=[0.9]"),
              "train.ema: a list is not a map of decay, warmup; write 'train.ema={decay: 0.999}'");
}

TEST(ConfigEma, that_is_switched_on_or_off_says_what_to_write) {
    EXPECT_EQ(override_refusal("train.ema=true"),
              "train.ema: true is not a map of decay, warmup; write 'train.ema={decay: 0.999}'");
    EXPECT_EQ(override_refusal("train.ema=false"),
              "train.ema: false is not a map of decay, warmup; write null for none");
}

TEST(ConfigLoss, of_several_labels_is_not_there) {
    for (const std::string name : {"BCEWithLogitsLoss", "bce", "binary_cross_entropy"})
        EXPECT_EQ(override_refusal("train.loss=" + name),
                  "train.loss: " + name +
                      " is not there: a sample has one class, not several labels; for two classes use "
                      "cross_entropy");
    EXPECT_TRUE(override_refusal("train.loss=mae").ends_with("; did you mean l1?"));
}

TEST(ConfigEarlyStopping, has_defaults) {
    EXPECT_EQ(parse("{data: {val: v.h5}, train: {early_stopping: {}}}").train.early_stopping,
              (EarlyStoppingConfig{"val/accuracy", 3, 0}));
    EXPECT_EQ(parse("").train.early_stopping, std::nullopt);
}

TEST(ConfigEarlyStopping, refuses_other_values) {
    EXPECT_EQ(override_refusal("train.early_stopping={patience: 0}"),
              "train.early_stopping.patience: 0 is not an integer of at least 1");
    EXPECT_EQ(override_refusal("train.early_stopping={metric: val/acuracy}"),
              "train.early_stopping.metric: val/acuracy is not one of val/accuracy, val/loss, val/top5, "
              "val/balanced_accuracy, val/mae, val/rmse, val/distance, val/km, val/atiou, val/auprc, "
              "val/roc_auc; did "
              "you mean "
              "val/accuracy?");
    EXPECT_EQ(override_refusal("train.early_stopping=3"),
              "train.early_stopping: 3 is not a map of metric, min_delta, patience; write "
              "'train.early_stopping={metric: val/loss, patience: 3}'");
    EXPECT_EQ(refusal("train:\n  early_stopping: 3"),
              "jobs/x.yaml:2: train.early_stopping: 3 is not a map of metric, min_delta, patience; write "
              "train: {early_stopping: {metric: val/loss, patience: 3}}");
}

TEST(ConfigEarlyStopping, needs_evaluations) {
    EXPECT_EQ(override_refusal("train.early_stopping={patience: 2}"),
              "train.early_stopping: there are no data to evaluate on; set data.val");
    EXPECT_EQ(refusal("{data: {val: v.h5}, train: {eval_every: 0, early_stopping: {patience: 2}}}"),
              "jobs/x.yaml:1: train.early_stopping: there is no evaluation before the end; set "
              "train.eval_every to 1 or more");
}

TEST(ConfigTopk, must_fit_the_metric_that_is_asked_for) {
    EXPECT_EQ(refusal("train: {topk: 3, checkpoint: {best: val/top5}}"),
              "jobs/x.yaml:1: train.checkpoint.best: train.topk is 3; set train.topk to 5 or auto");
    EXPECT_EQ(refusal("{data: {val: v.h5}, train: {topk: 0, early_stopping: {metric: val/top5}}}"),
              "jobs/x.yaml:1: train.early_stopping: train.topk is 0; set train.topk to 5 or auto");
    EXPECT_EQ(parse("train: {topk: auto}").train.topk, std::nullopt);
}

TEST(ConfigOfAnotherTrainer, that_leaves_model_and_optimizer_open_is_doubted) {
    const auto doubt = [](const std::string& text, const std::vector<std::string>& overrides = {}) {
        return doubt_about_translation(text, "theirs.yaml", overrides);
    };
    const std::string theirs = "train: {lr: 2e-4, num_workers: 2}\n";
    EXPECT_EQ(doubt(theirs),
              "theirs.yaml has keys of another trainer (train.num_workers, train.lr), but does not set "
              "model.name, which is mlp, and optim.name, which is sgd");
    EXPECT_EQ(doubt(theirs, {"optim.name=adamw"}),
              "theirs.yaml has keys of another trainer (train.num_workers, train.lr), but does not set "
              "model.name, which is mlp");
    EXPECT_EQ(doubt(theirs + "model: {name: resnet18}\noptim: {name: adamw}\n"), "");
    EXPECT_EQ(doubt("optim: {lr: 2e-4}\n"), "");
    const std::string warm =
        "train: {lr: 1e-3, warmup_epochs: 5}\nmodel: {name: resnet18}\noptim: {name: adam}\n";
    EXPECT_EQ(doubt(warm),
              "theirs.yaml has keys of another trainer (train.lr, train.warmup_epochs), but does not set "
              "schedule.name, which is constant");
    EXPECT_EQ(doubt(warm, {"schedule.name=cosine"}), "");
}

}  // namespace
}  // namespace tutti
