#include "progress_report.hpp"

#include <gtest/gtest.h>

#include <optional>

namespace tutti {
namespace {

class ProgressReportTest : public testing::Test {
  protected:
    /// Standard error is no terminal, wherever the test runs.
    void SetUp() override {
        testing::internal::CaptureStderr();
        log_.emplace(0, 1, "here", LogLevel::info);
        testing::internal::GetCapturedStderr();
        report_.emplace(*log_).start(6400, at(0));
    }

    static ProgressReport::Clock::time_point at(double seconds) {
        return ProgressReport::Clock::time_point() +
               std::chrono::duration_cast<ProgressReport::Clock::duration>(
                   std::chrono::duration<double>(seconds));
    }
    /// What the update shows.
    std::string shown(std::int64_t step, std::int64_t samples, double seconds) {
        testing::internal::CaptureStderr();
        report_->update(step, 120, 2, 5, samples, 0.25, at(seconds));
        return testing::internal::GetCapturedStderr();
    }

  private:
    std::optional<Log> log_;
    std::optional<ProgressReport> report_;
};

TEST_F(ProgressReportTest, tells_the_time_left_by_the_updates_since_the_start_and_not_of_the_whole_run) {
    for (std::int64_t step = 101; step < 110; ++step)
        EXPECT_EQ(shown(step, 64 * step, static_cast<double>(step - 100)), "");
    EXPECT_EQ(shown(110, 64 * 110, 10), "epoch 3/5  step 110/120  64 samples/s  loss 0.2500  0:10 left\n");
}

TEST_F(ProgressReportTest, tells_the_rate_since_the_line_before) {
    EXPECT_NE(shown(101, 8000, 10), "");
    EXPECT_EQ(shown(102, 8100, 15), "");
    // Four updates in 25 s: sixteen more take 100.
    EXPECT_EQ(shown(104, 8300, 25), "epoch 3/5  step 104/120  20 samples/s  loss 0.2500  1:40 left\n");
}

}  // namespace
}  // namespace tutti
