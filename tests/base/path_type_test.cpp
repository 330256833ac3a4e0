#include "tutti/base/path_type.hpp"

#include <gtest/gtest.h>

#include <fstream>

#include "support/error_message.hpp"
#include "support/temp_dir.hpp"
#include "tutti/base/error.hpp"

namespace tutti {
namespace {

using std::filesystem::file_type;

TEST(PathType, OfWhatIsThereAndOfWhatIsNot) {
    const test::TempDir folder;
    const std::string file = folder.path() + "/file", link = folder.path() + "/link";
    std::ofstream(file) << "x";
    std::filesystem::create_symlink(file, link);
    EXPECT_EQ(type_of_path(folder.path()), file_type::directory);
    EXPECT_EQ(type_of_path(file), file_type::regular);
    EXPECT_EQ(type_of_path(link), file_type::regular);
    EXPECT_EQ(type_of_path(folder.path() + "/none"), file_type::not_found);
    EXPECT_EQ(type_of_path(file + "/x"), file_type::not_found);
    EXPECT_EQ(type_of_path(""), file_type::not_found);
}

TEST(PathType, OfWhatCannotBeLookedAtIsAnErrorThatSaysWhy) {
    const test::TempDir folder;
    const std::string loop = folder.path() + "/loop";
    std::filesystem::create_symlink(loop, loop);
    for (const auto& [path, reason] :
         {std::pair(loop + "/x", std::string("Too many levels of symbolic links")),
          std::pair(folder.path() + "/" + std::string(300, 'x'), std::string("File name too long"))}) {
        const std::string message = test::message_of<DataError>([&] { type_of_path(path); });
        EXPECT_TRUE(message.starts_with(path + " cannot be looked at: " + reason + "; check the path"))
            << message;
    }
}

}  // namespace
}  // namespace tutti
