// What an interrupted start leaves in a run directory.

#include <gtest/gtest.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <array>
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
using test::read_file;
using test::write_file;
using Names = std::vector<std::string>;

class RunDirectoryMoves : public ::testing::Test {
  protected:
    test::TempDir temp_;
    std::string path_ = temp_.path() + "/run";
};

/// What leaves a folder, in this order.
class Departures {
  public:
    explicit Departures(const std::string& folder) {
        inotify_add_watch(descriptor_, folder.c_str(), IN_MOVED_FROM);
    }
    ~Departures() { close(descriptor_); }
    Departures(const Departures&) = delete;
    Departures& operator=(const Departures&) = delete;

    Names names() const {
        alignas(inotify_event) std::array<char, 4096> events{};
        const ssize_t bytes = read(descriptor_, events.data(), events.size());
        Names found;
        for (ssize_t at = 0; at < bytes;) {
            const auto* const event = reinterpret_cast<const inotify_event*>(events.data() + at);
            found.emplace_back(event->name);
            at += static_cast<ssize_t>(sizeof(inotify_event)) + event->len;
        }
        return found;
    }

  private:
    const int descriptor_ = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
};

// A move that is interrupted leaves what the run can go on from, or rows without a config.
TEST_F(RunDirectoryMoves, FreshMovesTheCheckpointsBeforeTheRows) {
    {
        RunDirectory first(path_, false);
        first.write_config("run: 1\n");
        first.write_provenance("{}");
        first.note_origin("/a.h5");
        first.append_metric("{}");
        first.append_epoch("{}");
        write_file(first.checkpoint_path(5), "x");
    }
    write_file(path_ + "/failed-step-00000003.h5", "x");
    const Departures departures(path_);
    const RunDirectory second(path_, true);
    EXPECT_EQ(departures.names(), (Names{"resume-from", "config.yaml", "checkpoints", "metrics.jsonl",
                                         "epochs.jsonl", "provenance.json", "failed-step-00000003.h5"}));
}

TEST_F(RunDirectoryMoves, RowsWithoutAConfigAreSetAside) {
    for (const bool has_config : {true, false}) {
        RunDirectory run(path_, true);
        if (has_config) run.write_config("run: 1\n");
        run.append_metric(R"({"step": 1})");
        run.begin_rows();
        EXPECT_EQ(read_file(path_ + "/metrics.jsonl"), "");
        EXPECT_EQ(fs::exists(path_ + "/old-1/metrics.jsonl"), !has_config);
        fs::remove_all(path_);
    }
}

TEST_F(RunDirectoryMoves, WhatARunBeginsWithIsNotedUntilItHasBegun) {
    EXPECT_EQ(noted_origin(path_), "");
    RunDirectory run(path_, false);
    run.note_origin("/some where/a.h5");
    EXPECT_EQ(noted_origin(path_), "/some where/a.h5");
    run.note_origin("/b.h5");
    EXPECT_EQ(noted_origin(path_), "/b.h5");
    for (int time = 0; time < 2; ++time) run.forget_origin();
    EXPECT_EQ(noted_origin(path_), "");
    fs::create_directory(path_ + "/resume-from");
    EXPECT_CONTAINS(message_of<RunError>([&] { noted_origin(path_); }),
                    "cannot read " + path_ + "/resume-from: Is a directory; check ");
}

}  // namespace
}  // namespace tutti
