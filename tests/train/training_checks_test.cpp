// What is found before a run begins.

#include <gtest/gtest.h>

#include <functional>

#include "tutti/base/error.hpp"
#include "tutti/train/training_checks.hpp"

namespace tutti {
namespace {

/// Samples that nobody reads.
class Images final : public Dataset {
  public:
    explicit Images(std::int64_t samples, std::vector<std::string> class_names = {}) {
        info_.class_names = std::move(class_names);
        info_.samples = samples;
        info_.sample_shape = {8, 8, 1};
        info_.classes = 4;
    }
    const DatasetInfo& info() const override { return info_; }
    std::string name() const override { return "images.h5"; }
    void read(std::span<const std::int64_t>, std::span<std::byte>, std::span<std::int64_t>) const override {
        throw std::logic_error("the samples were read");
    }

  private:
    DatasetInfo info_;
};

template <class Expected>
std::string refusal(const std::function<void()>& check) {
    try {
        check();
    } catch (const Expected& error) {
        return error.what();
    }
    return "accepted";
}

TEST(CheckTraining, data_without_samples_are_bad_data) {
    const Images none(0), some(64);
    Config config;
    config.data.train = config.data.val = {"images.h5"};
    const std::string problem =
        "images.h5: there are no samples; see what it holds: trainer inspect images.h5";
    EXPECT_EQ(refusal<DataError>([&] { check_training(config, none, nullptr, 1); }), problem);
    EXPECT_EQ(refusal<DataError>([&] { check_training(config, some, &none, 1); }), problem);
    config.data.train = {"my images.h5"};
    EXPECT_EQ(refusal<DataError>([&] { check_training(config, none, nullptr, 1); }),
              "images.h5: there are no samples; see what it holds: trainer inspect 'my images.h5'");
    config.data.train = {"a.h5", "b.h5"};
    EXPECT_EQ(refusal<DataError>([&] { check_training(config, none, nullptr, 1); }),
              "images.h5: there are no samples; see what it holds: trainer inspect FILE");
}

TEST(CheckTraining, validation_data_with_other_classes_are_bad_data) {
    const Images train(64, {"cat", "dog", "horse", "sheep"}), val(64, {"cat", "horse", "sheep", "wolf"});
    Config config;
    config.data.train = config.data.val = {"images.h5"};
    config.model.name = "mlp";
    config.train.batch_size = 2;
    EXPECT_EQ(
        refusal<DataError>([&] { check_training(config, train, &val, 1); }),
        "data.val images.h5: class 1 is horse, but in data.train images.h5 it is dog; pack both with the "
        "same classes in the same order");
    EXPECT_EQ(refusal<DataError>([&] { check_training(config, train, &train, 1); }), "accepted");
}

TEST(CheckTraining, a_batch_larger_than_the_data_says_the_largest) {
    Config config;
    config.model.name = "mlp";
    config.train.batch_size = 2;
    EXPECT_EQ(refusal<UsageError>([&] { check_training(config, Images(8), nullptr, 4); }), "accepted");
    EXPECT_EQ(refusal<UsageError>([&] { check_training(config, Images(7), nullptr, 4); }),
              "train.batch_size 2 × 4 ranks = 8 is larger than the data (images.h5: 7 samples); set "
              "train.batch_size "
              "to at most 1");
    EXPECT_EQ(refusal<UsageError>([&] { check_training(config, Images(1), nullptr, 4); }),
              "train.batch_size 2 × 4 ranks = 8 is larger than the data (images.h5: 1 sample); set "
              "train.batch_size "
              "to at most 1 and use at most 1 rank");
}

TEST(CheckTraining, rates_that_are_scaled_beyond_all_numbers_are_refused) {
    const Images train(64);
    Config config;
    config.model.name = "mlp";
    config.optim.lr = 1e308;
    config.train.batch_size = 1;
    config.train.accumulate = 64;
    EXPECT_EQ(refusal<UsageError>([&] { check_training(config, train, nullptr, 1); }), "accepted");
    config.train.scale_lr_by_batch = 1;
    EXPECT_EQ(
        refusal<UsageError>([&] { check_training(config, train, nullptr, 1); }),
        "train.scale_lr_by_batch: the scaled learning rate is beyond all numbers; set it to more, or the "
        "rates to less");
}

TEST(CheckTraining, a_top_k_of_more_than_the_models_classes_is_refused) {
    const Images images(8);  // of 4 classes
    Config config;
    config.model.name = "mlp";
    config.train.batch_size = 2;
    const auto answer = [&](std::optional<std::int64_t> k) {
        config.train.topk = k;
        return refusal<UsageError>([&] { check_training(config, images, nullptr, 1); });
    };
    for (const std::int64_t k : {0, 1, 4}) EXPECT_EQ(answer(k), "accepted") << k;
    EXPECT_EQ(answer(5),
              "train.topk is 5, but the model has 4 classes, so that every sample would count as correct; "
              "set train.topk to at most 4, to 0 (none) or to auto");
    config.train.checkpoint.best = "val/top5";
    EXPECT_EQ(answer({}),
              "train.checkpoint.best is val/top5, but the model has 4 classes, so that every sample would "
              "count as correct; choose val/accuracy or val/loss");
    config.train.checkpoint.best = "";
    config.train.early_stopping = EarlyStoppingConfig{.metric = "val/top5"};
    EXPECT_EQ(answer({}).substr(0, 42), "train.early_stopping.metric is val/top5, b");
    config.train.early_stopping.reset();
    config.model.classes = 6;
    EXPECT_EQ(answer(6), "accepted");
    EXPECT_EQ(answer(7).substr(0, 45), "train.topk is 7, but the model has 6 classes,");
}

TEST(CheckTraining, a_confusion_matrix_of_very_many_classes_is_refused) {
    const Images images(8);
    Config config;
    config.model.name = "mlp";
    config.train.batch_size = 2;
    config.train.confusion = true;
    const auto answer = [&](std::int64_t classes) {
        config.model.classes = classes;
        return refusal<UsageError>([&] { check_training(config, images, nullptr, 1); });
    };
    EXPECT_EQ(answer(2048), "accepted");
    EXPECT_EQ(
        answer(21841),
        "train.confusion is true, but the model has 21841 classes, and a matrix is for at most 2048; set "
        "train.confusion to false; trainer predict writes what each sample was taken for");
}

}  // namespace
}  // namespace tutti
