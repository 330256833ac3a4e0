#include "resume_changes.hpp"

#include <gtest/gtest.h>

#include <set>

#include "support/error_message.hpp"
#include "tutti/base/error.hpp"

namespace tutti {
namespace {

Config resumed(const std::vector<std::string>& settings) {
    return parse_config("", "a test", settings);
}

/// Of all metrics those that mean something else after the changed settings; "evaluation" where it does.
std::set<std::string> changed(const std::vector<std::string>& before, const std::vector<std::string>& now) {
    const MetricChanges changes(resumed(before), resumed(now));
    std::set<std::string> metrics;
    if (changes.evaluation()) metrics.insert("evaluation");
    for (const char* name : {"loss", "accuracy", "distance", "km", "atiou"})
        if (changes.metric(std::string("val/") + name)) metrics.insert(name);
    return metrics;
}

using Names = std::set<std::string>;

TEST(ResumeChanges, TellWhichMetricsMeanSomethingElse) {
    const std::string locator = "model.name=locator", sequences = "model.name=temporal_transformer";
    EXPECT_EQ(changed({}, {"train.epochs=7"}), Names());
    EXPECT_EQ(changed({"data.val=a.h5"}, {"data.val=b.h5"}),
              (Names{"evaluation", "loss", "accuracy", "distance", "km", "atiou"}));
    const Names all{"evaluation", "loss", "accuracy", "distance", "km", "atiou"};
    EXPECT_EQ(changed({}, {"data.normalize={mean: [0.5], std: [0.5]}"}), all);
    EXPECT_TRUE(MetricChanges(resumed({}), resumed({}), true).metric("val/loss"));
    EXPECT_EQ(changed({}, {"train.ema={decay: 0.9}"}), all);
    EXPECT_EQ(changed({"train.ema={decay: 0.99}"}, {"train.ema={decay: 0.9}"}), Names());
    EXPECT_EQ(changed({"data.transforms=[{random_crop: {size: 24}}]"},
                      {"data.transforms=[{random_crop: {size: 28, padding: 2}}]"}),
              all);
    EXPECT_EQ(changed({"data.transforms=[{random_crop: {size: 28, padding: 2}}]"},
                      {"data.transforms=[horizontal_flip, {center_crop: {size: 28}}]"}),
              Names())
        << "evaluations crop the middle in any case";
    EXPECT_EQ(changed({"train.loss=mse"}, {"train.loss=l1"}), Names{"loss"});
    EXPECT_EQ(changed({locator}, {locator, "train.heatmap_sigma=3"}), Names{"loss"});
    EXPECT_EQ(changed({locator}, {locator, "train.soft_argmax=0.1"}),
              (Names{"evaluation", "distance", "km"}));
    EXPECT_EQ(changed({locator}, {locator, "train.presence_threshold=0.3"}),
              (Names{"evaluation", "accuracy"}));
    EXPECT_EQ(changed({locator}, {locator, "data.latitudes=a.npy", "data.longitudes=b.npy"}),
              (Names{"evaluation", "km"}));
    EXPECT_EQ(changed({sequences}, {sequences, "train.focal_gamma=1"}), Names{"loss"});
    EXPECT_EQ(changed({sequences}, {sequences, "train.segments.threshold=0.3"}),
              (Names{"evaluation", "atiou"}));
}

TEST(ResumeChanges, OfModelAndOptimizerAreRefusedUnlessTheyAreWrittenDifferently) {
    const auto refusal = [](const std::string& before, const std::string& now) {
        return test::message_of<UsageError>(
            [&] { refuse_other_training(resumed({before}), resumed({now}), "c.h5"); });
    };
    EXPECT_EQ(
        refusal("optim.momentum=0.9", "optim.momentum=0.5"),
        "c.h5 was trained with other settings (optim.momentum: 0.9 -> 0.5); restore them, or start anew "
        "with run.resume=never or another run.dir");
    const auto layers = [](const std::string& convolution) {
        return resumed({"model.name=null", "model.layers=[" + convolution + ", relu]"});
    };
    refuse_other_training(layers("{conv2d: {out: 4, kernel: 3}}"),
                          layers("{conv2d: {out: 4, kernel: [3, 3], stride: 1}}"), "c.h5");
}

TEST(ResumeChanges, ClassesThatTheDataHaveAreNoOthersWhereTheyAreWrittenDown) {
    const Config silent = resumed({"model.name=lenet"}),
                 three = resumed({"model.name=lenet", "model.classes=3"});
    refuse_other_training(silent, three, "c.h5", 3);
    refuse_other_training(three, silent, "c.h5", 3);
    refuse_other_training(silent, silent, "c.h5", 4);
    const auto refusal = [](const Config& before, const Config& now, std::int64_t classes) {
        return test::message_of<UsageError>([&] { refuse_other_training(before, now, "c.h5", classes); })
            .substr(0, 62);
    };
    EXPECT_EQ(refusal(silent, three, 4), "c.h5 was trained with other settings (model.classes: 4 -> 3); ");
    EXPECT_EQ(refusal(three, silent, 4), "c.h5 was trained with other settings (model.classes: 3 -> 4); ");
    EXPECT_EQ(refusal(silent, three, 0).substr(0, 57),
              "c.h5 was trained with other settings (model.classes: null");
}

TEST(ResumeChanges, OfTheCourseAreTold) {
    const Config before =
        resumed({"train.batch_size=8", "train.scale_lr_by_world_size=true", "optim.lr=0.1"});
    EXPECT_EQ(course_changes(before, 2, before, 2, SameData::yes), std::vector<std::string>());
    EXPECT_EQ(course_changes(before, 2, before, 4, SameData::unknown),
              (std::vector<std::string>{"samples per update: 16 -> 32",
                                        "learning rate, scaled by the number of ranks: 0.2 -> 0.4"}));
    const Config unscaled = resumed({"train.batch_size=8", "optim.lr=0.1"});
    EXPECT_EQ(course_changes(before, 2, unscaled, 2, SameData::yes),
              (std::vector<std::string>{"train.scale_lr_by_world_size: true -> false",
                                        "learning rate: 0.2 -> 0.1"}));
}

TEST(ResumeChanges, OfTheDataAreToldByTheirFingerprints) {
    EXPECT_EQ(compare_data("a", "a"), SameData::yes);
    EXPECT_EQ(compare_data("a", "b"), SameData::no);
    EXPECT_EQ(compare_data("", "b"), SameData::unknown) << "an earlier version's checkpoint";
    EXPECT_EQ(compare_data("a", ""), SameData::unknown);

    const Config a = resumed({"data.train=a.h5"}), b = resumed({"data.train=b.h5"});
    const auto refusal = [](const Config& before, const Config& now, SameData same) {
        return test::message_of<UsageError>(
            [&] { refuse_untrained_data(before, now, same, "c.h5", "train.epochs=7"); });
    };
    refuse_untrained_data(a, b, SameData::yes, "c.h5", "train.epochs=7");  // a copy
    refuse_untrained_data(a, a, SameData::unknown, "c.h5", "train.epochs=7");
    EXPECT_CONTAINS(refusal(a, b, SameData::no),
                    "c.h5 is of a run that is finished, and was trained on other data (data.train: [a.h5] -> "
                    "[b.h5]); train.epochs=7 goes on with these; run.resume=never ");
    EXPECT_CONTAINS(refusal(a, b, SameData::unknown), "(data.train: [a.h5] -> [b.h5])");
    EXPECT_CONTAINS(refusal(a, a, SameData::no), "(data.train: the samples, their number, ");
    const Config scaled = resumed({"data.train=a.h5", "data.normalize={mean: [0.5], std: [0.5]}"});
    EXPECT_CONTAINS(refusal(a, scaled, SameData::yes), "(data.normalize: ");
    EXPECT_CONTAINS(refusal(b, scaled, SameData::no), "(data.train: [b.h5] -> [a.h5], data.normalize: ");
    // A run that goes on has learned from both.
    EXPECT_EQ(course_changes(a, 1, a, 1, SameData::no).size(), 1U);
    EXPECT_EQ(course_changes(a, 1, b, 1, SameData::no),
              std::vector<std::string>{"data.train: [a.h5] -> [b.h5]"});
}

}  // namespace
}  // namespace tutti
