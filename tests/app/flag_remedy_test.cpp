// What is said of flags that no command has.
#include "flag_remedy.hpp"

#include <gtest/gtest.h>

namespace tutti {
namespace {

std::string remedy(const std::string& flag, const std::string& value = "") {
    return flag_remedy("trainer train", flag, value);
}

TEST(FlagRemedy, OfAKeyThatIsWrittenAsAFlagIsTheKeyWithItsValue) {
    EXPECT_EQ(remedy("--max_steps", "7"), "write train.max_steps=7");
    EXPECT_EQ(remedy("--max-steps"), "write train.max_steps=…");
    EXPECT_EQ(remedy("--train.max-steps", "7"), "write train.max_steps=7");
    EXPECT_EQ(remedy("--output_dir", "my runs"), "write 'run.dir=my runs'");
    EXPECT_EQ(remedy("-lr", "0.2"), "write optim.lr=0.2");
}

TEST(FlagRemedy, RepeatsNoValueThatTheKeyDoesNotTake) {
    EXPECT_EQ(remedy("--max-steps", "many"), "write train.max_steps=…");
    EXPECT_EQ(remedy("--scheduler", "cosine"), "write schedule.name=cosine");
    EXPECT_EQ(remedy("--scheduler", "CosineAnnealingLR"), "write schedule.name=…");
}

TEST(FlagRemedy, OfAWarmUpWithANumberIsItsLengthAndNotItsForm) {
    EXPECT_EQ(remedy("--warmup", "5"), "write schedule.warmup_epochs=5");
    EXPECT_EQ(remedy("--warmup"), "write schedule.warmup_epochs=…");
    EXPECT_EQ(remedy("--warmup", "linear"), "write schedule.warmup=linear");
    EXPECT_EQ(remedy("--warmup-epochs", "5"), "write schedule.warmup_epochs=5");
    EXPECT_EQ(remedy("--warmup_steps", "500"), "write schedule.warmup_epochs=…, in epochs, or a part of one");
}

TEST(FlagRemedy, OfWhatOthersCallSoIsOurKey) {
    EXPECT_EQ(remedy("--optimizer", "AdamW"), "write optim.name=AdamW");
    EXPECT_EQ(remedy("--model", "resnet18"), "write model.name=resnet18");
    EXPECT_EQ(remedy("--arch", "resnet50"), "write model.name=resnet50");
    EXPECT_EQ(remedy("-a", "resnet50"), "write model.name=resnet50");
    EXPECT_EQ(remedy("--data", "a.h5"), "write data.train=a.h5");
    EXPECT_EQ(remedy("--lr_scheduler", "step"), "write schedule.name=step");
    EXPECT_EQ(remedy("-b", "16"), "write train.batch_size=16");
}

TEST(FlagRemedy, OfASwitchTurnsItOn) {
    EXPECT_EQ(remedy("--sync-bn"), "write distributed.sync_batch_norm=true");
    EXPECT_EQ(remedy("--deterministic"), "write run.deterministic=true");
}

TEST(FlagRemedy, OfWhatIsDoneOtherwiseSaysHow) {
    for (const char* flag : {"--amp", "--fp16"})
        EXPECT_EQ(remedy(flag), "write train.precision=bf16 (there is no fp16)");
    for (const char* flag : {"--wandb", "--tensorboard"})
        EXPECT_NE(remedy(flag).find("RUN_DIR/metrics.jsonl"), std::string::npos) << flag;
    for (const char* flag : {"--evaluate", "-e"})
        EXPECT_EQ(remedy(flag), "evaluate with a command of its own: trainer eval --run RUN_DIR");
    EXPECT_NE(remedy("-n", "4").find("mpirun -np N"), std::string::npos);
}

TEST(FlagRemedy, IsNotOfAnotherCommand) {
    for (const char* flag : {"--evaluate", "-e", "--data-path", "--output_dir"})
        EXPECT_EQ(flag_remedy("trainer predict", flag, "x"), "") << flag;
    EXPECT_EQ(flag_remedy("trainer predict", "--bs", "8"), "write train.batch_size=8");
}

TEST(FlagRemedy, IsEmptyOfWhatNobodyKnows) {
    for (const char* flag : {"-x", "--zzzzzz", "-", "--", "-A"}) EXPECT_EQ(remedy(flag), "") << flag;
}

}  // namespace
}  // namespace tutti
