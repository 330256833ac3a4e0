// What is not finite gets into no checkpoint, whichever part of it that is.
#include <gtest/gtest.h>

#include "support/error_message.hpp"
#include "support/temp_dir.hpp"
#include "training_fixture.hpp"
#include "tutti/train/run_directory.hpp"

namespace tutti {
namespace {

/// Why these settings give no checkpoint. One update an epoch of a model whose weights change by their decay
/// alone, as all that the first layer gives is dropped: the loss stays finite, whatever they are.
std::string refusal(const std::vector<std::string>& more) {
    std::vector<std::string> settings{
        "model.layers=[{linear: {out: 1}}, {dropout: {p: 1}}, {linear: {out: 4}}]",
        "train.batch_size=50",
        "train.checkpoint.every=0",
        "optim.decay_1d=false",
        "optim.weight_decay=1.5",
        "schedule.warmup_epochs=1"};
    settings.insert(settings.end(), more.begin(), more.end());
    std::string said;
    test::run_training(1, settings, [&](const TrainingJob& job) {
        const test::TempDir folder;
        RunDirectory directory(folder.path() + "/run", false);
        Trainer trainer(job);
        trainer.write_to(&directory);
        said = test::message_of<Error>([&] { trainer.run(); });
        EXPECT_TRUE(directory.checkpoint_steps().empty());
    });
    return said;
}

TEST(FiniteCheckpoint, weights_that_are_not_finite_are_refused) {
    EXPECT_CONTAINS(refusal({"train.epochs=2", "optim.lr=1e38", "schedule.warmup_lr=1e38"}),
                    "step 2: 0.weight holds values that are not finite; no checkpoint was written");
}

TEST(FiniteCheckpoint, a_moving_average_that_is_not_finite_is_refused) {
    // The largest weight: the first update takes it to about 2e38, the third, by the momentum of the second,
    // to about -2e38. The difference of both, on the average's way, is more than fp32 holds.
    EXPECT_CONTAINS(refusal({"train.epochs=3", "optim.momentum=0.95", "optim.lr=0.87",
                             "schedule.warmup_lr=1.4e38", "train.ema=0.999"}),
                    "step 3: the averaged ");
}

TEST(FiniteCheckpoint, an_optimizers_state_that_is_not_finite_is_refused) {
    // The first update makes each weight as large as its rate, the last layer's far larger than the first's.
    // Squares of the first's gradients, which are as large as the last's weights, are more than fp32 holds;
    // weights, divided by their root, stay.
    EXPECT_CONTAINS(refusal({"model.layers=[{linear: {out: 3}}, {linear: {out: 4}}]", "train.epochs=2",
                             "optim.name=adam", "optim.weight_decay=0", "optim.lr=1e21",
                             "optim.layer_decay=1e-7", "schedule.warmup_epochs=0"}),
                    "the optimizer's exp_avg_sq/");
}

}  // namespace
}  // namespace tutti
