#include "tutti/train/objective.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "support/error_message.hpp"
#include "tutti/base/error.hpp"

namespace tutti {
namespace {

DatasetInfo with_classes() {
    DatasetInfo info;
    info.sample_shape = {5};
    info.classes = 3;
    return info;
}

DatasetInfo with_targets() {
    DatasetInfo info;
    info.sample_shape = {5};
    info.labelled = false;
    info.targets = 2;
    return info;
}

Config config_of(const std::vector<std::string>& settings) {
    std::vector<std::string> all{"data.val=val.h5"};
    all.insert(all.end(), settings.begin(), settings.end());
    return parse_config("", "test.yaml", all);
}

/// What is said of these settings; empty: they are taken.
std::string refusal(const std::vector<std::string>& settings, const DatasetInfo& data) {
    try {
        check_objective(config_of(settings).train, data, "data.h5");
    } catch (const UsageError& error) {
        return error.what();
    }
    return "";
}

TEST(Objective, AutoFollowsTheData) {
    const Config config = config_of({});
    EXPECT_EQ(objective_of(config.train, with_classes()), Objective::classes);
    EXPECT_EQ(objective_of(config.train, with_targets()), Objective::targets);
    EXPECT_EQ(loss_of_run(config.train, with_classes()), LossChoice::automatic);
    EXPECT_EQ(loss_of_run(config.train, with_targets()), LossChoice::mse);
    EXPECT_EQ(loss_of_run(config_of({"train.loss=huber"}).train, with_targets()), LossChoice::huber);
}

TEST(Objective, WhatALossSaysHoldsWithoutTargetsToo) {
    DatasetInfo bare = with_classes();
    bare.labelled = false;
    EXPECT_EQ(objective_of(config_of({"train.loss=l1"}).train, bare), Objective::targets);
    EXPECT_EQ(objective_of(config_of({"train.loss=cross_entropy"}).train, with_targets()),
              Objective::classes);
}

TEST(Objective, AMaskedAutoencoderIsTrainedOnWhatItDoesNotSee) {
    const Config config = config_of({"model.name=videomae_pretrain"});
    for (const DatasetInfo& data : {with_classes(), with_targets(), DatasetInfo{}}) {
        EXPECT_EQ(objective_of(config.train, data), Objective::hidden_input);
        EXPECT_EQ(config_with_objective(config, data), config);
        EXPECT_EQ(refusal({"model.name=videomae_pretrain"}, data), "");
        EXPECT_EQ(refusal({"model.name=videomae_pretrain", "train.checkpoint.best=val/loss"}, data), "");
        for (const char* setting :
             {"train.label_smoothing=0.1", "train.class_weights=balanced", "train.topk=1",
              "train.confusion=true", "train.checkpoint.best=val/accuracy", "train.checkpoint.best=val/mae",
              "train.early_stopping={metric: val/rmse, patience: 2}"})
            EXPECT_NE(refusal({"model.name=videomae_pretrain", setting}, data).find("hidden pixels"),
                      std::string::npos)
                << setting;
    }
    EXPECT_EQ(labels_needed(config), Labels::optional);
    EXPECT_EQ(labels_needed(config_of({})), Labels::required);
}

TEST(Objective, ALocatorLearnsFromThreeTargets) {
    const Config config = config_of({"model.name=locator", "train.heatmap_sigma=3"});
    DatasetInfo data = with_targets();
    data.targets = 3;
    EXPECT_EQ(objective_of(config.train, data), Objective::location);
    EXPECT_EQ(config_with_objective(config, data), config);
    EXPECT_EQ(location_of_run(config.train)->loss.sigma, 3);
    EXPECT_FALSE(location_of_run(config_of({}).train));
    const std::vector<std::string> locator{"model.name=locator"};
    EXPECT_EQ(refusal(locator, data), "");
    EXPECT_EQ(refusal(locator, with_targets()),
              "the model locator learns from three targets, presence, x and y, but data.h5 has 2; pack them: "
              "trainer pack images --csv FILE --target presence,x,y (data/README.md)");
    EXPECT_NE(refusal(locator, with_classes()).find("data.h5 has labels"), std::string::npos);
    for (const char* metric : {"loss", "distance", "accuracy", "balanced_accuracy", "auprc", "roc_auc"})
        EXPECT_EQ(refusal({"model.name=locator", fmt::format("train.checkpoint.best=val/{}", metric)}, data),
                  "");
    for (const char* setting :
         {"train.label_smoothing=0.1", "train.class_weights=balanced", "train.topk=1", "train.confusion=true",
          "train.checkpoint.best=val/top5", "train.checkpoint.best=val/mae"})
        EXPECT_NE(refusal({"model.name=locator", setting}, data).find("presence and place"),
                  std::string::npos)
            << setting;
}

TEST(Objective, ATemporalTransformerLearnsFromSegments) {
    const std::string model = "model.name=temporal_transformer";
    const Config config = config_of({model, "train.focal_alpha=0.25", "train.segments.threshold=0.3"});
    DatasetInfo data = with_targets();
    data.sample_shape = {7, 5};
    data.targets = 14;
    data.target_kind = target_kinds::segments;
    EXPECT_EQ(objective_of(config.train, data), Objective::segments);
    EXPECT_EQ(config_with_objective(config, data), config);
    EXPECT_EQ(segments_of_run(config.train)->loss.alpha, 0.25);
    EXPECT_EQ(segments_of_run(config.train)->selection.threshold, 0.3);
    EXPECT_FALSE(segments_of_run(config_of({}).train));
    EXPECT_EQ(refusal({model}, data), "");
    EXPECT_EQ(
        refusal({model}, with_targets()),
        "the model temporal_transformer learns from sequences and their segments, but data.h5 has samples "
        "of shape [5] and 2 targets; pack them: trainer pack features --sequences (data/README.md)");
    EXPECT_EQ(refusal({"model.name=mlp"}, data),
              "data.h5 has segments, which only the model temporal_transformer tells; set model.name to "
              "temporal_transformer, or give data with labels");
    for (const char* metric : {"loss", "atiou", "balanced_accuracy"})
        EXPECT_EQ(refusal({model, fmt::format("train.checkpoint.best=val/{}", metric)}, data), "");
    for (const char* setting : {"train.label_smoothing=0.1", "train.class_weights=balanced", "train.topk=1",
                                "train.confusion=true", "train.checkpoint.best=val/accuracy",
                                "train.checkpoint.best=val/mae", "train.checkpoint.best=val/auprc"})
        EXPECT_NE(refusal({model, setting}, data).find("segments"), std::string::npos) << setting;
    EXPECT_EQ(refusal({"train.checkpoint.best=val/atiou"}, with_classes()),
              "train.checkpoint.best val/atiou is for the model temporal_transformer alone; give val/loss, "
              "val/accuracy, val/top5, val/balanced_accuracy, or of two classes val/auprc or val/roc_auc");
}

TEST(Objective, EverySettingOfALocatorReachesItsTask) {
    const auto task =
        location_of_run(config_of({"model.name=locator", "train.heatmap_sigma=3", "train.heatmap_weight=50",
                                   "train.presence_weight=0.7", "train.soft_argmax=0.2",
                                   "train.presence_score=mean", "train.presence_threshold=0.9"})
                            .train);
    ASSERT_TRUE(task);
    EXPECT_EQ(task->loss.sigma, 3);
    EXPECT_EQ(task->loss.heat_map_weight, 50);
    EXPECT_EQ(task->loss.presence_weight, 0.7);
    EXPECT_EQ(task->decoding.stride, task->loss.stride);
    EXPECT_EQ(task->decoding.soft_argmax, 0.2);
    EXPECT_EQ(task->decoding.presence_score, PresenceScore::mean);
    EXPECT_EQ(task->decoding.presence_threshold, 0.9);
}

TEST(Objective, EverySettingOfSegmentsReachesTheirTask) {
    const auto task = segments_of_run(
        config_of({"model.name=temporal_transformer", "train.focal_alpha=0.25", "train.focal_gamma=3",
                   "train.focal_weight=0.4", "train.offset_weight=0.6", "train.segments.threshold=0.3",
                   "train.segments.candidates=40", "train.segments.shortest=2", "train.segments.longest=50",
                   "train.segments.per_minute=0.9", "train.segments.nms_sigma=0.45",
                   "train.segments.min_score=0.02"})
            .train);
    ASSERT_TRUE(task);
    EXPECT_EQ(task->loss.alpha, 0.25);
    EXPECT_EQ(task->loss.gamma, 3);
    EXPECT_EQ(task->loss.class_weight, 0.4);
    EXPECT_EQ(task->loss.offset_weight, 0.6);
    EXPECT_EQ(task->selection, (SegmentsConfig{.threshold = 0.3,
                                               .candidates = 40,
                                               .shortest = 2,
                                               .longest = 50,
                                               .per_minute = 0.9,
                                               .nms_sigma = 0.45,
                                               .min_score = 0.02}));
}

TEST(Objective, PlacesAreALocatorsAndTwoTargetsThatAreNamedSo) {
    const auto place_of = [](std::vector<std::string> names, const char* loss = "train.loss=mse") {
        DatasetInfo data;
        data.targets = std::ssize(names);
        data.target_names = std::move(names);
        const auto place = place_targets(config_of({loss}).train, data);
        return place ? std::pair(place->x, place->y) : std::pair<std::int64_t, std::int64_t>(-1, -1);
    };
    using Pair = std::pair<std::int64_t, std::int64_t>;
    EXPECT_EQ(place_of({"x", "y"}), Pair(0, 1));
    EXPECT_EQ(place_of({"x_pix", "y_pix"}), Pair(0, 1));
    EXPECT_EQ(place_of({"cy", "cx"}), Pair(1, 0));
    for (const auto& none : {std::vector<std::string>{},
                             {"x"},
                             {"x", "x"},
                             {"x_wind", "y_wind"},
                             {"x_pix", "cy"},
                             {"x", "y", "z"}})
        EXPECT_EQ(place_of(none), Pair(-1, -1));
    EXPECT_EQ(place_of({"presence", "cx", "cy"}), Pair(-1, -1));
    EXPECT_EQ(place_of({}, "model.name=locator"), Pair(1, 2));
}

TEST(Objective, KilometresAreOfPlaces) {
    const auto refused = [](const std::vector<std::string>& settings, LossChoice loss, std::int64_t targets) {
        return test::message_of<UsageError>(
            [&] { check_geography(config_of(settings).data, loss, targets); });
    };
    const std::vector<std::string> both{"data.latitudes=a.npy", "data.longitudes=b.npy"};
    check_geography(config_of({}).data, LossChoice::cross_entropy, 3);
    check_geography(config_of(both).data, LossChoice::location, 3);
    check_geography(config_of(both).data, LossChoice::huber, 2);
    EXPECT_EQ(refused({"data.latitudes=a.npy"}, LossChoice::location, 3),
              "data.latitudes is given without data.longitudes; give both, or none");
    EXPECT_EQ(refused({"data.longitudes=a.npy"}, LossChoice::location, 3),
              "data.longitudes is given without data.latitudes; give both, or none");
    const std::string remedy =
        "; leave it and data.longitudes out, or give data with two targets, x and y, or the model locator";
    EXPECT_EQ(refused(both, LossChoice::mse, 3),
              "data.latitudes is for models that tell a place, but this one says 3 numbers" + remedy);
    EXPECT_EQ(refused(both, LossChoice::cross_entropy, 2),
              "data.latitudes is for models that tell a place, but this one says classes" + remedy);
    EXPECT_NE(refused(both, LossChoice::segments, 8).find("says segments"), std::string::npos);
    EXPECT_NE(refused(both, LossChoice::reconstruction, 1).find("says hidden pixels"), std::string::npos);
}

TEST(Objective, AModelGivesOneNumberPerClassOrTarget) {
    EXPECT_EQ(model_input(with_classes(), {}).classes, 3);
    EXPECT_EQ(model_input(with_targets(), {}).classes, 2);
    EXPECT_EQ(model_input(with_targets(), {}).sample_shape, Shape{5});
}

TEST(Objective, AModelIsToldWhatPixelsAreDividedBy) {
    DatasetInfo data = with_classes();
    EXPECT_TRUE(model_input(data, {}).std.empty());
    data.std = {0.5F};
    EXPECT_EQ(model_input(data, {}).std, std::vector<float>{0.5F});
    EXPECT_EQ(model_input(data, config_of({"data.normalize={mean: [0], std: [0.25]}"}).data).std,
              std::vector<float>{0.25F});
}

TEST(Objective, ANormalisationThatChangesWhetherAStepExistsIsRefused) {
    DatasetInfo data = with_classes();
    data.sample_shape = {5, 2};
    data.dtype = DType::f32;
    try {
        model_input(data, config_of({"data.normalize={mean: [0.5], std: [2]}"}).data);
        FAIL();
    } catch (const UsageError& error) {
        EXPECT_STREQ(
            error.what(),
            "data.normalize has mean 0.5 and std 2 for the last feature of sequences, which says whether "
            "a step exists and must stay what it is; give a value for each of the 2 features, for the "
            "last one mean 0 and std 1, or pack the data with --mean and --std, which leave it out");
    }
    EXPECT_EQ(model_input(data, config_of({"data.normalize={mean: [3, 0], std: [2, 1]}"}).data).std,
              (std::vector<float>{2, 1}));
}

TEST(Objective, LossAndDataMustGoTogether) {
    for (const char* loss : {"auto", "mse", "l1", "huber"})
        EXPECT_EQ(refusal({std::string("train.loss=") + loss}, with_targets()), "") << loss;
    for (const char* loss : {"auto", "cross_entropy"})
        EXPECT_EQ(refusal({std::string("train.loss=") + loss}, with_classes()), "") << loss;
    EXPECT_NE(refusal({"train.loss=cross_entropy"}, with_targets()).find("data.h5 has targets"),
              std::string::npos);
    EXPECT_NE(refusal({"train.loss=mse"}, with_classes()).find("data.h5 has labels"), std::string::npos);
}

TEST(Objective, SettingsOfTheOtherKindAreRefused) {
    for (const char* setting :
         {"train.label_smoothing=0.1", "train.class_weights=balanced", "train.topk=1", "train.confusion=true",
          "train.checkpoint.best=val/accuracy", "train.checkpoint.best=val/top5",
          "train.early_stopping={metric: val/balanced_accuracy, patience: 2}"}) {
        EXPECT_NE(refusal({setting}, with_targets()), "") << setting;
        EXPECT_EQ(refusal({setting}, with_classes()), "") << setting;
    }
    for (const char* setting : {"train.checkpoint.best=val/mae", "train.checkpoint.best=val/rmse",
                                "train.early_stopping={metric: val/distance, patience: 2}"}) {
        EXPECT_EQ(refusal({setting}, with_targets()), "") << setting;
        EXPECT_NE(refusal({setting}, with_classes()), "") << setting;
    }
    for (const char* setting : {"train.topk=0", "train.checkpoint.best=val/loss"}) {
        EXPECT_EQ(refusal({setting}, with_targets()), "") << setting;
        EXPECT_EQ(refusal({setting}, with_classes()), "") << setting;
    }
}

TEST(Objective, AModelGivesExactlyTheTargets) {
    const auto built = [](const std::string& setting, const DatasetInfo& data) {
        try {
            build_model(config_of({"model.name=mlp", setting}).model, model_input(data, {}));
        } catch (const UsageError& error) {
            return std::string(error.what());
        }
        return std::string();
    };
    EXPECT_EQ(built("model.classes=null", with_targets()), "");
    EXPECT_EQ(built("model.classes=2", with_targets()), "");
    EXPECT_EQ(
        built("model.classes=3", with_targets()),
        "model.classes is 3, but the data have 2 targets; remove it: a model gives a number for each target");
    EXPECT_EQ(built("model.classes=4", with_classes()), "");
    const auto layers = [](int out, const DatasetInfo& data) {
        Config config =
            config_of({"model.name=null", fmt::format("model.layers=[{{linear: {{out: {}}}}}]", out)});
        try {
            build_model(config.model, model_input(data, {}));
        } catch (const UsageError& error) {
            return std::string(error.what());
        }
        return std::string();
    };
    EXPECT_EQ(layers(2, with_targets()), "");
    EXPECT_EQ(
        layers(3, with_targets()),
        "model.layers ends with shape [3], but the data have 2 targets; end it with {linear: {out: 2}}");
    EXPECT_EQ(layers(4, with_classes()), "");
}

TEST(Objective, AModelThatDoesNotTakeImagesWhoseChannelsComeFirstSaysSo) {
    DatasetInfo data;
    data.dtype = DType::u8;
    data.classes = 10;
    for (const auto& [name, problem] : {std::pair<std::string, std::string>{"lenet", "max_pool2d: a kernel"},
                                        {"mnist", "model mnist needs"},
                                        {"vit", "model.patch is 4, but"}}) {
        const Config config = config_of({"model.name=" + name});
        const auto refusal = [&](const Shape& shape) {
            data.sample_shape = shape;
            return test::message_of<UsageError>(
                [&] { build_model_for(config.model, model_input(data, {}), data); });
        };
        const std::string said = refusal({1, 30, 30});
        EXPECT_TRUE(
            said.starts_with("data: samples are [1, 30, 30], taken for images of 1 x 30 pixels with 30 "
                             "channels; if their channels come first, store them as [N, H, W, C], in "
                             "h5py with images.transpose(0, 2, 3, 1); if not: "))
            << name << ": " << said;
        EXPECT_CONTAINS(said, "; if not: " + problem);
        EXPECT_EQ(refusal({2, 30, 30}).find("channels come first"), std::string::npos);
    }
}

TEST(Objective, ARunsConfigSaysWhatFollowsFromTheData) {
    const Config given = config_of({"model.name=mlp"});
    EXPECT_EQ(config_with_objective(given, with_classes()), given);
    const Config regression = config_with_objective(given, with_targets());
    EXPECT_EQ(regression.train.loss, LossChoice::mse);
    EXPECT_EQ(regression.model.classes, 2);
    const Config layers = config_of({"model.name=null", "model.layers=[{linear: {out: 2}}]"});
    EXPECT_EQ(config_with_objective(layers, with_targets()).model, layers.model);
}

TEST(Objective, AResumeRefusesOtherOutputsAndTellsOfOtherLosses) {
    const Config classes = config_of({"train.loss=cross_entropy"}), open = config_of({});
    const Config mse = config_of({"train.loss=mse"}), huber = config_of({"train.loss=huber"});
    using List = std::vector<std::string>;
    EXPECT_EQ(training_differences(open, classes), List{});
    EXPECT_EQ(course_differences(open, classes), List{});
    EXPECT_EQ(training_differences(mse, huber), List{});
    EXPECT_EQ(course_differences(mse, huber), List{"train.loss: mse -> huber"});
    EXPECT_EQ(training_differences(classes, mse), List{"train.loss: cross_entropy -> mse"});
    EXPECT_EQ(training_differences(mse, open), List{"train.loss: mse -> auto"});
}

}  // namespace
}  // namespace tutti
