// Keys that name files and folders.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "config_helpers.hpp"
#include "support/temp_dir.hpp"
#include "tutti/base/expanded_path.hpp"

namespace tutti {
namespace {

class ConfigPathsHome : public testing::Test {
  protected:
    void SetUp() override { ASSERT_EQ(setenv("HOME", "/home/me", 1), 0); }
    void TearDown() override {
        if (home_.empty())
            unsetenv("HOME");
        else
            setenv("HOME", home_.c_str(), 1);
    }

  private:
    const std::string home_ = std::getenv("HOME") == nullptr ? "" : std::getenv("HOME");
};

TEST_F(ConfigPathsHome, TheHomeDirectoryIsFilledInWhereNoShellDoes) {
    const Config config = parse("{run: {dir: ~/runs/a}, model: {init_from: ~/w.h5}}",
                                {"data.train=[~/a.h5, b.h5]", "data.val=~/c.h5", "run.resume=~/s.h5"});
    EXPECT_EQ(config.run.dir, "/home/me/runs/a");
    EXPECT_EQ(config.model.init_from, "/home/me/w.h5");
    EXPECT_EQ(config.data.train, (std::vector<std::string>{"/home/me/a.h5", "b.h5"}));
    EXPECT_EQ(config.data.val, (std::vector<std::string>{"/home/me/c.h5"}));
    EXPECT_EQ(config.run.resume, "/home/me/s.h5");
    EXPECT_EQ(parse("", {"run.dir='~'"}).run.dir, "/home/me");
    EXPECT_EQ(parse("", {"run.dir=a~/b"}).run.dir, "a~/b");
    EXPECT_EQ(parse("", {"data.train=~a.h5"}).data.train, std::vector<std::string>{"~a.h5"});
    EXPECT_EQ(override_refusal("run.dir=~you/x"),
              "run.dir: ~you/x: nobody replaces the name of a user; write the folder out");
    ASSERT_EQ(unsetenv("HOME"), 0);
    EXPECT_EQ(override_refusal("run.dir=~/x"),
              "run.dir: ~/x: HOME is not set in the environment; write the folder out");
}

TEST_F(ConfigPathsHome, AVariableThatNobodyReplacesIsRefused) {
    for (const char* const path : {"$SCRATCH/x", "/data/${USER}/x", "a/$_b"})
        EXPECT_EQ(override_refusal("run.dir=" + std::string(path)),
                  "run.dir: " + std::string(path) +
                      ": nobody replaces the variable; write the folder out; on the command line a shell "
                      "replaces it in double quotes");
    EXPECT_EQ(refusal("data: {train: [$SCRATCH/a.h5]}"),
              "jobs/x.yaml:1: data.train[0]: $SCRATCH/a.h5: nobody replaces the variable; write the folder "
              "out; on the command line a shell replaces it in double quotes");
    EXPECT_EQ(parse("", {"run.dir=cost$/5$"}).run.dir, "cost$/5$");
    const test::TempDir directory;
    const std::string odd = directory.path() + "/a $HOME.h5";
    std::ofstream(odd) << "x";
    EXPECT_NE(override_refusal("data.train=" + odd), "")
        << "it may not be there when a resume reads the config";
    EXPECT_EQ(expanded_option("--data", odd), odd);
    EXPECT_THROW(expanded_option("--data", odd + "x"), UsageError);
}

TEST(ConfigPatterns, NameTheFilesThatTheyFitInTheOrderOfTheirNames) {
    const test::TempDir directory;
    const auto file = [&](const std::string& name) { return directory.path() + "/" + name; };
    for (const char* const name : {"part10.h5", "part2.h5", "Part3.h5", "val.h5", "odd[1].h5", "notes.txt"})
        std::ofstream(file(name)) << "x";
    const auto files = [&](const std::vector<std::string>& names) {
        std::vector<std::string> paths;
        for (const std::string& name : names) paths.push_back(file(name));
        return paths;
    };
    const auto train = [&](const std::string& pattern) {
        return parse("", {"data.train=" + file(pattern)}).data.train;
    };
    EXPECT_EQ(train("part*.h5"), files({"part10.h5", "part2.h5"}));
    EXPECT_EQ(train("?art?.h5"), files({"Part3.h5", "part2.h5"}));
    EXPECT_EQ(train("part[0-9].h5"), files({"part2.h5"}));
    EXPECT_EQ(train("odd[1].h5"), files({"odd[1].h5"})) << "a file has this name";
    EXPECT_EQ(train("none*.h5"), files({"none*.h5"})) << "for the message that there is no such file";
    const std::string list = "[val.h5, " + file("part*.h5") + "]";
    EXPECT_EQ(parse("data: {val: " + list + "}").data.val,
              (std::vector<std::string>{"val.h5", file("part10.h5"), file("part2.h5")}));
    EXPECT_EQ(parse("", {"data.val=*.none"}).data.val, std::vector<std::string>{"*.none"});
    EXPECT_EQ(parse("", {"run.dir=" + file("part*")}).run.dir, file("part*"));
}

TEST_F(ConfigPathsHome, AMisspeltChoiceIsNotAFileToResumeFrom) {
    EXPECT_EQ(parse("", {"run.resume=NEVER"}).run.resume, "never");
    EXPECT_EQ(parse("", {"run.resume=Auto"}).run.resume, "auto");
    EXPECT_EQ(parse("", {"run.resume=./latest"}).run.resume, "./latest");
    EXPECT_EQ(parse("", {"run.resume=step-00000004.h5"}).run.resume, "step-00000004.h5");
    EXPECT_EQ(override_refusal("run.resume=nevr"),
              "run.resume: nevr is neither auto nor never; did you mean never? For a file of this name "
              "write ./nevr");
    EXPECT_EQ(parse("", {"run.resume=yes"}).run.resume, "yes") << "the trainer says that it is not there";
}

}  // namespace
}  // namespace tutti
