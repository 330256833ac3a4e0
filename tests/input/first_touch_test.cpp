#include "input/first_touch.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <span>
#include <thread>
#include <vector>

#include "support/temp_dir.hpp"

namespace tutti {
namespace {

/// Pages that are not in memory until somebody reads them: of a mapped file that is a hole.
class PagesOfAHole : public testing::Test {
  protected:
    static constexpr std::size_t pages = 64;

    void SetUp() override {
        file_ = open((dir_.path() + "/file").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        ASSERT_GE(file_, 0);
        ASSERT_EQ(ftruncate(file_, static_cast<off_t>(pages * page_)), 0);
        mapped_ = mmap(nullptr, pages * page_, PROT_READ, MAP_SHARED, file_, 0);
        ASSERT_NE(mapped_, MAP_FAILED);
        ASSERT_EQ(madvise(mapped_, pages * page_, MADV_RANDOM), 0) << "no page beside the one that is read";
    }
    void TearDown() override {
        munmap(mapped_, pages * page_);
        close(file_);
    }

    std::span<const std::byte> part(std::size_t first, std::size_t count) const {
        return {static_cast<const std::byte*>(mapped_) + first * page_, count * page_};
    }
    bool in_memory(std::size_t number) const {
        unsigned char flags = 0;
        EXPECT_EQ(mincore(static_cast<std::byte*>(mapped_) + number * page_, page_, &flags), 0);
        return (flags & 1U) != 0;
    }
    /// Whether page `number` is in memory before long.
    bool comes(std::size_t number) const {
        const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
        while (!in_memory(number) && std::chrono::steady_clock::now() < end) std::this_thread::yield();
        return in_memory(number);
    }

    const std::size_t page_ = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    test::TempDir dir_;
    int file_ = -1;
    void* mapped_ = MAP_FAILED;
};

TEST_F(PagesOfAHole, EachPageThatIsAddedIsReadAndNoOther) {
    FirstTouch touch;
    touch.add(part(0, 8));
    touch.add(part(16, 8).first(7 * page_ + 1));
    EXPECT_TRUE(comes(23)) << "the last one, of which a byte was added";
    for (std::size_t i = 0; i < pages; ++i) EXPECT_EQ(in_memory(i), i < 8 || (i >= 16 && i < 24)) << i;
}

TEST_F(PagesOfAHole, WhatWasAddedBeforeTheCloseIsReadNothingBehindIt) {
    FirstTouch touch;
    touch.add(part(0, 1));
    touch.close();
    touch.add(part(1, 1));
    EXPECT_TRUE(comes(0));
    EXPECT_FALSE(in_memory(1));
}

TEST_F(PagesOfAHole, NothingIsReadThatIsAddedBehindADrop) {
    {
        FirstTouch touch;
        touch.add(part(0, 1));
        EXPECT_TRUE(comes(0));
        touch.drop();
        touch.add(part(1, 1));
        touch.close();
    }
    EXPECT_FALSE(in_memory(1));
}

TEST_F(PagesOfAHole, AFileThatWasCutIsNoTrouble) {
    ASSERT_EQ(ftruncate(file_, static_cast<off_t>(2 * page_)), 0);
    FirstTouch touch;
    touch.add(part(0, 4));
    touch.add(part(1, 1));
    EXPECT_TRUE(comes(1));
}

TEST(FirstTouchTest, WithoutAnythingToDoThereIsNothingToWaitFor) {
    FirstTouch untouched, closed;
    closed.close();
    closed.close();
}

}  // namespace
}  // namespace tutti
