#include "memory_check.hpp"

#include <gtest/gtest.h>

namespace tutti {
namespace {

TEST(TooLittleMemory, NamesABatchThatFitsOrTheRanksThatDo) {
    const MemoryNeed need{1000, 10};
    struct Row {
        std::int64_t batch_size, micro_batch, ranks;
        double have;
        std::vector<std::string> said;  // nothing where it fits
    };
    for (const Row& row : {
             Row{100, 100, 1, 2000, {}},
             Row{101,
                 101,
                 1,
                 2000,
                 {"train.batch_size 101", "2.0 KiB", "the rank on here", "to less, 50 for"}},
             Row{100, 100, 4, 8000, {}},
             // Of 1100 bytes for each rank the model takes 1000.
             Row{100, 100, 4, 4400, {"train.batch_size 100", "the 4 ranks on here", "to less, 5 for"}},
             // Two passes make a batch of 400.
             Row{400, 200, 1, 2000, {"train.batch_size 400", "to less, 100 for"}},
             // Half of the room would be less than 1.
             Row{100, 100, 4, 4048, {"to less, 1 for"}},
             Row{1,
                 1,
                 4,
                 4000,
                 {"model mlp", "the 4 ranks on here", "train.batch_size 1,", "start 3 ranks at most"}},
             Row{64, 64, 2, 1999, {"model mlp", "start 1 rank there"}},
             Row{64, 64, 2, 1000, {"model mlp", "choose a smaller model"}},
             Row{std::int64_t{10} * 1000 * 1000 * 1000 * 1000,
                 std::int64_t{10} * 1000 * 1000 * 1000 * 1000,
                 2,
                 4000,
                 {"train.batch_size 10000000000000", "to less, 50 for"}},
         }) {
        const MemoryRequest request{row.batch_size, row.micro_batch, "mlp", "here", row.ranks};
        const auto refusal = too_little_memory(need, request, row.have);
        EXPECT_EQ(refusal.has_value(), !row.said.empty()) << row.batch_size << " of " << row.have;
        for (const std::string& words : row.said)
            EXPECT_NE(std::string(refusal->what()).find(words), std::string::npos)
                << words << " in: " << refusal->what();
    }
}

TEST(TooLittleMemory, ASuggestedBatchIsNotRefused) {
    const MemoryNeed need{5e8, 3e5};
    for (const double have : {6e8, 1e9, 7e9}) {
        const MemoryRequest request{1'000'000, 1'000'000, "vit", "here", 1};
        const auto refusal = too_little_memory(need, request, have);
        ASSERT_TRUE(refusal);
        const std::string text = refusal->what();
        const std::string before = "to less, ";
        const std::int64_t batch = std::stoll(text.substr(text.find(before) + before.size()));
        EXPECT_LT(batch, request.batch_size);
        EXPECT_FALSE(too_little_memory(need, {batch, batch, "vit", "here", 1}, have)) << batch;
    }
}

TEST(TooLargeBuffer, IsWhatTheRanksOfAHostCannotHaveTogether) {
    EXPECT_FALSE(too_large_buffer(1024, 4, "here", 4096));
    EXPECT_STREQ(
        too_large_buffer(2048, 4, "here", 4096)->what(),
        "a buffer of 2.0 KiB for each of the 4 ranks on here needs 8.0 KiB of memory, where 4.0 KiB can "
        "be had; measure smaller sizes, below 1.0 KiB");
    EXPECT_NE(std::string(too_large_buffer(1e30, 1, "here", 4096)->what()).find("for the rank on here"),
              std::string::npos);
}

}  // namespace
}  // namespace tutti
