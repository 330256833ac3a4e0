// Which files --index replaces, and what is said where it cannot be written.
#include "packed_index.hpp"

#include <gtest/gtest.h>

#include <filesystem>

#include "command_line.hpp"
#include "option_parser.hpp"
#include "support/error_message.hpp"
#include "support/files.hpp"
#include "support/temp_dir.hpp"
#include "tutti/base/error.hpp"

namespace tutti {
namespace {

class PackedIndexFile : public testing::Test {
  protected:
    std::string at(const std::string& name) const { return dir_.path() + "/" + name; }
    PackedIndex index(const std::string& path) const {
        PackedIndex result;
        OptionParser parser("", "");
        result.add_option(parser, {"line"});
        parse_arguments(parser, {"--index", path});
        return result;
    }
    const test::TempDir dir_;
};

TEST_F(PackedIndexFile, replaces_an_index_and_no_other_table) {
    for (const char* own :
         {"index,line\n0,2\n", "index,path\n", "index,path,start,end\r\n", "index,id,second\n", ""}) {
        test::write_file(at("index.csv"), own);
        index(at("index.csv")).prepare(at("data.h5"));
    }
    for (const char* other : {"id,path\n", "index,path,label,prediction\n", "index", "\n"}) {
        test::write_file(at("index.csv"), other);
        EXPECT_EQ(
            test::message_of<UsageError>([&] { index(at("index.csv")).prepare(at("data.h5")); }),
            "--index " + at("index.csv") +
                " would overwrite a file that is no index of a packer; give another name, or delete that "
                "file first");
    }
}

TEST_F(PackedIndexFile, that_cannot_be_written_says_that_the_data_are_there) {
    PackedIndex one = index(at("folder/index.csv"));
    one.prepare(at("data.h5"));
    std::filesystem::remove_all(at("folder"));
    test::write_file(at("folder"), "a file by now");
    const std::string message = test::message_of<RunError>([&] { one.write(); });
    EXPECT_TRUE(message.starts_with(at("data.h5") +
                                    " is packed as a whole, but not its index: cannot write " +
                                    at("folder/index.csv") + ": "))
        << message;
}

}  // namespace
}  // namespace tutti
