#include "files_in_memory.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>

namespace tutti::test {
namespace {

constexpr std::int64_t gib = std::int64_t{1} << 30;

void expect(std::optional<std::int64_t> available, std::int64_t ranks, std::int64_t map,
            std::int64_t bring_in) {
    const FileMemory memory = file_memory_of_rank(available, ranks, false);
    EXPECT_EQ(memory.map, static_cast<std::uint64_t>(map)) << ranks << " ranks";
    EXPECT_EQ(memory.bring_in, static_cast<std::uint64_t>(bring_in)) << ranks << " ranks";
}

TEST(FileMemoryOfRank, OneAloneMapsWhatIsBroughtIn) {
    expect(24 * gib, 1, 12 * gib, 12 * gib);
}

TEST(FileMemoryOfRank, RanksOfAHostMapNoMoreThanThatTogether) {
    expect(24 * gib, 2, 6 * gib, 12 * gib);
    expect(24 * gib, 5, 12 * gib / 5, 12 * gib);
}

TEST(FileMemoryOfRank, ManyRanksStillMapTheLimit) {
    expect(24 * gib, 12, gib, 12 * gib);
    expect(24 * gib, 100, gib, 12 * gib);
}

TEST(FileMemoryOfRank, LittleMemoryIsNotExceeded) {
    expect(gib, 1, gib / 2, gib / 2);
    expect(gib, 100, gib / 2, gib / 2);
    expect(0, 4, 0, 0);
}

TEST(FileMemoryOfRank, WhereResidentSetsAreWatchedTheLimitHolds) {
    const FileMemory memory = file_memory_of_rank(24 * gib, 1, true);
    EXPECT_EQ(memory.map, static_cast<std::uint64_t>(gib));
    EXPECT_EQ(memory.bring_in, static_cast<std::uint64_t>(12 * gib));
}

TEST(ResidentSetIsWatched, InABatchJobWhoseMemoryNoControlGroupLimits) {
    for (const char* const job : {"SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "PJM_JOBID"}) {
        EXPECT_TRUE(resident_set_is_watched({{job, "7"}}, false)) << job;
        EXPECT_FALSE(resident_set_is_watched({{job, "7"}}, true)) << job;
    }
    EXPECT_TRUE(resident_set_is_watched({{"JOB_ID", "7"}, {"SGE_ROOT", "/sge"}}, false));
    EXPECT_FALSE(resident_set_is_watched({{"JOB_ID", "7"}}, false));
    EXPECT_FALSE(resident_set_is_watched({{"HOME", "/"}}, false));
}

TEST(FileMemoryOfRank, WhereNothingIsKnownTheLimitHolds) {
    expect({}, 1, gib, gib);
    expect({}, 8, gib, gib);
}

}  // namespace
}  // namespace tutti::test
