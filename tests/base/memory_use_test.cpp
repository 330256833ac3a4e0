#include "tutti/base/memory_use.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
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

TEST(MemoryUse, WhatIsAvailableIsPartOfTheHostsMemory) {
    const std::int64_t all = sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
    ASSERT_TRUE(available_bytes());
    EXPECT_GE(*available_bytes(), 0);
    EXPECT_LE(*available_bytes(), all);
}

}  // namespace
}  // namespace tutti
