#include "tutti/input/split_folders.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "support/error_message.hpp"
#include "support/temp_dir.hpp"
#include "tutti/base/error.hpp"

namespace tutti::test {
namespace {

class SplitFolders : public testing::Test {
  protected:
    /// Folders in a new folder.
    std::string folder_with(const std::vector<std::string>& folders) {
        const std::string folder = temp_.path() + "/" + std::to_string(count_++);
        std::filesystem::create_directories(folder);
        for (const std::string& one : folders) std::filesystem::create_directories(folder + "/" + one);
        return folder;
    }

  private:
    const TempDir temp_;
    int count_ = 0;
};

TEST_F(SplitFolders, AreRefusedWithWhatToPackInstead) {
    std::string folder = folder_with({"train/cat", "train/dog", "val/cat", ".cache/x"});
    EXPECT_EQ(
        message_of<UsageError>([&] { refuse_splits(folder, 1); }),
        "--dir " + folder +
            " holds train, val, which are parts of a data set and not its classes; pack each part into a "
            "file of its own: --dir " +
            folder + "/train, then --dir " + folder +
            "/val; where they are classes after all, name them in a table: --csv FILE");
    folder = folder_with({"Training/cat", "Validation/cat", "test"});
    const std::string said = message_of<UsageError>([&] { refuse_splits(folder, 1); });
    EXPECT_CONTAINS(said, "holds Training, Validation, test, which");
    EXPECT_EQ(said.find("/test"), std::string::npos) << "it has no folders of classes";
}

TEST_F(SplitFolders, OfClipsHaveOneMoreLevel) {
    EXPECT_EQ(refuse_splits(folder_with({"train/clip1", "test/clip1"}), 2), "");
    const std::string folder = folder_with({"train/cat/clip1", "test/cat/clip1"});
    EXPECT_CONTAINS(message_of<UsageError>([&] { refuse_splits(folder, 2); }), folder + "/train");
}

TEST_F(SplitFolders, ThatMayBeClassesAreWarnedOf) {
    const std::string mixed = folder_with({"train/a", "val/a", "raw"});
    EXPECT_EQ(refuse_splits(mixed, 1), "--dir " + mixed +
                                           " holds train, val, which seem to be parts of a data set, and not "
                                           "classes; pack each part into a file of its own: --dir " +
                                           mixed + "/train, then --dir " + mixed + "/val");
    const std::string alone = folder_with({"train/a", "train/b"});
    EXPECT_EQ(refuse_splits(alone, 1), "--dir " + alone +
                                           " holds train, which seems to be a part of a data set, and not a "
                                           "class; pack each part into a file of its own: --dir " +
                                           alone + "/train");
}

TEST_F(SplitFolders, ClassesAreLeftAlone) {
    for (const std::vector<std::string>& folders : {std::vector<std::string>{"cat", "dog"},
                                                    {"bus", "train/regional", "car"},
                                                    {"train", "test"},
                                                    {"cat/train", "cat/val"},
                                                    {}})
        EXPECT_EQ(refuse_splits(folder_with(folders), 1), "");
    EXPECT_EQ(refuse_splits("/no/such/folder", 1), "") << "who packs it says so";
}

}  // namespace
}  // namespace tutti::test
