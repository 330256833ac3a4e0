#include "tutti/base/atomic_file.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "support/files.hpp"
#include "support/temp_dir.hpp"
#include "tutti/base/host_name.hpp"

namespace tutti::test {
namespace {

namespace fs = std::filesystem;

TEST(AtomicFile, IsAtItsPlaceWhenItIsWhole) {
    const TempDir directory;
    const std::string path = directory.path() + "/report.json";
    {
        file::Temporary temporary(path);
        file::write_all(temporary.descriptor(), "whole");
        EXPECT_FALSE(fs::exists(path));
        EXPECT_EQ(file::content(temporary.name()), "whole");
        temporary.commit();
    }
    EXPECT_EQ(file::content(path), "whole");
    EXPECT_EQ(names_in(directory.path()), std::vector<std::string>{"report.json"});
}

TEST(AtomicFile, LeavesNothingWhenItIsGivenUp) {
    const TempDir directory;
    const std::string path = directory.path() + "/report.json";
    file::replace(path, "before");
    {
        const file::Temporary temporary(path);
        file::write_all(temporary.descriptor(), "half");
    }
    EXPECT_EQ(file::content(path), "before");
    EXPECT_EQ(names_in(directory.path()), std::vector<std::string>{"report.json"});
}

TEST(AtomicFile, NamesTheSystemsReason) {
    try {
        file::replace("/nowhere/report.json", "");
        ADD_FAILURE();
    } catch (const std::system_error& error) {
        EXPECT_EQ(file::cause(error), "No such file or directory");
    }
    EXPECT_THROW(file::content("/nowhere/report.json"), std::system_error);
}

// On a common file system two hosts may have processes of one number.
TEST(AtomicFile, TemporariesAreOfOneHostAndProcess) {
    const std::string name = file::temporary_name("runs/a.b/step-1.h5");
    const std::string host = host_name().substr(0, host_name().find('.'));
    EXPECT_EQ(name, "runs/a.b/step-1.h5." + host + "-" + std::to_string(getpid()) + ".tmp");
    EXPECT_EQ(file::target_of_temporary(name), "runs/a.b/step-1.h5");
}

TEST(AtomicFile, TemporariesAreTold) {
    const auto target = file::target_of_temporary;
    EXPECT_EQ(target("config.yaml.node-7-3-123.tmp"), "config.yaml");
    EXPECT_EQ(target("config.yaml.123.tmp"), "config.yaml") << "an earlier version's";
    EXPECT_EQ(target("notes.node7.123.tmp"), "notes.node7");
    for (const char* other :
         {"config.yaml", "notes.tmp", "config.yaml.node7.tmp", "config.yaml.node-.tmp", "config.yaml.-12.tmp",
          "config.yaml..tmp", ".123.tmp", ".node-123.tmp", ".tmp", ""})
        EXPECT_EQ(target(other), "") << other;
}

}  // namespace
}  // namespace tutti::test
