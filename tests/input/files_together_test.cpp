// What files that are read as one data set must have in common.
#include <gtest/gtest.h>

#include "tutti/input/dataset.hpp"
#include "written_datasets.hpp"

namespace tutti {
namespace {

using test::data_error;
using test::ImageFile;

class FilesTogether : public test::WrittenDatasets {};

TEST_F(FilesTogether, FilesThatDisagreeAreBothNamed) {
    ImageFile other;
    other.change = [](test::Hdf5File& f) {
        f.remove_attribute("classes");
        f.integer("classes", 12);
    };
    const std::vector<std::string> paths{write("a.h5", {}), write("b.h5", other)};
    EXPECT_EQ(data_error([&] { open_datasets(paths); })
                  .find(paths[0] + " has u8 samples of [4, 3, 2] in 10 classes, but " + paths[1] +
                        " has u8 samples of [4, 3, 2] in 12 classes; "),
              0U);
}

TEST_F(FilesTogether, FilesWithoutLabelsNeedNotSayTheClasses) {
    const auto bare = [](std::optional<std::int64_t> classes) {
        ImageFile file;
        file.change = [classes](test::Hdf5File& f) {
            f.remove_table("labels");
            f.remove_attribute("classes");
            if (classes) f.integer("classes", *classes);
        };
        return file;
    };
    const auto open = [](const std::vector<std::string>& paths) {
        return open_datasets(paths, mapped_limit, Labels::optional);
    };
    const std::string none = write("none.h5", bare({})), ten = write("ten.h5", bare(10)),
                      twelve = write("twelve.h5", bare(12)), labelled = write("labelled.h5", {});
    EXPECT_EQ(open({none, ten, none})->info().classes, 10);
    EXPECT_EQ(open({none, none})->info().classes, 0);
    EXPECT_EQ(data_error([&] {
                  open({none, ten, twelve});
              })
                  .find(ten + " has u8 samples of [4, 3, 2] in 10 classes, but " + twelve +
                        " has u8 samples of [4, 3, 2] in 12 classes; "),
              0U);
    EXPECT_EQ(data_error([&] {
                  open({none, labelled});
              }),
              none + " has no labels, but " + labelled +
                  " has some; files that are used together must agree; use them apart");
}

TEST_F(FilesTogether, FilesWithOtherClassNamesAreBothNamed) {
    ImageFile digits, letters;
    digits.change = [](test::Hdf5File& f) { f.fixed_texts("class_names", 1, H5T_STR_NULLPAD, "0123456789"); };
    letters.change = [](test::Hdf5File& f) {
        f.fixed_texts("class_names", 1, H5T_STR_NULLPAD, "abcdefghij");
    };
    const std::vector<std::string> paths{write("a.h5", digits), write("b.h5", letters)};
    EXPECT_EQ(data_error([&] {
                  open_datasets(paths);
              }).find(paths[0] + " and " + paths[1] + " have different class names; "),
              0U);
}

TEST_F(FilesTogether, FilesOfClipsAgreeOnTheirFramesWhereTheySayThem) {
    const auto clips = [](std::int64_t frames) {
        ImageFile file;
        file.change = [frames](test::Hdf5File& f) { f.integer("frames", frames); };
        return file;
    };
    const std::string one = write("one.h5", clips(1)), two = write("two.h5", clips(2)),
                      none = write("none.h5", {});
    EXPECT_EQ(open_datasets(std::vector{none, two})->info().frames, 2);
    EXPECT_EQ(data_error([&] {
                  open_datasets(std::vector{none, one, two});
              }).find(one + " has clips of 1 frames, but " + two + " of 2; "),
              0U);
}

}  // namespace
}  // namespace tutti
