#include "tutti/base/log.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <thread>
#include <vector>

#include "tutti/base/error.hpp"

namespace tutti {
namespace {

namespace fs = std::filesystem;

/// What `action` prints to standard error, which is not a terminal here.
template <class Action>
std::string printed(Action action) {
    testing::internal::CaptureStderr();
    action();
    return testing::internal::GetCapturedStderr();
}

/// What `action` prints when standard error is a terminal.
template <class Action>
std::string printed_on_terminal(Action action) {
    const int terminal = posix_openpt(O_RDWR | O_NOCTTY);
    EXPECT_EQ(grantpt(terminal), 0);
    EXPECT_EQ(unlockpt(terminal), 0);
    const int inner = open(ptsname(terminal), O_RDWR | O_NOCTTY);
    const int saved = dup(STDERR_FILENO);
    dup2(inner, STDERR_FILENO);
    action();
    dup2(saved, STDERR_FILENO);
    close(saved);
    // An end mark: reading a terminal whose other side is closed fails, on some systems before the last
    // bytes.
    EXPECT_EQ(write(inner, "\x04", 1), 1);
    std::string text;
    char c = 0;
    while (read(terminal, &c, 1) == 1 && c != '\x04') text += c;
    close(inner);
    close(terminal);
    return text;
}

class LogFile : public testing::Test {
  protected:
    void SetUp() override {
        std::string name = (fs::temp_directory_path() / "tutti-log-XXXXXX").string();
        ASSERT_NE(mkdtemp(name.data()), nullptr);
        folder_ = name;
    }
    void TearDown() override { fs::remove_all(folder_); }

    std::string path() const { return (folder_ / "log.txt").string(); }
    std::vector<std::string> lines() const {
        std::ifstream file(path());
        std::vector<std::string> result;
        for (std::string line; std::getline(file, line);) result.push_back(line);
        return result;
    }
    fs::path folder_;
};

TEST(Log, prints_information_without_a_level) {
    Log log(0, 1, "node1", LogLevel::info);
    EXPECT_EQ(printed([&] { log.info("epoch 1"); }), "epoch 1\n");
}

TEST(Log, names_the_level_of_warnings_and_errors) {
    Log log(0, 4, "node1", LogLevel::info);
    EXPECT_EQ(printed([&] { log.warning("slow disk"); }), "warning: slow disk\n");
    EXPECT_EQ(printed([&] { log.error("no disk"); }), "error: no disk\n");
}

TEST(Log, leaves_out_what_is_below_its_level) {
    Log log(0, 1, "node1", LogLevel::warning);
    EXPECT_EQ(printed([&] {
                  log.debug("a");
                  log.info("b");
                  log.warning("c");
              }),
              "warning: c\n");
}

TEST(Log, prints_debug_lines_when_asked_to) {
    Log log(0, 1, "node1", LogLevel::debug);
    EXPECT_EQ(printed([&] { log.debug("bucket 3"); }), "bucket 3\n");
}

TEST(Log, prints_only_errors_of_other_ranks_and_says_whose_they_are) {
    Log log(3, 4, "node7", LogLevel::debug);
    EXPECT_EQ(printed([&] {
                  log.debug("a");
                  log.info("b");
                  log.warning("c");
                  log.error("no disk");
              }),
              "[rank 3 on node7] error: no disk\n");
}

TEST(Log, prints_braces_and_percent_signs_as_they_are) {
    Log log(0, 1, "node1", LogLevel::info);
    EXPECT_EQ(printed([&] { log.info("100 % of {} %v"); }), "100 % of {} %v\n");
}

TEST(Log, shows_no_progress_without_a_terminal) {
    EXPECT_EQ(printed([] {
                  Log log(0, 1, "node1", LogLevel::info);
                  log.progress("step 1");
                  EXPECT_FALSE(log.shows_progress());
              }),
              "");
}

TEST(Log, replaces_the_progress_line_on_a_terminal) {
    EXPECT_EQ(printed_on_terminal([] {
                  Log log(0, 1, "node1", LogLevel::info);
                  EXPECT_TRUE(log.shows_progress());
                  log.progress("step 1");
                  log.progress("step 2");
                  log.info("done");
                  log.info("bye");
              }),
              "\r\x1b[2Kstep 1\r\x1b[2Kstep 2\r\x1b[2Kdone\r\nbye\r\n");
}

TEST(Log, ends_a_visible_progress_line_when_it_goes) {
    EXPECT_EQ(printed_on_terminal([] { Log(0, 1, "node1", LogLevel::info).progress("step 1"); }),
              "\r\x1b[2Kstep 1\r\n");
}

TEST(Log, shows_no_progress_on_other_ranks) {
    EXPECT_EQ(printed_on_terminal([] {
                  Log log(1, 2, "node1", LogLevel::info);
                  log.progress("step 1");
                  EXPECT_FALSE(log.shows_progress());
              }),
              "");
}

TEST_F(LogFile, has_time_and_level_in_each_line) {
    Log log(0, 1, "node1", LogLevel::info);
    log.open_file(path());
    printed([&] {
        log.info("text");
        log.warning("more");
        log.error("most");
    });
    const auto found = lines();
    ASSERT_EQ(found.size(), 3u);
    const std::string time = R"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3} )";
    EXPECT_TRUE(std::regex_match(found[0], std::regex(time + "info text"))) << found[0];
    EXPECT_TRUE(std::regex_match(found[1], std::regex(time + "warning more"))) << found[1];
    EXPECT_TRUE(std::regex_match(found[2], std::regex(time + "error most"))) << found[2];
}

TEST_F(LogFile, begins_with_what_was_printed_before_it_was_opened) {
    Log log(0, 1, "node1", LogLevel::info);
    EXPECT_EQ(printed([&] {
                  log.debug("left out");
                  log.warning("early");
                  log.open_file(path());
                  log.info("late");
                  log.note("for the file alone");
              }),
              "warning: early\nlate\n");
    std::vector<std::string> texts;
    for (const std::string& line : lines()) texts.push_back(line.substr(line.find(' ') + 1));
    EXPECT_EQ(texts, (std::vector<std::string>{"warning early", "info late", "info for the file alone"}));
}

TEST_F(LogFile, is_appended_to) {
    for (const char* text : {"first", "second"}) {
        Log log(0, 1, "node1", LogLevel::info);
        log.open_file(path());
        printed([&] { log.info(text); });
    }
    ASSERT_EQ(lines().size(), 2u);
    EXPECT_TRUE(lines()[0].ends_with(" info first"));
}

TEST_F(LogFile, holds_a_line_as_soon_as_it_is_written) {
    Log log(0, 1, "node1", LogLevel::info);
    log.open_file(path());
    printed([&] { log.info("text"); });
    EXPECT_EQ(lines().size(), 1u);
}

TEST_F(LogFile, belongs_to_rank_0) {
    Log log(1, 2, "node1", LogLevel::info);
    log.open_file(path());
    printed([&] { log.error("text"); });
    EXPECT_FALSE(fs::exists(path()));
}

TEST_F(LogFile, that_cannot_be_opened_is_an_error_with_its_name) {
    Log log(0, 1, "node1", LogLevel::info);
    try {
        log.open_file(folder_.string());
        FAIL() << "a folder was opened as a file";
    } catch (const RunError& error) {
        EXPECT_NE(std::string(error.what()).find(folder_.string()), std::string::npos);
    }
}

TEST(Log, gives_up_a_file_that_cannot_be_written_and_goes_on) {
    if (!fs::exists("/dev/full")) GTEST_SKIP() << "this system has no /dev/full";
    Log log(0, 1, "node1", LogLevel::info);
    log.open_file("/dev/full");
    const std::string text = printed([&] {
        log.info("one");
        log.info("two");
    });
    EXPECT_TRUE(
        std::regex_match(text, std::regex("one\nwarning: no more lines go to the log file: .*\ntwo\n")))
        << text;
}

TEST_F(LogFile, holds_whole_lines_of_several_threads) {
    Log log(0, 1, "node1", LogLevel::info);
    log.open_file(path());
    const std::string text = printed([&] {
        std::vector<std::jthread> threads;
        for (int t = 0; t < 4; ++t)
            threads.emplace_back([&] {
                for (int i = 0; i < 50; ++i) log.info("0123456789");
            });
    });
    EXPECT_EQ(text.size(), 200u * 11);
    ASSERT_EQ(lines().size(), 200u);
    for (const std::string& line : lines()) EXPECT_TRUE(line.ends_with(" info 0123456789")) << line;
}

TEST(ParseLogLevel, knows_the_four_levels) {
    EXPECT_EQ(parse_log_level("debug"), LogLevel::debug);
    EXPECT_EQ(parse_log_level("info"), LogLevel::info);
    EXPECT_EQ(parse_log_level("warning"), LogLevel::warning);
    EXPECT_EQ(parse_log_level("error"), LogLevel::error);
}

TEST(ParseLogLevel, refuses_other_words_with_the_list) {
    try {
        parse_log_level("verbose");
        FAIL() << "accepted";
    } catch (const UsageError& error) {
        EXPECT_STREQ(error.what(), "\"verbose\" is not a log level; use debug, info, warning or error");
    }
}

}  // namespace
}  // namespace tutti
