#include "config_text.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "config_helpers.hpp"
#include "tutti/base/stop_signal.hpp"

namespace tutti {
namespace {

namespace fs = std::filesystem;
using namespace std::string_literals;

struct ConfigInput : testing::Test {
    ConfigInput() { folder = mkdtemp(folder.data()); }
    ~ConfigInput() override { fs::remove_all(folder); }
    std::string make_pipe() const {
        const std::string path = folder + "/pipe";
        EXPECT_EQ(mkfifo(path.c_str(), 0600), 0);
        return path;
    }
    std::string folder = (fs::temp_directory_path() / "tutti-XXXXXX").string();
};

TEST_F(ConfigInput, refuses_other_encodings_than_utf8_by_their_marks) {
    EXPECT_EQ(
        refusal("\xff\xfe\0"s),
        "jobs/x.yaml: the text is UTF-16, not UTF-8; save it as UTF-8, for example with iconv -f UTF-16 "
        "-t UTF-8");
    for (const std::string& mark : {"\xff\xfe"s, "\xfe\xff"s,
                                    "\xff\xfe"
                                    "a\0"s,
                                    "\xfe\xff\0a"s})
        EXPECT_NE(refusal(mark).find("UTF-16, not"), std::string::npos);
    for (const std::string& mark : {"\xff\xfe\0\0a\0\0\0"s, "\0\0\xfe\xff\0\0\0a"s})
        EXPECT_NE(refusal(mark).find("UTF-32, not"), std::string::npos);
}

TEST_F(ConfigInput, refuses_a_nul_byte_and_names_its_line) {
    EXPECT_EQ(refusal("train:\n  epochs: 1\0\n"s).substr(0, 38), "jobs/x.yaml:2: a NUL byte; YAML is tex");
    EXPECT_NE(refusal("t\0r\0"s).find("iconv -f UTF-16LE"), std::string::npos);
}

TEST_F(ConfigInput, refuses_files_of_other_kinds_with_where_they_belong) {
    EXPECT_EQ(refusal("\x89HDF\r\n\x1a\n\0\0"s),
              "jobs/x.yaml: an HDF5 file, not a config; a data set is named with data.train=jobs/x.yaml, a "
              "run's config "
              "is its config.yaml");
    std::string message;
    try {
        read_config_text("/tmp");
    } catch (const UsageError& error) {
        message = error.what();
    }
    EXPECT_EQ(message,
              "/tmp: cannot read the config file: Is a directory; name the file in it, of a run -c "
              "/tmp/config.yaml");
}

TEST_F(ConfigInput, refuses_a_byte_that_is_not_utf8_and_names_its_place) {
    const auto refusal_of = [&](const std::string& text) -> std::string {
        const std::string path = folder + "/c.yaml";
        std::ofstream(path, std::ios::binary) << text;
        EXPECT_EQ(read_config_text(path, ConfigText::of_run), text);
        try {
            read_config_text(path);
        } catch (const UsageError& error) {
            return std::string(error.what()).substr(folder.size() + 1);
        }
        return {};
    };
    const std::string remedy =
        "; save the file as UTF-8, for example with iconv -f LATIN1 -t UTF-8 OLD > NEW";
    EXPECT_EQ(refusal_of("# Gr\xf6\xdf"
                         "e\n"),
              "c.yaml:1:5: the byte 0xf6 is not UTF-8" + remedy);
    // Columns count characters, not bytes.
    EXPECT_EQ(refusal_of("train:\n  epochs: 1  # \xc3\xa9, then \xe9\n"),
              "c.yaml:2:24: the byte 0xe9 is not UTF-8" + remedy);
    // Cut off at the end of the file; a surrogate.
    EXPECT_EQ(refusal_of("#\n# \xe2\x82"), "c.yaml:2:3: the byte 0xe2 is not UTF-8" + remedy);
    EXPECT_EQ(refusal_of("#\xed\xa0\x80"), "c.yaml:1:2: the byte 0xed is not UTF-8" + remedy);
    EXPECT_EQ(refusal_of("# Gr\xc3\xb6\xc3\x9f"
                         "e, \xe2\x82\xac, \xf0\x9f\x8e\xb5\n"),
              "");
}

TEST_F(ConfigInput, takes_the_mark_of_utf8) {
    EXPECT_EQ(parse("\xef\xbb\xbf"
                    "train: {epochs: 7}")
                  .train.epochs,
              7);
}

TEST_F(ConfigInput, is_read_from_a_pipe_to_its_end) {
    const std::string path = make_pipe(), text(200'000, '#');
    std::thread writer([&] { std::ofstream(path) << text << "\nrun: {}\n"; });
    const std::string read = read_config_text(path);
    writer.join();
    EXPECT_EQ(read, text + "\nrun: {}\n");
}

TEST_F(ConfigInput, of_a_pipe_that_nobody_writes_to_is_given_up_on_a_signal) {
    const std::string path = make_pipe();
    const StopSignal signals;
    raise(SIGTERM);
    try {
        read_config_text(path);
        FAIL() << "accepted";
    } catch (const RunError& error) {
        EXPECT_NE(std::string(error.what()).find("signal 15 while waiting for the config " + path),
                  std::string::npos);
    }
}

TEST_F(ConfigInput, that_never_ends_is_refused) {
    EXPECT_THROW(read_config_text("/dev/zero"), UsageError);
}

}  // namespace
}  // namespace tutti
