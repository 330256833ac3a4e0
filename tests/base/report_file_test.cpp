#include "tutti/base/report_file.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "support/error_message.hpp"
#include "support/files.hpp"
#include "support/temp_dir.hpp"
#include "tutti/base/atomic_file.hpp"
#include "tutti/base/error.hpp"

namespace tutti::test {
namespace {

namespace fs = std::filesystem;

class ReportFile : public testing::Test {
  protected:
    const TempDir temp_;
    const std::string path_ = temp_.path() + "/report.json";
};

TEST_F(ReportFile, HasItsDirectoryMadeAndIsNotThereBeforeItIsWritten) {
    const std::string directory = temp_.path() + "/a/b";
    EXPECT_EQ(prepare_report(directory, "step.json"), directory + "/step.json");
    EXPECT_TRUE(names_in(directory).empty());
    write_report(directory + "/step.json", "{}");
    EXPECT_EQ(read_report(directory + "/step.json", "look there"), "{}");
}

TEST_F(ReportFile, ThatCannotBeWrittenIsRefusedBeforeTheWork) {
    fs::create_directory(path_);
    EXPECT_CONTAINS(message_of<UsageError>([&] { prepare_report(temp_.path(), "report.json"); }),
                    path_ + " is a directory");
    write_file(temp_.path() + "/file", "");
    const std::string message =
        message_of<UsageError>([&] { prepare_report(temp_.path() + "/file/a", "report.json", "--json"); });
    EXPECT_CONTAINS(message, "cannot write into " + temp_.path() + "/file/a: Not a directory");
    EXPECT_CONTAINS(message, "--json");
}

TEST_F(ReportFile, OfAnOutputIsTriedInWhatThereIsOfItsFolder) {
    prepare_output(temp_.path() + "/a/b/out.csv");
    EXPECT_TRUE(names_in(temp_.path()).empty()) << "who writes it makes the folder";
    fs::create_directory(path_);
    EXPECT_CONTAINS(message_of<UsageError>([&] { prepare_output(path_, "--save"); }),
                    "--save " + path_ + " is a directory");
    EXPECT_CONTAINS(message_of<UsageError>([] { prepare_output("/dev/null"); }),
                    "-o /dev/null is something else than a file");
}

TEST_F(ReportFile, OfALinkIsWhatItLeadsTo) {
    const std::string folder = temp_.path() + "/far", file = folder + "/out.h5",
                      link = temp_.path() + "/out.h5", second = temp_.path() + "/second.h5",
                      loop = temp_.path() + "/loop.h5";
    EXPECT_EQ(prepare_output(file), file);
    fs::create_symlink("far/out.h5", link);
    fs::create_symlink(link, second);
    for (const bool is_there : {false, true}) {
        if (is_there) write_report(file, "old");
        EXPECT_EQ(prepare_output(link), file);
        EXPECT_EQ(prepare_output(second), file);
    }
    write_report(prepare_output(second), "new");
    EXPECT_TRUE(fs::is_symlink(second) && fs::is_symlink(link));
    EXPECT_EQ(read_report(link, ""), "new");
    fs::create_symlink(loop, loop);
    EXPECT_CONTAINS(message_of<UsageError>([&] { prepare_output(loop); }),
                    "Too many levels of symbolic links");
}

TEST_F(ReportFile, OfAFolderCanBeLookedAtAndNothingIsMade) {
    check_report_place(temp_.path() + "/a/b", "curve.csv", "--curves");
    EXPECT_TRUE(names_in(temp_.path()).empty());
    write_file(temp_.path() + "/file", "");
    for (const std::string place : {"/file", "/file/a"})
        EXPECT_CONTAINS(message_of<UsageError>(
                            [&] { check_report_place(temp_.path() + place, "curve.csv", "--curves"); }),
                        "cannot write into " + temp_.path() + place +
                            ": Not a directory; give --curves a directory that can be written");
    fs::create_directory(temp_.path() + "/curve.csv");
    EXPECT_CONTAINS(
        message_of<UsageError>([&] { check_report_place(temp_.path(), "curve.csv", "--curves"); }),
        "curve.csv is a directory; give another --curves");
}

TEST_F(ReportFile, KeepsWhatItHeldWhereWritingFails) {
    EXPECT_CONTAINS(message_of<RunError>([&] { write_report("/proc/none/a", ""); }),
                    "cannot write /proc/none/a: No such file or directory");
    write_report(temp_.path() + "/new/one/a", "b");
    EXPECT_EQ(read_report(temp_.path() + "/new/one/a", ""), "b");
    const std::string message = message_of<DataError>([&] { read_report(path_, "make it with b"); });
    EXPECT_CONTAINS(message, path_ + ": cannot be read: No such file or directory");
    EXPECT_CONTAINS(message, "make it with b");
}

TEST_F(ReportFile, WhatKilledProcessesLeftIsRemoved) {
    const std::string mine = file::temporary_name(path_), before_number = mine.substr(0, mine.rfind('-') + 1);
    const pid_t child = fork();
    if (child == 0) _exit(0);
    ASSERT_EQ(waitpid(child, nullptr, 0), child);
    const std::string dead = before_number + std::to_string(child) + ".tmp", alive = before_number + "1.tmp",
                      elsewhere = path_ + ".otherhost-" + std::to_string(child) + ".tmp",
                      of_another = path_ + "b" + dead.substr(path_.size());
    for (const std::string& name : {dead, alive, elsewhere, of_another}) write_report(name, "half");
    prepare_output(path_);
    EXPECT_FALSE(std::filesystem::exists(dead));
    for (const std::string& name : {alive, elsewhere, of_another})
        EXPECT_TRUE(std::filesystem::exists(name)) << name;
}

}  // namespace
}  // namespace tutti::test
