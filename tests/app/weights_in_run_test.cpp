#include "weights_in_run.hpp"

#include <gtest/gtest.h>

#include <filesystem>

#include "support/error_message.hpp"
#include "support/files.hpp"
#include "support/temp_dir.hpp"
#include "tutti/base/error.hpp"
#include "tutti/train/run_directory.hpp"

namespace tutti {
namespace {

namespace fs = std::filesystem;
using test::message_of;
using Files = std::vector<std::string>;

/// A run directory whose training saves a step, and keeps one checkpoint, whenever somebody looks.
class WeightsOfARunningTraining : public ::testing::Test {
  protected:
    WeightsOfARunningTraining() { fs::create_directories(run_ + "/checkpoints"), save(); }
    void save() {
        test::write_file(path_of_checkpoint(run_, step_ + 1), "x");
        fs::remove(path_of_checkpoint(run_, step_));
        ++step_;
    }
    /// Reads a file that is removed before it is read, so many times.
    void read(const std::string& path, int removed) {
        with_weights_in(path, false, [&](const std::string& file) {
            used_.push_back(file);
            if (static_cast<int>(used_.size()) <= removed) save();
            if (!fs::exists(file)) throw DataError(file + " does not exist", "check the path");
        });
    }

    test::TempDir temp_;
    std::string run_ = temp_.path() + "/run";
    std::int64_t step_ = 0;
    Files used_;
};

TEST_F(WeightsOfARunningTraining, AreLookedForAgain) {
    read(run_, 2);
    EXPECT_EQ(used_,
              (Files{path_of_checkpoint(run_, 1), path_of_checkpoint(run_, 2), path_of_checkpoint(run_, 3)}));
}

TEST_F(WeightsOfARunningTraining, AreGivenUpAfterSomeTries) {
    const std::string message = message_of<Error>([&] { read(run_, 1000); });
    EXPECT_CONTAINS(message, run_ + ": its run is going on, and has removed each of 5 checkpoints before ");
    EXPECT_EQ(used_.size(), 5U);
}

TEST_F(WeightsOfARunningTraining, OfOneFileAreThatFile) {
    const std::string file = path_of_checkpoint(run_, 1);
    EXPECT_CONTAINS(message_of<DataError>([&] { read(file, 1); }), file + " does not exist");
    EXPECT_EQ(used_, Files{file});
}

TEST_F(WeightsOfARunningTraining, ThatAreThereAndOfNoUseAreNotLookedForAgain) {
    int times = 0;
    const auto use = [&](const std::string&) { ++times, throw DataError("damaged"); };
    EXPECT_CONTAINS(message_of<DataError>([&] { with_weights_in(run_, false, use); }), "damaged");
    EXPECT_EQ(times, 1);
}

}  // namespace
}  // namespace tutti
