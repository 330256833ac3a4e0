// Tables of images as data sets, and how images and places in them are made to fit.
#include <gtest/gtest.h>

#include "input/image_file.hpp"
#include "input/resize.hpp"
#include "pack_helpers.hpp"
#include "png_files.hpp"
#include "tutti/input/pack.hpp"
#include "tutti/input/sample_paths.hpp"

namespace tutti {
namespace {

using test::png;

class PackImageList : public test::PackListed {
  protected:
    /// Three grey images of two pixels.
    void images() const {
        write("in/a.png", png(1, 2, 0, "\x01\x02"));
        write("in/b.png", png(1, 2, 0, "\x03\x04"));
        write("in/deep/c.png", png(1, 2, 0, "\x05\x06"));
    }
    std::string refused(const std::string& table) const {
        return refusal([&] { pack(table); });
    }
    /// What is refused of the table, without its code and name.
    std::string refused_in(const std::string& table) const {
        const std::string text = refused(table), begin = "4 " + options_.csv + ":";
        return text.starts_with(begin) ? text.substr(begin.size()) : text;
    }
    std::vector<std::vector<int>> samples() const {
        const auto data = open_hdf5_dataset(options_.output, mapped_limit, Labels::optional);
        std::vector<std::vector<int>> all;
        for (std::int64_t i = 0; i < data->info().samples; ++i) all.push_back(sample(*data, i));
        return all;
    }
    std::vector<std::int64_t> labels() const {
        const auto data = open_hdf5_dataset(options_.output);
        std::vector<std::byte> bytes(static_cast<std::size_t>(data->info().sample_bytes()));
        std::vector<std::int64_t> all, one(1);
        for (std::int64_t i = 0; i < data->info().samples; ++i) {
            data->read(std::vector{i}, bytes, one);
            all.push_back(one.front());
        }
        return all;
    }
    std::vector<float> targets() const {
        const auto data = open_hdf5_dataset(options_.output);
        return {data->targets().begin(), data->targets().end()};
    }
};

TEST_F(PackImageList, RowsAreSamplesInTheirOrderWithTheirPaths) {
    images();
    for (const int threads : {1, 3}) {
        options_.threads = threads;
        std::vector<std::string> told;
        options_.from = [&told](const std::vector<std::string>& where) { told.push_back(where.front()); };
        const DatasetInfo info =
            pack("when,image_path,label\n0,deep/c.png,2\n1," + at("in/a.png") + ",0\n2,b.png,2.0\n");
        EXPECT_EQ(info.classes, 3);
        EXPECT_TRUE(info.class_names.empty());
        EXPECT_EQ(samples(), (std::vector<std::vector<int>>{{5, 6}, {1, 2}, {3, 4}}));
        EXPECT_EQ(labels(), (std::vector<std::int64_t>{2, 0, 2}));
        EXPECT_EQ(told, (std::vector<std::string>{"deep/c.png", at("in/a.png"), "b.png"}));
        EXPECT_EQ(open_sample_paths(std::vector{options_.output})->read(0, 3), told);
    }
}

TEST_F(PackImageList, ColumnsMayHaveOtherNamesAndDelimiters) {
    images();
    options_.path_column = "file";
    options_.label = "kind";
    options_.delimiter = ';';
    pack("path;file;label;kind\nnone;a.png;7;1\nnone;b.png;7;0\n");
    EXPECT_EQ(samples(), (std::vector<std::vector<int>>{{1, 2}, {3, 4}}));
    EXPECT_EQ(labels(), (std::vector<std::int64_t>{1, 0}));
    // path comes before image_path.
    options_ = {};
    options_.folder = at("in");
    options_.csv = at("list.csv");
    options_.output = at("out.h5");
    options_.labelled = false;
    EXPECT_FALSE(pack("image_path,path\na.png,b.png\n").labelled);
    EXPECT_EQ(samples(), (std::vector<std::vector<int>>{{3, 4}}));
}

TEST_F(PackImageList, LabelsMayBeNamesInSortedOrderOrThatOfTheClassNames) {
    images();
    const std::string table = "path,label\na.png, dog\nb.png,cat\ndeep/c.png,dog\n";
    EXPECT_EQ(pack(table).class_names, (std::vector<std::string>{"cat", "dog"}));
    EXPECT_EQ(labels(), (std::vector<std::int64_t>{1, 0, 1}));
    options_.class_names = {"dog", "bird", "cat"};
    EXPECT_EQ(pack(table).class_names, options_.class_names);
    EXPECT_EQ(labels(), (std::vector<std::int64_t>{0, 2, 0}));
    options_.class_names = {"dog", "bird"};
    EXPECT_EQ(refused_in(table),
              "3: the label is 'cat', which is not among the --class-names; correct it, or name all classes");
    EXPECT_EQ(pack("path,label\na.png,1\nb.png,0\n").class_names, options_.class_names);
    EXPECT_EQ(
        refused("path,label\na.png,2\n"),
        "2 --class-names gives 2 names, but the column label has 3 classes; give one name per class, or "
        "none");
}

TEST_F(PackImageList, RowsAreKeptAndCountedAsThoseOfOtherTables) {
    images();
    options_.targets = {"y", "x"};
    options_.keep = {{"split", "train"}};
    write("list.csv", "path,x,y,split\na.png,1,2,train\nb.png,3,4,val\nb.png,,4,train\nnone,inf,,train\n");
    RowCounts rows;
    const DatasetInfo info = pack_images(options_, {}, &rows);
    EXPECT_FALSE(info.labelled);
    EXPECT_EQ(info.target_names, options_.targets);
    EXPECT_EQ(targets(), (std::vector{2.F, 1.F}));
    EXPECT_EQ(rows.not_kept, 1);
    EXPECT_EQ(rows.without_target, 2);
    EXPECT_EQ(rows.filled, 0);
}

TEST_F(PackImageList, ALetterboxIsTheScaledImageBetweenBlackRows) {
    std::string pixels;
    Image image{5, 12, 3, {}};
    for (int i = 0; i < 5 * 12 * 3; ++i) {
        pixels += static_cast<char>(i * i * 31 % 255 + 1);
        image.pixels.push_back(static_cast<std::byte>(i * i * 31 % 255 + 1));
    }
    write("in/a.png", png(5, 12, 2, pixels));
    options_.labelled = false;
    options_.height = options_.width = 8;
    options_.fit = Fit::letterbox;
    EXPECT_EQ(pack("path\na.png\n").sample_shape, (Shape{8, 8, 3}));
    // 5 · 8 / 12 is 3.33 rows: 3, behind 2 of the 5 that are left over.
    const Image scaled = resize(image, 3, 8);
    const std::vector<int> stored = samples().front();
    for (std::size_t i = 0; i < stored.size(); ++i) {
        const bool inside = i >= 2 * 24 && i < 5 * 24;
        EXPECT_EQ(stored[i], inside ? static_cast<int>(scaled.pixels[i - 2 * 24]) : 0) << i;
    }
    options_.fit = Fit::stretch;
    pack("path\na.png\n");
    const Image stretched = resize(image, 8, 8);
    const std::vector<int> all = samples().front();
    for (std::size_t i = 0; i < all.size(); ++i)
        EXPECT_EQ(all[i], static_cast<int>(stretched.pixels[i])) << i;
}

TEST_F(PackImageList, PlacesFollowTheImage) {
    // 8 × 4 pixels, and the same ones the other way round.
    write("in/wide.png", png(4, 8, 0, std::string(32, '\7')));
    write("in/high.png", png(8, 4, 0, std::string(32, '\7')));
    const std::string table = "path,presence,x,y\nwide.png,1,7,1\nhigh.png,1,1,7\n";
    options_.targets = {"presence", "x", "y"};
    options_.height = options_.width = 4;
    const auto stored = [&](Fit fit) {
        options_.fit = fit;
        pack(table);
        return targets();
    };
    EXPECT_EQ(stored(Fit::letterbox), (std::vector{1.F, 7.F, 1.F, 1.F, 1.F, 7.F}));
    options_.target_pixels = {"x", "y"};
    EXPECT_EQ(stored(Fit::letterbox), (std::vector{1.F, 3.25F, 1.25F, 1.F, 1.25F, 3.25F}));
    EXPECT_EQ(stored(Fit::stretch), (std::vector{1.F, 3.25F, 1.F, 1.F, 1.F, 3.25F}));
    // The place was cut off.
    EXPECT_EQ(stored(Fit::crop), (std::vector{1.F, 5.F, 1.F, 1.F, 1.F, 5.F}));
    RowCounts rows;
    pack_images(options_, {}, &rows);
    EXPECT_EQ(rows.outside, 2);
    options_.height = options_.width = 0;
    pack("path,presence,x,y\nwide.png,0.5,7.125,1\n");
    EXPECT_EQ(targets(), (std::vector{0.5F, 7.125F, 1.F}));
}

TEST_F(PackImageList, ABrightPixelIsWhereItsPlaceIs) {
    std::string pixels(8 * 12, '\0');
    pixels[3 * 12 + 5] = '\xff';
    write("in/a.png", png(8, 12, 0, pixels));
    options_.targets = options_.target_pixels = {"x", "y"};
    options_.height = options_.width = 6;
    options_.fit = Fit::letterbox;
    pack("path,x,y\na.png,5,3\n");
    double sum = 0, x = 0, y = 0;
    const std::vector<int> stored = samples().front();
    for (std::size_t i = 0; i < stored.size(); ++i) {
        sum += stored[i];
        x += static_cast<double>(i % 6) * stored[i];
        y += static_cast<double>(i / 6) * stored[i];
    }
    EXPECT_EQ(targets(), (std::vector{2.25F, 2.25F}));
    EXPECT_NEAR(x / sum, 2.25, 0.02);
    EXPECT_NEAR(y / sum, 2.25, 0.02);
}

TEST_F(PackImageList, AbsentTargetsMayBeFilledWithANumberThatDoesNotMove) {
    write("in/a.png", png(4, 8, 0, std::string(32, '\7')));
    write("list.csv", "path,presence,x,y\na.png,1,7,1\na.png,0,,\na.png,1,,\na.png,0,nan,inf\n");
    options_.targets = {"presence", "x", "y"};
    options_.target_pixels = {"x", "y"};
    options_.fill_targets = 0.F;
    options_.height = options_.width = 4;
    options_.fit = Fit::letterbox;
    for (const int threads : {1, 3}) {
        options_.threads = threads;
        RowCounts rows;
        pack_images(options_, {}, &rows);
        EXPECT_EQ(targets(), (std::vector{1.F, 3.25F, 1.25F, 0.F, 0.F, 0.F, 0.F, 0.F, 0.F}));
        EXPECT_EQ(rows.filled, 2);
        EXPECT_EQ(rows.without_target, 1) << "where something is, but not where";
    }
}

TEST_F(PackImageList, SkippedFilesTakeTheirTargetsWithThem) {
    images();
    write("in/bad.png", "no image");
    write("list.csv", "path,presence,x,y\na.png,1,1,0\nbad.png,0,,\nb.png,0,,\ndeep/c.png,1,0,0\n");
    options_.targets = {"presence", "x", "y"};
    options_.target_pixels = {"x", "y"};
    options_.fill_targets = 9.F;
    RowCounts rows;
    int skipped = 0;
    EXPECT_EQ(pack_images(
                  options_, [&](const std::string&) { ++skipped; }, &rows)
                  .samples,
              3);
    EXPECT_EQ(skipped, 1);
    EXPECT_EQ(rows.filled, 1) << "of those that are packed";
    EXPECT_EQ(targets(), (std::vector{1.F, 1.F, 0.F, 0.F, 9.F, 9.F, 1.F, 0.F, 0.F}));
    EXPECT_EQ(samples(), (std::vector<std::vector<int>>{{1, 2}, {3, 4}, {5, 6}}));
}

TEST_F(PackImageList, PiecesOfManyMegabytesKeepTheirOrder) {
    // A sample is 1.5 MiB, so that a piece is of three; the last one is of two.
    for (int i = 0; i < 8; ++i)
        write("in/" + std::to_string(i) + ".png",
              png(1024, 1536, 0, std::string(std::size_t{1024} * 1536, static_cast<char>(i))));
    std::string table = "path,label,value\n";
    for (int i = 0; i < 8; ++i)
        table += std::to_string(i) + ".png," + std::to_string(i % 3) + "," + std::to_string(10 * i) + "\n";
    pack(table);
    EXPECT_EQ(labels(), (std::vector<std::int64_t>{0, 1, 2, 0, 1, 2, 0, 1}));
    const auto all = samples();
    for (std::size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i].back(), static_cast<int>(i));
    const auto paths = open_sample_paths(std::vector{options_.output})->read(0, 8);
    for (std::size_t i = 0; i < paths.size(); ++i) EXPECT_EQ(paths[i], std::to_string(i) + ".png");
    options_.targets = {"value"};
    pack(table);
    EXPECT_EQ(targets(), (std::vector{0.F, 10.F, 20.F, 30.F, 40.F, 50.F, 60.F, 70.F}));
}

TEST_F(PackImageList, NamesOfClassesMayLookLikeNumbers) {
    images();
    options_.class_names = {"airbus", " 747"};
    EXPECT_EQ(pack("path,label\na.png,airbus\nb.png,747\n").class_names,
              (std::vector<std::string>{"airbus", "747"}));
    EXPECT_EQ(labels(), (std::vector<std::int64_t>{0, 1}));
    options_.class_names = {"1", "2", "3"};
    pack("path,label\na.png,1\nb.png,2.0\ndeep/c.png,1.0\n");
    EXPECT_EQ(labels(), (std::vector<std::int64_t>{0, 1, 0}));
    // Among names no number is that of a class.
    options_.class_names = {"707", "cat", "bird"};
    EXPECT_EQ(refused_in("path,label\na.png,707\nb.png,1\n"),
              "3: the label is '1', which is not among the --class-names; correct it, or name all classes");
    EXPECT_EQ(
        refused_in("path,label\na.png,1\nb.png,bird\n"),
        "3: the label is 'bird', but the one before it is not among the --class-names; correct that one, "
        "or name all classes");
    options_.class_names = {"a", "a"};
    EXPECT_EQ(refused("path,label\na.png,a\n"), "2 --class-names has a twice; name each class once");
    options_.class_names.clear();
    EXPECT_EQ(pack("path,label\na.png,nan\nb.png,oak\n").class_names,
              (std::vector<std::string>{"nan", "oak"}));
    EXPECT_EQ(refused("path,label,label\na.png,0,1\n"),
              "2 --label: " + options_.csv + " has two columns label; give each column a name of its own");
}

TEST_F(PackImageList, WhatIsWrongWithAListIsNamedWithItsLine) {
    images();
    EXPECT_EQ(refused_in("file,label\na.png,0\n"),
              "1: there is no column path, nor image_path; name the column with the paths: --path-column "
              "COLUMN");
    EXPECT_EQ(refused_in("path;label\na.png;0\n"),
              "1: there is no column path, nor image_path; its fields seem to be separated otherwise: give "
              "--delimiter ';'");
    const std::string wide("p\0a\0t\0h\0", 8);
    for (const char* mark : {"\xff\xfe", "\xfe\xff"})
        EXPECT_EQ(refused(mark + wide).find("4 " + options_.csv + " is UTF-16, as some spreadsheets"), 0U);
    EXPECT_EQ(refused("\x1f\x8b\x08"),
              "4 " + options_.csv + " is compressed by gzip; unpack it: gzip -d < OLD > NEW");
    EXPECT_EQ(refused("PK\x03\x04").find("4 " + options_.csv + " is a ZIP archive, as spreadsheets (.xlsx"),
              0U);
    EXPECT_EQ(refused("path,label\na.png,Gr\xf6\xdf"
                      "e\n"),
              "4 " + options_.output +
                  ": cannot be written: the class Gr\xef\xbf\xbd\xef\xbf\xbd"
                  "e is not UTF-8; rename the folder that "
                  "it comes from, or convert the table: iconv -f LATIN1 -t UTF-8 OLD > NEW");
    EXPECT_EQ(refused("path,label\ra.png,0\r").find("4 " + options_.csv + ": its lines end with a carriage"),
              0U);
    EXPECT_EQ(
        refused_in("Path,label\na.png,0\n"),
        "1: there is no column path, nor image_path; name the column with the paths: --path-column Path");
    pack(" path , label\na.png,0\n");
    EXPECT_EQ(labels(), std::vector<std::int64_t>{0});
    EXPECT_EQ(refused_in("path,label\na.png,0\n,1\n"),
              "3: column path: there is no path; give the row one, or leave it out");
    EXPECT_EQ(refused_in("path,label\na.png,0\nb.png,\n"),
              "3: column label: there is no label; give the row one, leave it out, or pack without labels: "
              "--no-labels");
    EXPECT_EQ(refused_in("path,label\na.png,0\nb.png,cat\n"),
              "3: the label is 'cat', but the one before it is a number; give all classes names, or number "
              "them from 0 on");
    EXPECT_EQ(refused_in("path,label\na.png,0\nb.png,1.5\n"),
              "3: the label is '1.5'; number the classes from 0 on, at most 999999");
    EXPECT_EQ(refused_in("path,label\na.png,cat\nnone.png,cat\n"),
              "4 " + at("in/none.png") +
                  ": cannot be read as an image: No such file or directory; replace or remove the file, or "
                  "leave such files out with --skip-errors");
    options_.path_column = "file";
    EXPECT_EQ(refused("path,label\n"), "2 --path-column: " + at("list.csv") +
                                           " has no column file; its first line names 2 columns, the first "
                                           "is path");
    options_.path_column.clear();
    options_.label = "labels";
    EXPECT_EQ(refused("path,label\n"),
              "2 --label: " + at("list.csv") + " has no column labels; did you mean label?");
    options_.output = at("in/b.png");
    options_.label.clear();
    EXPECT_EQ(refused("path,label\nb.png,0\n").substr(0, 5), "2 -o ");
}

}  // namespace
}  // namespace tutti
