#include "tutti/base/shell_word.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <memory>

namespace tutti {
namespace {

TEST(ShellWord, plain_names_stay_as_they_are) {
    for (const char* name : {"data.h5", "/a/b-c_d/STEP-1.h5", "../x@y:1,2+3%4=5", "-"})
        EXPECT_EQ(shell_word(name), name);
}

TEST(ShellWord, other_names_are_quoted) {
    EXPECT_EQ(shell_word(""), "''");
    EXPECT_EQ(shell_word("my data.h5"), "'my data.h5'");
    EXPECT_EQ(shell_word("it's.h5"), R"('it'\''s.h5')");
    EXPECT_EQ(shell_word("'"), R"(''\''')");
    EXPECT_EQ(shell_word("~/data.h5"), "'~/data.h5'");
}

/// What a shell makes of `word`, as printf's only argument, and a mark behind it.
std::string read_by_shell(const std::string& word) {
    const std::string command = "printf '%s|' " + word;
    const std::unique_ptr<FILE, int (*)(FILE*)> shell(popen(command.c_str(), "r"), pclose);
    std::string text;
    for (int c = 0; shell && (c = std::fgetc(shell.get())) != EOF;) text += static_cast<char>(c);
    return text;
}

TEST(ShellWord, a_shell_gives_back_what_was_quoted) {
    std::string all;
    for (int c = 1; c < 256; ++c) all += static_cast<char>(c);
    for (const std::string& text :
         {std::string(), std::string("a b"), std::string("$(exit 1)`x`\"\\!*?[a]{1,2}#;&|<>"), all,
          std::string("'' ''"), std::string("two\nlines\n")})
        EXPECT_EQ(read_by_shell(shell_word(text)), text + "|");
    for (int c = 1; c < 256; ++c) {
        const std::string one(1, static_cast<char>(c));
        EXPECT_EQ(read_by_shell("x" + shell_word(one)), "x" + one + "|") << c;
    }
}

}  // namespace
}  // namespace tutti
