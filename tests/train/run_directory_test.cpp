#include "tutti/train/run_directory.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <filesystem>

#include "support/error_message.hpp"
#include "support/files.hpp"
#include "support/temp_dir.hpp"
#include "support/unprivileged.hpp"
#include "tutti/base/atomic_file.hpp"
#include "tutti/base/error.hpp"

namespace tutti {
namespace {

namespace fs = std::filesystem;
using test::message_of;
using test::names_in;
using test::read_file;
using test::write_file;
using Names = std::vector<std::string>;
using Steps = std::vector<std::int64_t>;

class RunDirectoryTest : public ::testing::Test {
  protected:
    void add_checkpoints(const Steps& steps) const {
        for (const auto step : steps) write_file(checkpoint(step), "x");
    }
    std::string checkpoint(std::int64_t step) const {
        std::string digits = std::to_string(step);
        if (digits.size() < 8) digits.insert(0, 8 - digits.size(), '0');
        return path_ + "/checkpoints/step-" + digits + ".h5";
    }

    test::TempDir temp_;
    std::string path_ = temp_.path() + "/runs/x";
};

TEST_F(RunDirectoryTest, IsCreatedWithItsParents) {
    const RunDirectory run(path_ + "/", false);
    EXPECT_EQ(run.path(), path_);
    EXPECT_EQ(run.log_path(), path_ + "/log.txt");
    EXPECT_EQ(names_in(path_), (Names{"checkpoints", "lock"}));
    std::array<char, 256> host{};
    gethostname(host.data(), host.size() - 1);
    EXPECT_EQ(read_file(path_ + "/lock"), std::string(host.data()) + " " + std::to_string(getpid()) + "\n");
}

TEST_F(RunDirectoryTest, AnOpenDirectoryIsInUse) {
    const RunDirectory run(path_, false);
    const std::string message = message_of<UsageError>([&] { RunDirectory(path_, false); });
    EXPECT_CONTAINS(message, path_ + " is in use by process " + std::to_string(getpid()) + " on ");
    EXPECT_CONTAINS(message, "; wait for it, or give this run another run.dir");
}

TEST_F(RunDirectoryTest, WhatIsRemovedMovedOrReplacedIsNoLongerItsOwn) {
    const std::string gone = "the run directory " + path_ +
                             " was removed, moved or replaced while this run used it; start it again";
    RunDirectory run(path_, false);
    run.append_metric("{}");
    run.require_own();

    fs::rename(path_, temp_.path() + "/moved");
    EXPECT_CONTAINS(message_of<RunError>([&] { run.require_own(); }), gone);
    const RunDirectory other(path_, false);
    EXPECT_CONTAINS(message_of<RunError>([&] { run.require_own(); }), gone);
    EXPECT_EQ(names_in(path_), (Names{"checkpoints", "lock"}));

    fs::remove_all(temp_.path() + "/moved");
    EXPECT_CONTAINS(message_of<RunError>([&] { run.append_metric("{}"); }), gone);
    EXPECT_EQ(names_in(path_), (Names{"checkpoints", "lock"}));
}

TEST_F(RunDirectoryTest, ALostLockIsTakenAgainUnlessAnotherRunHasIt) {
    RunDirectory run(path_, false);
    const std::string lock = path_ + "/lock";
    fs::remove(lock);
    fs::remove(path_ + "/checkpoints");
    run.require_own();
    EXPECT_EQ(names_in(path_), (Names{"checkpoints", "lock"}));
    message_of<UsageError>([&] { RunDirectory(path_, false); });

    fs::remove(lock);
    const RunDirectory other(path_, false);
    for (int time = 0; time < 2; ++time)
        EXPECT_CONTAINS(message_of<RunError>([&] { run.require_own(); }),
                        path_ + " is in use by process " + std::to_string(getpid()) + " on ");
}

// As rm -r leaves it where the run makes a file meanwhile.
TEST_F(RunDirectoryTest, OneThatWasEmptiedIsNoLongerItsOwn) {
    RunDirectory run(path_, false);
    run.append_metric("{}");
    run.write_config("a: 1\n");
    run.require_own();
    for (const char* name : {"config.yaml", "lock", "metrics.jsonl", "checkpoints"})
        fs::remove(path_ + "/" + name);
    const std::string gone = "files of the run directory " + path_ + ", config.yaml among them, were removed";
    EXPECT_CONTAINS(message_of<RunError>([&] { run.append_metric("{}"); }), gone);
    EXPECT_CONTAINS(message_of<RunError>([&] { run.append_epoch("{}"); }), gone);
    EXPECT_EQ(names_in(path_), Names{});
}

TEST_F(RunDirectoryTest, RowsGoToANewFileWhereTheOldOneWasRemoved) {
    RunDirectory run(path_, false);
    const std::string metrics = path_ + "/metrics.jsonl";
    run.append_metric("{\"step\": 1}");
    fs::remove(metrics);
    run.append_metric("{\"step\": 2}");
    run.append_metric("{\"step\": 3}");
    EXPECT_EQ(read_file(metrics), "{\"step\": 2}\n{\"step\": 3}\n");
}

TEST_F(RunDirectoryTest, RowsThatCannotBeReadAreAnErrorThatNamesTheFile) {
    RunDirectory run(path_, false);
    fs::create_directory(path_ + "/metrics.jsonl");
    EXPECT_CONTAINS(message_of<RunError>([&] { run.cut_metrics({}); }),
                    "cannot read " + path_ + "/metrics.jsonl: Is a directory; check ");
}

TEST_F(RunDirectoryTest, TheLockOfAnotherProcessVanishesWithIt) {
    std::array<int, 2> ready{};
    ASSERT_EQ(pipe(ready.data()), 0);
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        const RunDirectory run(path_, false);
        if (write(ready[1], "x", 1) != 1) _exit(1);
        while (true) pause();
    }
    close(ready[1]);
    char byte = 0;
    ASSERT_EQ(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    write_file(path_ + "/log.txt", "theirs");
    const std::string message = message_of<UsageError>([&] { RunDirectory(path_, true); });
    EXPECT_CONTAINS(message, "is in use by process " + std::to_string(child) + " on ");
    EXPECT_EQ(names_in(path_), (Names{"checkpoints", "lock", "log.txt"}))
        << "a refused run must not move anything";
    kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_NO_THROW(RunDirectory(path_, false));
}

TEST_F(RunDirectoryTest, FreshMovesTheOldContentAside) {
    { const RunDirectory first(path_, true); }
    EXPECT_EQ(names_in(path_), (Names{"checkpoints", "lock"})) << "nothing to move";
    {
        RunDirectory second(path_, true);
        second.write_config("run: 2\n");
        add_checkpoints({5});
    }
    {
        RunDirectory third(path_, true);
        EXPECT_EQ(names_in(path_), (Names{"checkpoints", "lock", "old-1"}));
        EXPECT_EQ(names_in(path_ + "/old-1"), (Names{"checkpoints", "config.yaml"}));
        EXPECT_TRUE(third.checkpoint_steps().empty());
        third.append_metric("{}");
    }
    const RunDirectory fourth(path_, true);
    EXPECT_EQ(names_in(path_), (Names{"checkpoints", "lock", "old-1", "old-2"}));
    EXPECT_EQ(names_in(path_ + "/old-2"), (Names{"metrics.jsonl"}));
    EXPECT_EQ(read_file(path_ + "/old-1/config.yaml"), "run: 2\n");
}

TEST_F(RunDirectoryTest, WhatIsSomebodyElsesIsNeitherMovedNorReplaced) {
    fs::create_directories(path_ + "/scripts");
    write_file(path_ + "/train.h5", "data");
    { RunDirectory(path_, true).append_metric("{}"); }
    write_file(path_ + "/failed-step-00000001.h5", "ours");
    { const RunDirectory second(path_, true); }
    EXPECT_EQ(names_in(path_), (Names{"checkpoints", "lock", "old-1", "scripts", "train.h5"}));
    EXPECT_EQ(names_in(path_ + "/old-1"), (Names{"failed-step-00000001.h5", "metrics.jsonl"}));

    for (const char* name : {"config.yaml", "metrics.jsonl"}) {
        const std::string theirs = temp_.path() + "/theirs-" + name;
        fs::create_directories(theirs);
        write_file(theirs + "/" + name, "by hand");
        for (const bool fresh : {false, true})
            EXPECT_CONTAINS(message_of<UsageError>([&] { RunDirectory(theirs, fresh); }),
                            theirs + " holds " + name + ", but nothing else");
        EXPECT_EQ(names_in(theirs), Names{name}) << "nothing is made";
    }
}

TEST_F(RunDirectoryTest, FreshNeverReusesTheNumberOfALaterRun) {
    fs::create_directories(path_ + "/old-7");
    write_file(path_ + "/log.txt", "x");
    const RunDirectory run(path_, true);
    EXPECT_TRUE(fs::exists(path_ + "/old-8/log.txt"));
}

TEST_F(RunDirectoryTest, WithoutFreshEverythingStays) {
    fs::create_directories(path_);
    write_file(path_ + "/log.txt", "x");
    const RunDirectory run(path_, false);
    EXPECT_EQ(names_in(path_), (Names{"checkpoints", "lock", "log.txt"}));
}

TEST_F(RunDirectoryTest, AFolderThatCannotBeWrittenIsRefusedBeforeAnythingIsMoved) {
    { const RunDirectory run(path_, false); }
    write_file(path_ + "/log.txt", "x");
    const Names before = names_in(path_);
    for (const std::string& path : {temp_.path(), path_ + "/lock"}) fs::permissions(path, fs::perms::all);
    constexpr auto read_only = static_cast<fs::perms>(0555);
    for (const std::string& folder : {path_, path_ + "/checkpoints"}) {
        fs::permissions(path_, fs::perms::all);
        fs::permissions(folder, read_only);
        std::string message;
        {
            const test::Unprivileged reader;
            message = message_of<UsageError>([&] { RunDirectory(path_, true); });
        }
        EXPECT_EQ(message, "cannot write into " + folder +
                               ": Permission denied; give a directory that you can write to with run.dir=…");
        EXPECT_EQ(names_in(path_), before);
    }
    fs::permissions(path_ + "/checkpoints", fs::perms::all);
}

TEST_F(RunDirectoryTest, AFileInItsPlaceIsNamed) {
    fs::create_directories(temp_.path() + "/runs");
    write_file(path_, "x");
    const std::string message = message_of<UsageError>([&] { RunDirectory(path_, false); });
    EXPECT_CONTAINS(message, path_ + " exists and is a file");
    EXPECT_CONTAINS(message, "run.dir=");
    const std::string below = message_of<UsageError>([&] { RunDirectory(path_ + "/y", false); });
    EXPECT_CONTAINS(below, path_ + "/y");
    EXPECT_CONTAINS(below, "run.dir=");
}

TEST_F(RunDirectoryTest, AnUnwritableParentIsNamed) {
    fs::permissions(temp_.path(), static_cast<fs::perms>(0555));
    std::string message;
    {
        const test::Unprivileged reader;
        message = message_of<UsageError>([&] { RunDirectory(path_, false); });
    }
    fs::permissions(temp_.path(), fs::perms::owner_all);
    EXPECT_CONTAINS(message, path_ + ": Permission denied");
    EXPECT_CONTAINS(message, "run.dir=");
}

TEST_F(RunDirectoryTest, CheckpointStepsAreReadFromTheNames) {
    const RunDirectory run(path_, false);
    EXPECT_EQ(run.checkpoint_path(42), checkpoint(42));
    EXPECT_EQ(run.checkpoint_path(1234567890123), path_ + "/checkpoints/step-1234567890123.h5");
    EXPECT_EQ(latest_checkpoint(path_), std::nullopt);
    add_checkpoints({0, 99'999'999, 100'000'000, 42});
    for (const char* name : {"step-00000050.h5.node-123.tmp", "step-50.h5", "step-00000051.hdf5",
                             "step-0000005x.h5", "step--0000001.h5", "step-99999999999999999999.h5", "other"})
        write_file(path_ + "/checkpoints/" + name, "x");
    fs::create_directory(checkpoint(52));
    EXPECT_EQ(run.checkpoint_steps(), (Steps{0, 42, 99'999'999, 100'000'000}));
    EXPECT_EQ(latest_checkpoint(path_), checkpoint(100'000'000)) << "does not need the lock";
}

TEST_F(RunDirectoryTest, NoRunDirectoryHasNoCheckpoint) {
    EXPECT_EQ(latest_checkpoint(path_), std::nullopt);
}

TEST_F(RunDirectoryTest, PruningKeepsTheNewestAndTheProtected) {
    RunDirectory run(path_, false);
    const Steps all = {1, 2, 3, 4, 5};
    add_checkpoints(all);
    run.prune_checkpoints(0, std::nullopt);
    EXPECT_EQ(run.checkpoint_steps(), all);
    run.prune_checkpoints(9, std::nullopt);
    EXPECT_EQ(run.checkpoint_steps(), all);
    run.prune_checkpoints(2, 2);
    EXPECT_EQ(run.checkpoint_steps(), (Steps{2, 4, 5}));
    run.prune_checkpoints(1, 5);
    EXPECT_EQ(run.checkpoint_steps(), (Steps{5}));
}

TEST_F(RunDirectoryTest, StaleTemporariesAreRemoved) {
    RunDirectory run(path_, false);
    const std::string stale = checkpoint(7) + ".node3-1.tmp", old = checkpoint(6) + ".1.tmp";
    const std::string own = file::temporary_name(checkpoint(8));
    const std::string foreign = path_ + "/checkpoints/notes.tmp";
    for (const std::string& name : {stale, old, own, foreign}) write_file(name, "x");
    run.prune_checkpoints(0, std::nullopt);
    EXPECT_FALSE(fs::exists(stale));
    EXPECT_FALSE(fs::exists(old)) << "an earlier version's";
    EXPECT_TRUE(fs::exists(own)) << "this process may still be writing it";
    EXPECT_TRUE(fs::exists(foreign));
}

TEST_F(RunDirectoryTest, OpeningRemovesTemporariesOfADeadRun) {
    { const RunDirectory run(path_, false); }
    write_file(file::temporary_name(checkpoint(7)), "x");
    for (const char* name : {"config.yaml", "provenance.json", "metrics.jsonl", "trace.json",
                             "failed-step-00000003.h5", "predictions.h5"})
        write_file(path_ + "/" + name + ".node-3-99.tmp", "x");
    const RunDirectory run(path_, false);
    EXPECT_EQ(names_in(path_), (Names{"checkpoints", "lock", "predictions.h5.node-3-99.tmp"}))
        << "another program's may be in the making";
    EXPECT_TRUE(names_in(path_ + "/checkpoints").empty());
}

TEST_F(RunDirectoryTest, ConfigAndProvenanceAreReplaced) {
    RunDirectory run(path_, false);
    run.write_config("a: 1\n");
    run.write_config("a: 2\n");
    run.write_provenance("{}\n");
    EXPECT_EQ(read_file(path_ + "/config.yaml"), "a: 2\n");
    EXPECT_EQ(read_file(path_ + "/provenance.json"), "{}\n");
    EXPECT_EQ(names_in(path_), (Names{"checkpoints", "config.yaml", "lock", "provenance.json"}));
}

TEST_F(RunDirectoryTest, MetricsAreAppendedAtOnce) {
    RunDirectory run(path_, false);
    EXPECT_FALSE(fs::exists(path_ + "/metrics.jsonl"));
    run.append_metric(R"({"step": 1})");
    EXPECT_EQ(read_file(path_ + "/metrics.jsonl"), "{\"step\": 1}\n");
    run.append_metric(R"({"step": 2})");
    EXPECT_EQ(read_file(path_ + "/metrics.jsonl"), "{\"step\": 1}\n{\"step\": 2}\n");
}

TEST_F(RunDirectoryTest, RowsAfterACutFollowTheKeptOnes) {
    RunDirectory run(path_, false);
    for (const char* row : {R"({"step": 1})", R"({"step": 2})", R"({"step": 3})"}) run.append_metric(row);
    run.cut_metrics({1, 0, true});
    run.append_metric(R"({"step": 2, "again": true})");
    EXPECT_EQ(read_file(path_ + "/metrics.jsonl"), "{\"step\": 1}\n{\"step\": 2, \"again\": true}\n");
    EXPECT_EQ(names_in(path_), (Names{"checkpoints", "epochs.jsonl", "lock", "metrics.jsonl"}));
}

TEST_F(RunDirectoryTest, CuttingKeepsWhatBelongsToTheCheckpoint) {
    struct Case {
        const char* what;
        std::string before;
        std::string after;
    };
    const std::string one = "{\"step\": 1}\n";
    const std::string ten = "{\"type\": \"eval\",  \"step\":10}\n";
    const std::string more = "{\"step\": 11}\n";
    for (const Case& c : {
             Case{"empty", "", ""},
             Case{"nothing later", one + ten, one + ten},
             Case{"later rows", one + more + ten + more, one + ten},
             Case{"all later", more + more, ""},
             Case{"cut off in a row", one + "{\"step\": 1", one},
             Case{"cut off before the newline", one + "{\"step\": 2}", one},
             Case{"last line without sense", one + "{\"st\n", one},
             Case{"only a piece", "{\"st", ""},
             Case{"nonsense in between stays", "hello\n" + more + one, "hello\n" + one},
             Case{"no step, no object, no number", "{\"a\": 11}\n[11]\n{\"step\": \"11\"}\n11\n" + more,
                  "{\"a\": 11}\n[11]\n{\"step\": \"11\"}\n11\n"},
             Case{"a fraction", "{\"step\": 10.5}\n{\"step\": 10.0}\n", "{\"step\": 10.0}\n"},
             Case{"huge and negative", "{\"step\": 18446744073709551615}\n{\"step\": -1}\n",
                  "{\"step\": -1}\n"},
         }) {
        RunDirectory run(path_, false);
        write_file(path_ + "/metrics.jsonl", c.before);
        run.cut_metrics({10, 2, true});
        EXPECT_EQ(read_file(path_ + "/metrics.jsonl"), c.after) << c.what;
    }
}

TEST_F(RunDirectoryTest, CuttingRemovesAnEvaluationThatIsToBeMadeAgain) {
    RunDirectory run(path_, false);
    const std::string evaluation = R"({"type": "eval", "step": 10})";
    const std::string before = R"({"type": "eval", "step": 9})";
    for (const std::string& row : {before, std::string(R"({"type": "step", "step": 10})"), evaluation,
                                   std::string(R"({"type": 1, "step": 10})"), std::string("[10]")})
        run.append_metric(row);
    const std::string all = read_file(path_ + "/metrics.jsonl");
    run.cut_metrics({10, 2, true});
    EXPECT_EQ(read_file(path_ + "/metrics.jsonl"), all);
    run.cut_metrics({10, 2, false});
    EXPECT_EQ(read_file(path_ + "/metrics.jsonl"), before + "\n" + R"({"type": "step", "step": 10})" + "\n" +
                                                       R"({"type": 1, "step": 10})" + "\n[10]\n");
}

TEST_F(RunDirectoryTest, CuttingRemovesAnEpochThatEndsAgain) {
    RunDirectory run(path_, false);
    const std::string first = R"({"epoch": 1, "step": 5})", second = R"({"epoch": 2, "step": 10})";
    for (const std::int64_t epochs : {2, 1}) {
        write_file(path_ + "/epochs.jsonl", "");
        run.append_epoch(first);
        run.append_epoch(second);
        run.cut_metrics({10, epochs, true});
        EXPECT_EQ(read_file(path_ + "/epochs.jsonl"), first + "\n" + (epochs == 2 ? second + "\n" : ""));
    }
    run.cut_metrics({4, 0, true});
    EXPECT_EQ(read_file(path_ + "/epochs.jsonl"), "");
}

TEST_F(RunDirectoryTest, LaterCheckpointsAreSetAsideAndTheOneToGoOnFromStays) {
    RunDirectory run(path_, false);
    add_checkpoints({3, 7, 9});
    run.set_aside_checkpoints_after(9);
    EXPECT_EQ(names_in(path_), (Names{"checkpoints", "lock"}));
    run.set_aside_checkpoints_after(7);
    EXPECT_EQ(run.checkpoint_steps(), (Steps{3, 7}));
    EXPECT_EQ(names_in(path_ + "/old-1/checkpoints"), Names{"step-00000009.h5"});
}

TEST_F(RunDirectoryTest, AnotherCourseIsSetAsideAsAWhole) {
    RunDirectory run(path_, false);
    run.set_aside_course();
    EXPECT_EQ(names_in(path_), (Names{"checkpoints", "lock"})) << "there is none";
    add_checkpoints({3, 7});
    run.append_metric(R"({"step": 1})");
    run.append_epoch(R"({"epoch": 1})");
    run.set_aside_course();
    EXPECT_EQ(run.checkpoint_steps(), Steps());
    EXPECT_EQ(names_in(path_ + "/old-1"), (Names{"checkpoints", "epochs.jsonl", "metrics.jsonl"}));
    EXPECT_EQ(read_file(path_ + "/old-1/metrics.jsonl"), "{\"step\": 1}\n");
    run.append_metric(R"({"step": 2})");
    EXPECT_EQ(read_file(path_ + "/metrics.jsonl"), "{\"step\": 2}\n");
    run.set_aside_course();
    EXPECT_EQ(names_in(path_ + "/old-2"), Names{"metrics.jsonl"});
}

TEST_F(RunDirectoryTest, CuttingWhereNothingIsMakesAnEmptyFile) {
    RunDirectory run(path_, false);
    run.cut_metrics({10, 2, true});
    EXPECT_EQ(read_file(path_ + "/metrics.jsonl"), "");
}

}  // namespace
}  // namespace tutti
