#include "input/bus_error_guard.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <thread>
#include <vector>

namespace tutti {
namespace {

/// Two pages, the second behind the end of the file.
class HalfAFile {
  public:
    HalfAFile() : file_(std::tmpfile()), page_(static_cast<std::size_t>(sysconf(_SC_PAGESIZE))) {
        std::vector<char> bytes(page_, 'a');
        std::fwrite(bytes.data(), 1, bytes.size(), file_);
        std::fflush(file_);
        memory_ = mmap(nullptr, 2 * page_, PROT_READ, MAP_SHARED, fileno(file_), 0);
    }
    ~HalfAFile() {
        munmap(memory_, 2 * page_);
        std::fclose(file_);
    }
    HalfAFile(const HalfAFile&) = delete;
    HalfAFile& operator=(const HalfAFile&) = delete;

    const volatile char* there() const { return static_cast<const char*>(memory_); }
    const volatile char* beyond() const { return there() + page_; }

  private:
    std::FILE* file_;
    std::size_t page_;
    void* memory_;
};

struct Look {
    const volatile char* at;
    char seen = 0;
    void operator()() { seen = *at; }
};

TEST(BusErrorGuard, WorkThatGoesWellIsDone) {
    const HalfAFile file;
    Look look{file.there()};
    EXPECT_TRUE(without_bus_error(look));
    EXPECT_EQ(look.seen, 'a');
}

TEST(BusErrorGuard, AMissingPageEndsTheWorkAgainAndAgain) {
    const HalfAFile file;
    for (int i = 0; i < 3; ++i) {
        Look look{file.beyond()};
        EXPECT_FALSE(without_bus_error(look));
    }
    Look look{file.there()};
    EXPECT_TRUE(without_bus_error(look));
}

TEST(BusErrorGuard, ThreadsDoNotDisturbEachOther) {
    const HalfAFile file;
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
        threads.emplace_back([&file, t] {
            for (int i = 0; i < 1000; ++i) {
                Look look{t % 2 == 0 ? file.there() : file.beyond()};
                EXPECT_EQ(without_bus_error(look), t % 2 == 0);
            }
        });
    for (std::thread& thread : threads) thread.join();
}

TEST(BusErrorGuardDeathTest, OutsideOfItTheProcessEndsAsBefore) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    const HalfAFile file;
    Look look{file.there()};
    EXPECT_EXIT(
        {
            signal(SIGBUS, SIG_DFL);
            without_bus_error(look);
            look.at = file.beyond();
            look();
        },
        testing::KilledBySignal(SIGBUS), "");
}

}  // namespace
}  // namespace tutti
