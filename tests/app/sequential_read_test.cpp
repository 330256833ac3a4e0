#include "sequential_read.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "support/temp_dir.hpp"
#include "tutti/base/error.hpp"

namespace tutti {
namespace {

TEST(SequentialRead, GoesThroughAllFilesAndBeginsAgain) {
    const test::TempDir folder;
    const std::vector<std::string> paths{folder.path() + "/a", folder.path() + "/b"};
    std::ofstream(paths[0]) << std::string(100, 'x');
    std::ofstream(paths[1]) << std::string(50, 'y');
    SequentialRead files(paths, 64);
    EXPECT_EQ(files.all_bytes(), 150u);
    files.read(150);
    files.read(1000, 149);
    files.read(0);
    // Neither is more read than is asked for, nor less: a file that is gone only matters where its turn
    // comes.
    std::filesystem::remove(paths[1]);
    EXPECT_EQ(files.all_bytes(), 100u);
    files.read(100);
    EXPECT_THROW(files.read(101), DataError);
}

TEST(SequentialRead, EmptyFilesHaveNothingToRead) {
    const test::TempDir folder;
    const std::string path = folder.path() + "/a";
    std::ofstream(path).flush();
    SequentialRead files({path}, 64);
    EXPECT_EQ(files.all_bytes(), 0u);
    EXPECT_THROW(files.read(1), DataError);
}

}  // namespace
}  // namespace tutti
