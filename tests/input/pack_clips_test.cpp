// Folders of frames as data sets of clips.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "input/image_file.hpp"
#include "pack_helpers.hpp"
#include "png_files.hpp"
#include "support/files.hpp"
#include "tutti/input/pack.hpp"
#include "tutti/input/sample_paths.hpp"

namespace tutti {
namespace {

namespace fs = std::filesystem;
using test::png;

class PackClips : public test::Pack {
  protected:
    void SetUp() override {
        if (!no_image_files().empty()) GTEST_SKIP() << no_image_files();
        options_.folder = at("in");
        options_.output = at("out.h5");
        options_.frames = 2;
    }
    /// Two grey pixels.
    void frame(const std::string& name, int value) const {
        write(name, png(1, 2, 0, {static_cast<char>(value), static_cast<char>(value + 1)}));
    }
    void clips() const {
        // Written in another order than that of their names.
        frame("in/storm/late/img_00003.png", 30);
        frame("in/storm/late/img_00001.png", 10);
        frame("in/storm/late/img_00002.PNG", 20);
        frame("in/storm/early/x.png", 40);  // short
        frame("in/calm/only/a.png", 50);
        frame("in/calm/only/b.png", 60);
        write("in/calm/only/.c.png", "");
        write("in/calm/only/notes.txt", "no image");
        write("in/calm/loose.png", "no clip");
    }
    std::vector<std::vector<int>> samples() const {
        const auto data = open_hdf5_dataset(options_.output, mapped_limit, Labels::optional);
        std::vector<std::vector<int>> all;
        for (std::int64_t i = 0; i < data->info().samples; ++i) all.push_back(sample(*data, i));
        return all;
    }
    PackClipsOptions options_;
};

TEST_F(PackClips, PixelsHaveTheChannelsOfAllFramesAndShortClipsRepeatTheLast) {
    clips();
    for (const int threads : {1, 3}) {
        options_.threads = threads;
        const DatasetInfo info = pack_clips(options_);
        EXPECT_EQ(info.class_names, (std::vector<std::string>{"calm", "storm"}));
        EXPECT_EQ(info.sample_shape, (Shape{1, 2, 2}));
        EXPECT_EQ(open_hdf5_dataset(options_.output)->info().frames, 2);
        EXPECT_EQ(samples(),
                  (std::vector<std::vector<int>>{{50, 60, 51, 61}, {40, 40, 41, 41}, {10, 20, 11, 21}}));
        EXPECT_EQ(count_labels(*open_hdf5_dataset(options_.output)), (std::vector<std::int64_t>{1, 2}));
    }
    options_.frames = 4;
    pack_clips(options_);
    EXPECT_EQ(samples()[2], (std::vector{10, 20, 30, 30, 11, 21, 31, 31}));
}

TEST_F(PackClips, ColoursAreTogetherAndNormalisationIsForEachFrame) {
    write("in/a/1/1.png", png(1, 2, 2, "\x01\x02\x03\x04\x05\x06"));
    write("in/a/1/2.png", png(1, 2, 2, "\x07\x08\x09\x0a\x0b\x0c"));
    write("in/a/2/1.png", png(1, 2, 0, "\x0d\x0e"));
    options_.mean = {0.5F, 0.25F, 0};
    options_.std = {1, 2, 3};
    const DatasetInfo info = pack_clips(options_);
    EXPECT_EQ(info.sample_shape, (Shape{1, 2, 6}));
    EXPECT_EQ(info.mean, (std::vector{0.5F, 0.25F, 0.F, 0.5F, 0.25F, 0.F}));
    EXPECT_EQ(samples(), (std::vector<std::vector<int>>{{1, 2, 3, 7, 8, 9, 4, 5, 6, 10, 11, 12},
                                                        {13, 13, 13, 13, 13, 13, 14, 14, 14, 14, 14, 14}}));
    options_.height = options_.width = 3;
    EXPECT_EQ(pack_clips(options_).sample_shape, (Shape{3, 3, 6}));
    options_.mean = {0.5F, 0.25F};
    options_.std = {1, 2};
    EXPECT_EQ(refusal([&] { pack_clips(options_); }),
              "2 --mean and --std have 2 numbers, but samples have 6 channels (2 frames of 3); give one "
              "number, or 3 of each");
}

TEST_F(PackClips, AListNamesClipsAndLabels) {
    clips();
    write("list.csv", "start,path,label\n0,storm/early,2\n7,storm/late,0\n0," + at("in/calm/only") + ",2\n");
    options_.csv = at("list.csv");
    const DatasetInfo info = pack_clips(options_);
    EXPECT_EQ(info.classes, 3);
    EXPECT_TRUE(info.class_names.empty());
    EXPECT_EQ(samples(),
              (std::vector<std::vector<int>>{{40, 40, 41, 41}, {10, 20, 11, 21}, {50, 60, 51, 61}}));
    EXPECT_EQ(count_labels(*open_hdf5_dataset(options_.output)), (std::vector<std::int64_t>{1, 0, 2}));
    options_.class_names = {"a", "b", "c", "d"};
    EXPECT_EQ(pack_clips(options_).classes, 4);
    options_.class_names = {"a"};
    EXPECT_EQ(refusal([&] { pack_clips(options_); }),
              "2 --class-names gives 1 name, but the column label has 3 classes; give one name per class, "
              "or none");
    options_.class_names.clear();
    options_.labelled = false;
    EXPECT_FALSE(pack_clips(options_).labelled);
    EXPECT_EQ(samples().size(), 3U);
}

TEST_F(PackClips, AListMayGiveTargetsAndRowsToKeep) {
    clips();
    frame("in/calm/other/a.png", 70);
    write("in/calm/broken/a.png", "no image");
    write("list.csv",
          "path,start,x_pix,y_pix,label,has_target\n"
          "storm/early,0,1.5,-2,1,1\n"
          "calm/only,0,5,5,0,1\n"
          "storm/late,0,nan,7,1,1\n"
          "none,0,,,1.0,0\n"
          "calm/broken,0,3,4,1,1\n"
          "calm/other,0,8,9,1.0,1\n");
    options_.csv = at("list.csv");
    options_.targets = {"y_pix", "x_pix"};
    options_.keep = {{"label", "1"}};
    for (const int threads : {1, 3}) {
        options_.threads = threads;
        std::vector<std::string> said;
        RowCounts left_out;
        const DatasetInfo info = pack_clips(
            options_, [&said](const std::string& text) { said.push_back(text); }, &left_out);
        EXPECT_EQ(said.size(), 1U);
        EXPECT_EQ(left_out.not_kept, 1);
        EXPECT_EQ(left_out.without_target, 2);
        EXPECT_FALSE(info.labelled);
        EXPECT_EQ(samples(), (std::vector<std::vector<int>>{{40, 40, 41, 41}, {70, 70, 71, 71}}));
        const auto data = open_hdf5_dataset(options_.output);
        EXPECT_EQ(data->info().target_names, (std::vector<std::string>{"y_pix", "x_pix"}));
        EXPECT_EQ(std::vector(data->targets().begin(), data->targets().end()),
                  (std::vector{-2.F, 1.5F, 9.F, 8.F}));
    }
    EXPECT_EQ(refusal([&] { pack_clips(options_); }).substr(0, 2), "4 ");
    options_.keep = {{"has_target", "0"}};
    EXPECT_EQ(
        refusal([&] { pack_clips(options_); }),
        "4 " + at("list.csv") +
            ": of 6 rows none is left: --keep leaves out 5, and 1 have no finite target; check --keep and "
            "--target");
    options_.targets = {"x"};
    EXPECT_EQ(refusal([&] { pack_clips(options_); }).substr(0, 10), "2 --target");
}

TEST_F(PackClips, PlacesFollowTheFramesWhichThenAreOfOneSize) {
    for (const char* name : {"in/a/one/1.png", "in/a/one/2.png", "in/a/two/1.png"})
        write(name, png(4, 8, 0, std::string(32, '\7')));
    write("in/a/two/2.png", png(8, 8, 0, std::string(64, '\7')));
    write("list.csv", "path,x,y\na/one,7,1\na/two,7,1\n");
    options_.csv = at("list.csv");
    options_.targets = {"x", "y"};
    options_.height = options_.width = 4;
    options_.fit = Fit::letterbox;
    EXPECT_EQ(pack_clips(options_).sample_shape, (Shape{4, 4, 2}));
    options_.target_pixels = {"x", "y"};
    EXPECT_EQ(refusal([&] { pack_clips(options_); }),
              "4 " + at("in/a/two/2.png") +
                  " has another size than the frames of its clip before it, so that a place in them is not "
                  "one place in the sample; make all of one size, leave such clips out with --skip-errors, "
                  "or leave out --target-pixels");
    std::vector<std::string> said;
    EXPECT_EQ(pack_clips(options_, [&said](const std::string& text) { said.push_back(text); }).samples, 1);
    EXPECT_EQ(said.size(), 1U);
    const auto data = open_hdf5_dataset(options_.output);
    EXPECT_EQ(std::vector(data->targets().begin(), data->targets().end()), (std::vector{3.25F, 1.25F}));
    EXPECT_EQ(samples().front()[0], 0);
    EXPECT_EQ(samples().front()[2 * 4], 7);
}

TEST_F(PackClips, frames_of_a_range_are_in_the_order_of_their_numbers) {
    for (const int number : {8, 9, 10, 11, 100})
        write(fmt::format("in/a/img_{}.png", number),
              png(1, 1, 0, std::string(1, static_cast<char>(number))));
    write("in/a/a_9.png", png(1, 1, 0, "\x01"));  // before the other one
    options_.csv = at("list.csv");
    options_.labelled = false;
    options_.frames = 4;
    options_.frame_range = {"start", "end"};
    write("list.csv", "path,start,end\na,8,100\na,10,11\n");
    pack_clips(options_);
    EXPECT_EQ(samples(), (std::vector<std::vector<int>>{{8, 1, 9, 10}, {10, 11, 11, 11}}));
}

TEST_F(PackClips, ARangeOfFramesIsTakenByTheNumbersInTheirNames) {
    for (int number = 1; number <= 6; ++number)
        write(fmt::format("in/a/img_{:05}.png", number),
              png(1, 1, 0, std::string(1, static_cast<char>(number))));
    write("in/a/cover.png", png(1, 1, 0, "\x63"));
    options_.csv = at("list.csv");
    options_.labelled = false;
    options_.frames = 3;
    write("list.csv", "path,start,end\na,2,4\na,5,6\na,1,6\n");
    RowCounts rows;
    pack_clips(options_, {}, &rows);
    EXPECT_TRUE(rows.unread_range);
    options_.frame_range = {"start", "end"};
    std::vector<std::vector<std::string>> told;
    options_.from = [&told](const std::vector<std::string>& where) { told.push_back(where); };
    EXPECT_EQ(pack_clips(options_, {}, &rows).samples, 3);
    EXPECT_FALSE(rows.unread_range);
    EXPECT_EQ(told,
              (std::vector<std::vector<std::string>>{{"a", "2", "4"}, {"a", "5", "6"}, {"a", "1", "6"}}));
    options_.from = {};
    EXPECT_EQ(samples(), (std::vector<std::vector<int>>{{2, 3, 4}, {5, 6, 6}, {1, 2, 3}}));
    const auto refused = [&](const std::string& row) {
        write("list.csv", "path,start,end\n" + row);
        return refusal([&] { pack_clips(options_); });
    };
    EXPECT_EQ(refused("a,7,9\n"),
              "4 " + at("in/a") +
                  ": there is no image whose name ends in a number from 7 to 9; correct the "
                  "row, or leave such clips out with --skip-errors");
    EXPECT_EQ(refused("a,3,2\n"),
              "4 " + options_.csv +
                  ":2: the clip ends with frame 2, before its first, 3; correct the row, or "
                  "leave it out");
    EXPECT_EQ(refused("a,1,x\n"),
              "4 " + options_.csv +
                  ":2: column end: 'x' is not a whole number; give the number of a frame, or "
                  "leave the row out");
}

TEST_F(PackClips, TheFileSaysWhereEachSampleComesFrom) {
    clips();
    const auto paths = [&] { return open_sample_paths(std::vector{options_.output})->read(0, 2); };
    pack_clips(options_);
    EXPECT_EQ(paths(), (std::vector{at("in/calm/only"), at("in/storm/early")}));
    const std::string bytes = test::read_file(options_.output);
    options_.threads = 3;
    pack_clips(options_);
    EXPECT_EQ(test::read_file(options_.output), bytes);
    // As the table has them: what was left out has no place there either.
    write("list.csv", "path\nstorm/late\nnone\ncalm/only\n");
    options_.csv = at("list.csv");
    options_.labelled = false;
    pack_clips(options_, [](const std::string&) {});
    EXPECT_EQ(paths(), (std::vector<std::string>{"storm/late", "calm/only"}));
}

TEST_F(PackClips, RowsToKeepHaveTheirLabels) {
    clips();
    write(
        "list.csv",
        "path,label,split\nstorm/early,2,val\nstorm/late,0,train\ncalm/only,none,test\ncalm/only,1,train\n");
    options_.csv = at("list.csv");
    options_.keep = {{"split", "train"}};
    EXPECT_EQ(pack_clips(options_).classes, 2);
    EXPECT_EQ(samples(), (std::vector<std::vector<int>>{{10, 20, 11, 21}, {50, 60, 51, 61}}));
}

TEST_F(PackClips, WhatIsWrongWithAListIsNamedWithItsLine) {
    clips();
    options_.csv = at("list.csv");
    const auto refused = [&](const std::string& text) {
        write("list.csv", text);
        return refusal([&] { pack_clips(options_); });
    };
    EXPECT_EQ(refused("path,label\nstorm/late,0\nstorm/early,-1\n"),
              "4 " + at("list.csv") + ":3: the label is '-1'; number the classes from 0 on, at most 999999");
    EXPECT_EQ(refused("path,label\nstorm/late,storm\nstorm/early,1\n").substr(0, 2), "4 ");
    EXPECT_EQ(refused("path,label\nstorm/late,0.5\n").substr(0, 2), "4 ");
    EXPECT_EQ(refused("path,label\nstorm/late,1.0\nstorm/early,0.0\n"), "accepted");
    EXPECT_EQ(count_labels(*open_hdf5_dataset(options_.output)), (std::vector<std::int64_t>{1, 1}));
    EXPECT_EQ(
        refused("folder,label\n"),
        "4 " + at("list.csv") +
            ":1: there is no column path, nor image_path; name the column with the paths: --path-column "
            "COLUMN");
    EXPECT_EQ(refused("path\n"),
              "4 " + at("list.csv") +
                  ":1: there is no column label; name the column with --label COLUMN, give "
                  "--target COLUMNS for regression, or pack without labels: --no-labels");
    EXPECT_EQ(refused("path,label\nstorm/late\n"),
              "4 " + at("list.csv") +
                  ":2: 1 fields, but the first line names 2 columns; "
                  "correct the line; a field that holds the delimiter must "
                  "be in \"quotes\"");
    EXPECT_EQ(refused("path,label\n"),
              "4 " + at("list.csv") + ": there are no rows; give a list that has some");
    EXPECT_EQ(refused(""),
              "4 " + at("list.csv") + ": the file is empty; its first line must name the columns");
    EXPECT_EQ(refused("path,label\nnone,0\n"),
              "4 " + at("in/none") +
                  ": the frames cannot be listed: No such file or directory; check the path, or "
                  "leave such clips out with --skip-errors");
}

TEST_F(PackClips, ClipsThatCannotBeReadAreNamedOrLeftOut) {
    clips();
    write("in/storm/late/img_00002.PNG", "no image");
    fs::create_directories(at("in/calm/empty"));
    write("in/calm/zoom/1.png", png(2, 2, 0, "\x01\x02\x03\x04"));
    const std::string empty = at("in/calm/empty") +
                              ": there is no image in it; names must end in .png, .jpg or "
                              ".jpeg; leave such clips out with --skip-errors";
    EXPECT_EQ(refusal([&] { pack_clips(options_); }), "4 " + empty);
    EXPECT_FALSE(fs::exists(options_.output));
    for (const int threads : {1, 2}) {
        options_.threads = threads;
        std::vector<std::string> said;
        pack_clips(options_, [&said](const std::string& text) { said.push_back(text); });
        ASSERT_EQ(said.size(), 3U);
        EXPECT_EQ(said[0], empty);
        EXPECT_EQ(said[1].substr(0, said[1].find(" has ")), at("in/calm/zoom/1.png"));
        EXPECT_EQ(said[2].substr(0, said[2].find(": ")), at("in/storm/late/img_00002.PNG"));
        EXPECT_EQ(samples(), (std::vector<std::vector<int>>{{50, 60, 51, 61}, {40, 40, 41, 41}}));
    }
    fs::remove_all(at("in/calm/only"));
    fs::remove_all(at("in/calm/zoom"));
    fs::remove_all(at("in/storm"));
    EXPECT_EQ(refusal([&] { pack_clips(options_, [](const std::string&) {}); }),
              "4 " + at("in") + ": no clip could be read; check the files");
}

TEST_F(PackClips, FoldersWithoutClipsAndOutputsThatAreReadAreRefused) {
    clips();
    frame("in/images/1.png", 1);
    EXPECT_EQ(refusal([&] { pack_clips(options_); }),
              "4 " + at("in/images") +
                  ": there is no folder in it; put the frames of each clip into a folder in it, or remove it "
                  "if it is "
                  "no class");
    fs::remove_all(at("in/images"));
    options_.output = at("in/storm/early/x.png");
    EXPECT_EQ(refusal([&] { pack_clips(options_); }).substr(0, 5), "2 -o ");
    EXPECT_GT(fs::file_size(options_.output), 0U);
}

}  // namespace
}  // namespace tutti
