#include "tutti/base/suggest.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace tutti {
namespace {

const std::vector<std::string> keys{"batch_size", "epochs", "max_steps", "precision"};

TEST(Nearest, finds_a_word_with_a_missing_letter) {
    EXPECT_EQ(nearest("batchsize", keys), "batch_size");
}

TEST(Nearest, counts_swapped_neighbours_as_one_edit) {
    // With plain Levenshtein distance both candidates would be two edits away, and the first would win.
    EXPECT_EQ(nearest("ab", std::vector<std::string>{"cd", "ba"}), "ba");
}

TEST(Nearest, returns_the_word_itself_when_it_is_a_candidate) {
    EXPECT_EQ(nearest("epochs", keys), "epochs");
}

TEST(Nearest, takes_the_first_of_equally_near_candidates) {
    EXPECT_EQ(nearest("cat", std::vector<std::string>{"bat", "hat"}), "bat");
}

TEST(Nearest, takes_of_equally_near_candidates_one_that_goes_on_as_the_word_does) {
    const std::vector<std::string> models{"lenet", "resnet18", "resnet34"};
    EXPECT_EQ(nearest("resnet", models), "resnet18");
    EXPECT_EQ(nearest("lnet", models), "lenet");
}

TEST(Nearest, takes_capitals_and_underscores_as_spelling) {
    EXPECT_EQ(nearest("AdamW", std::vector<std::string>{"adam", "adamw"}), "adamw");
    EXPECT_EQ(nearest("SGD", std::vector<std::string>{"adam", "sgd"}), "sgd");
    EXPECT_EQ(nearest("--log_interval", std::vector<std::string>{"--log-level", "--log-interval"}),
              "--log-interval");
}

TEST(Nearest, is_empty_when_nothing_is_near) {
    EXPECT_EQ(nearest("momentum", keys), "");
}

TEST(Nearest, allows_two_edits_in_short_words) {
    EXPECT_EQ(nearest("xxochs", keys), "epochs");
}

TEST(Nearest, allows_one_edit_in_words_of_up_to_three_letters) {
    const std::vector<std::string> flags{"h", "lr", "best"};
    EXPECT_EQ(nearest("lrs", flags), "lr");
    EXPECT_EQ(nearest("bs", flags), "");
    EXPECT_EQ(nearest("bst", flags), "best");
}

TEST(Nearest, allows_a_third_of_the_length_in_long_words) {
    const std::vector<std::string> one{"abcdefghijkl"};
    EXPECT_EQ(nearest("XXXXefghijkl", one), one[0]);
    EXPECT_EQ(nearest("XXXXXfghijkl", one), "");
}

TEST(Nearest, in_meaning_knows_what_others_call_a_word) {
    const std::vector<std::string> devices{"auto", "cpu", "cuda"};
    EXPECT_EQ(nearest("gpu", devices), "cpu");
    EXPECT_EQ(nearest_in_meaning("gpu", devices), "cuda");
    EXPECT_EQ(nearest_in_meaning("GPU", devices), "cuda");
    EXPECT_EQ(nearest_in_meaning("cdua", devices), "cuda");
    EXPECT_EQ(nearest_in_meaning("gpu", std::vector<std::string>{"cpu"}), "cpu");
}

TEST(Nearest, in_meaning_knows_pytorchs_losses) {
    const std::vector<std::string> losses{"auto", "cross_entropy", "mse", "l1", "huber"};
    for (const auto& [theirs, ours] : {std::pair{"mae", "l1"},
                                       {"MSELoss", "mse"},
                                       {"mse_loss", "mse"},
                                       {"L1Loss", "l1"},
                                       {"HuberLoss", "huber"},
                                       {"SmoothL1Loss", "huber"},
                                       {"smooth_l1_loss", "huber"},
                                       {"CrossEntropyLoss", "cross_entropy"},
                                       {"NLLLoss", "cross_entropy"}})
        EXPECT_EQ(nearest_in_meaning(theirs, losses), ours) << theirs;
    EXPECT_EQ(nearest_in_meaning("CTCLoss", losses), "");
    EXPECT_EQ(nearest_in_meaning("loss", std::vector<std::string>{"val/accuracy"}), "");
}

TEST(KeyCalled, knows_what_others_call_a_key_in_any_spelling) {
    EXPECT_EQ(key_called("num_workers"), "data.workers");
    EXPECT_EQ(key_called("num-workers"), "data.workers");
    EXPECT_EQ(key_called("Grad_Clip"), "optim.clip_norm");
    EXPECT_EQ(key_called("gradient_accumulation_steps"), "train.accumulate");
    EXPECT_EQ(key_called("freeze_backbone"), "model.freeze_except");
    EXPECT_EQ(key_called("workers_num"), "");
    EXPECT_EQ(key_called(""), "");
}

TEST(SameButForSpelling, looks_at_capitals_and_dashes_only) {
    EXPECT_TRUE(same_but_for_spelling("--Batch_size", "--batch-size"));
    EXPECT_FALSE(same_but_for_spelling("--batch-size", "--batchsize"));
}

TEST(Nearest, is_empty_without_candidates) {
    EXPECT_EQ(nearest("word", {}), "");
}

}  // namespace
}  // namespace tutti
