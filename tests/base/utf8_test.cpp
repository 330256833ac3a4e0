#include "tutti/base/utf8.hpp"

#include <gtest/gtest.h>

namespace tutti {
namespace {

TEST(Utf8, characters_of_one_to_four_bytes_are_taken) {
    for (const std::string& text :
         {std::string(), std::string("a/b.png"), std::string("\x7f"), std::string(1, '\0'),
          std::string("\xc2\x80\xdf\xbf"), std::string("\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80\xef\xbf\xbf"),
          std::string("\xf0\x90\x80\x80\xf4\x8f\xbf\xbf")}) {
        EXPECT_TRUE(is_utf8(text)) << text;
        EXPECT_EQ(as_utf8(text), text);
    }
}

TEST(Utf8, what_is_none_is_found_where_it_begins) {
    for (const char* wrong : {"\x80", "\xbf", "\xc0\x80", "\xc1\xbf", "\xc3", "\xc3z", "\xe0\x9f\xbf",
                              "\xe1\x80", "\xe1\x80z", "\xed\xa0\x80", "\xf0\x8f\xbf\xbf", "\xf1\x80\x80",
                              "\xf1\x80\x80z", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff"}) {
        const std::string text = std::string("ab\xc3\xa4") + wrong;
        EXPECT_EQ(utf8_prefix(text), 4U) << text;
        EXPECT_FALSE(is_utf8(text));
        EXPECT_TRUE(is_utf8(as_utf8(text)));
    }
}

TEST(Utf8, each_wrong_byte_becomes_a_replacement_character) {
    EXPECT_EQ(as_utf8("caf\xe9/\xff\xfe.png"), "caf\xef\xbf\xbd/\xef\xbf\xbd\xef\xbf\xbd.png");
    EXPECT_EQ(as_utf8("\xc3"), "\xef\xbf\xbd");
}

}  // namespace
}  // namespace tutti
