#include "tutti/base/open_files.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <vector>

namespace tutti {
namespace {

/// The soft limit of open files, as it was before in the end.
class OpenFiles : public testing::Test {
  protected:
    void SetUp() override {
        ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before_), 0);
        if (before_.rlim_max < 1000)
            GTEST_SKIP() << "no more than " << before_.rlim_max << " files may be open";
    }
    void TearDown() override { setrlimit(RLIMIT_NOFILE, &before_); }

    void limit(rlim_t count) const {
        const rlimit now{count, before_.rlim_max};
        ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &now), 0);
    }
    static rlim_t limit() {
        rlimit now{};
        getrlimit(RLIMIT_NOFILE, &now);
        return now.rlim_cur;
    }

    rlimit before_{};
};

TEST_F(OpenFiles, are_allowed_beside_those_that_are_open) {
    std::vector<int> open_before, more;
    for (int i = 0; i < 100; ++i) open_before.push_back(open("/dev/null", O_RDONLY));
    limit(200);
    allow_open_files(500);
    for (int i = 0; i < 500; ++i) more.push_back(open("/dev/null", O_RDONLY));
    EXPECT_GE(more.back(), 0);
    for (const auto& files : {open_before, more})
        for (const int file : files) close(file);
}

TEST_F(OpenFiles, keep_a_limit_that_is_high_enough) {
    limit(900);
    allow_open_files(10);
    EXPECT_EQ(limit(), 900u);
}

TEST_F(OpenFiles, are_no_more_than_the_system_allows) {
    limit(100);
    allow_open_files(static_cast<std::size_t>(before_.rlim_max));
    EXPECT_EQ(limit(), before_.rlim_max);
}

TEST_F(OpenFiles, that_are_too_many_have_a_remedy_with_the_limit) {
    limit(300);
    EXPECT_TRUE(too_many_open_files_remedy().starts_with(
        "raise the limit of open files, which is 300: ulimit -n 1200"));
}

}  // namespace
}  // namespace tutti
