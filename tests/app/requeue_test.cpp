#include "requeue.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace tutti::test {
namespace {

namespace fs = std::filesystem;

class Requeue : public testing::Test {
  protected:
    Requeue() { fs::create_directories(path_ / "checkpoints"); }
    ~Requeue() override { fs::remove_all(path_); }
    void write(const std::string& name, const std::string& text) const {
        std::ofstream(path_ / name) << text;
    }
    bool has_saved(const std::string& job, const std::string& restarts) const {
        return has_saved_before_requeue({{"SLURM_JOB_ID", job}, {"SLURM_RESTART_COUNT", restarts}},
                                        path_.string());
    }

    const fs::path path_ = fs::path(testing::TempDir()) / ("requeue_test." + std::to_string(::getpid()));
};

TEST_F(Requeue, IsOfTheJobWhoseCheckpointIsThere) {
    write("provenance.json", R"({"slurm_job": "77"})");
    EXPECT_FALSE(has_saved("77", "1")) << "it had saved nothing";
    write("checkpoints/step-00000004.h5", "x");
    EXPECT_TRUE(has_saved("77", "1"));
    EXPECT_FALSE(has_saved("77", "0"));
    EXPECT_FALSE(has_saved("77", ""));
    EXPECT_FALSE(has_saved("7", "1"));
    EXPECT_FALSE(has_saved_before_requeue({}, path_.string()));
}

TEST_F(Requeue, IsNotSeenInWhatSomethingElseWrote) {
    write("checkpoints/step-00000004.h5", "x");
    EXPECT_FALSE(has_saved("77", "1")) << "no file";
    for (const char* text : {"", "{", "[]", "{}", R"({"slurm_job": 77})"}) {
        write("provenance.json", text);
        EXPECT_FALSE(has_saved("77", "1")) << text;
    }
    EXPECT_FALSE(has_saved_before_requeue({{"SLURM_JOB_ID", "77"}, {"SLURM_RESTART_COUNT", "2"}},
                                          (path_ / "none").string()));
}

}  // namespace
}  // namespace tutti::test
