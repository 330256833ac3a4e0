#include "input/brought_in_range.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <optional>
#include <thread>
#include <vector>

#include "support/temp_dir.hpp"

namespace tutti {
namespace {

constexpr std::uint64_t piece = BroughtInRange::piece_bytes;

/// A hole of 18 pieces and a half, no page of it in memory.
class BroughtInRangeOfAHole : public testing::Test {
  protected:
    static constexpr std::uint64_t bytes = 18 * piece + piece / 2;

    void SetUp() override {
        constexpr int populate_read = 22;
        file_ = open((dir_.path() + "/file").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        ASSERT_GE(file_, 0);
        ASSERT_EQ(ftruncate(file_, bytes), 0);
        view_ = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, file_, 0);
        ASSERT_NE(view_, MAP_FAILED);
        if (madvise(view_, 1, populate_read) != 0)
            GTEST_SKIP() << "this Linux cannot bring a range in and wait";
        ASSERT_EQ(madvise(view_, bytes, MADV_DONTNEED), 0);
        ASSERT_EQ(posix_fadvise(file_, 0, 0, POSIX_FADV_DONTNEED), 0);
    }
    void TearDown() override {
        munmap(view_, bytes);
        close(file_);
    }

    /// Bytes in memory of piece `number`.
    std::uint64_t in_memory(std::uint64_t number) const {
        const std::uint64_t size = std::min(piece, bytes - number * piece);
        const auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
        std::vector<unsigned char> pages(size / page);
        EXPECT_EQ(mincore(static_cast<std::byte*>(view_) + number * piece, size, pages.data()), 0);
        return page * static_cast<std::uint64_t>(std::ranges::count_if(
                          pages, [](unsigned char flags) { return (flags & 1U) != 0; }));
    }

    static BringInPatience for_long() {
        BringInPatience patience;
        patience.end += std::chrono::hours(1);
        return patience;
    }

    test::TempDir dir_;
    int file_ = -1;
    void* view_ = MAP_FAILED;
};

TEST_F(BroughtInRangeOfAHole, AllOfItIsBroughtInWhereItJustFits) {
    for (const std::optional<std::int64_t> available : {std::optional<std::int64_t>(bytes), {}}) {
        const BroughtInRange range(file_, 0, bytes, nullptr, [available] { return available; });
        BringInPatience patience = for_long();
        range.bring_in(patience);
        EXPECT_FALSE(patience.more_to_bring);
        EXPECT_EQ(in_memory(0), piece);
        EXPECT_EQ(in_memory(18), piece / 2);
    }
}

TEST_F(BroughtInRangeOfAHole, WhereMemoryHasBecomeShortTheRestIsGivenUp) {
    ASSERT_EQ(in_memory(18), 0U);
    std::atomic<int> asked = 0;
    const BroughtInRange range(file_, 0, bytes, nullptr,
                               [&] { return std::optional<std::int64_t>(asked++ == 0 ? bytes : bytes - 1); });
    BringInPatience first = for_long();
    std::vector<BringInPatience> others(3, for_long());
    std::vector<std::thread> threads;
    for (BringInPatience& patience : others) threads.emplace_back([&] { range.bring_in(patience); });
    range.bring_in(first);
    for (std::thread& thread : threads) thread.join();
    others.push_back(first);
    for (const BringInPatience& patience : others) EXPECT_FALSE(patience.more_to_bring);
    EXPECT_EQ(asked, 2) << "not at each piece, and not again";
    EXPECT_EQ(in_memory(15), piece);
    EXPECT_EQ(in_memory(18), 0U);
    BringInPatience later = for_long();
    range.bring_in(later);
    EXPECT_EQ(asked, 2);
    EXPECT_FALSE(later.more_to_bring);
    EXPECT_EQ(in_memory(18), 0U);
}

TEST_F(BroughtInRangeOfAHole, WhetherMemoryHoldsItIsAskedAgainAfterEachGib) {
    constexpr std::uint64_t mib = std::uint64_t{1} << 20;
    std::int64_t available = bytes;
    int asked = 0;
    const BroughtInRange range(file_, 0, bytes, nullptr, [&] {
        ++asked;
        return std::optional(available);
    });
    BringInPatience patience = for_long();
    range.bring_in(patience);
    const int asked_before = asked;
    available = bytes - 1;
    EXPECT_TRUE(range.holds(1023 * mib));
    EXPECT_EQ(asked, asked_before);
    EXPECT_FALSE(range.holds(mib)) << "a GiB was taken";
    EXPECT_EQ(asked, asked_before + 1);
    available = bytes;
    EXPECT_FALSE(range.holds(1023 * mib)) << "as when it was last asked";
    EXPECT_EQ(asked, asked_before + 1);
    EXPECT_TRUE(range.holds(mib));
    EXPECT_TRUE(range.holds(5000 * mib));
    EXPECT_EQ(asked, asked_before + 3);
}

TEST_F(BroughtInRangeOfAHole, MemoryThatHadNoRoomDoesNotHoldIt) {
    const BroughtInRange range(file_, 0, bytes, nullptr,
                               [] { return std::optional<std::int64_t>(bytes - 1); });
    EXPECT_TRUE(range.holds(1));
    BringInPatience patience = for_long();
    range.bring_in(patience);
    EXPECT_FALSE(range.holds(1));
}

TEST_F(BroughtInRangeOfAHole, FilesBeforeItNeedRoomToo) {
    const std::uint64_t half = 9 * piece;
    const auto available = [] { return std::optional<std::int64_t>(2 * half - 1); };
    const BroughtInRange first(file_, 0, half, nullptr, available),
        second(file_, half, half, nullptr, available);
    for (int batch = 0; batch < 2; ++batch) {
        BringInPatience patience = for_long();
        first.bring_in(patience);
        second.bring_in(patience);
        EXPECT_FALSE(patience.more_to_bring);
    }
    EXPECT_EQ(in_memory(8), piece);
    EXPECT_LT(in_memory(17), piece);
}

}  // namespace
}  // namespace tutti
