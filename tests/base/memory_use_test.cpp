#include "tutti/base/memory_use.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <vector>

namespace tutti {
namespace {

TEST(MemoryUse, ThePeakKeepsWhatWasFreed) {
    constexpr std::size_t bytes = std::size_t{64} << 20;
    const std::int64_t before = resident_bytes();
    {
        std::vector<char> much(bytes);
        std::ranges::fill(much, 'x');
        EXPECT_GE(resident_bytes(), before + static_cast<std::int64_t>(bytes) / 2) << much.back();
    }
    EXPECT_GE(peak_resident_bytes(), before + static_cast<std::int64_t>(bytes) / 2);
}

TEST(MemoryUse, NewMemoryFaultsOnceAndThenNoMore) {
    // By itself, so that no other block's pages are taken; even in pages of 2 MiB these are some.
    constexpr std::size_t bytes = std::size_t{64} << 20;
    void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    const auto touch_all = [memory] {
        const std::int64_t before = page_faults();
        std::memset(memory, 1, bytes);
        return page_faults() - before;
    };
    EXPECT_GE(touch_all(), 16);
    EXPECT_LT(touch_all(), 16);
    munmap(memory, bytes);
}

TEST(MemoryUse, WhatIsAvailableIsPartOfTheHostsMemory) {
    const std::int64_t all = sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
    ASSERT_TRUE(available_bytes());
    EXPECT_GE(*available_bytes(), 0);
    EXPECT_LE(*available_bytes(), all);
}

}  // namespace
}  // namespace tutti
