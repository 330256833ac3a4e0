// Tables: columns, labels, names, and what is wrong with them.
#include <gtest/gtest.h>

#include <filesystem>
#include <numeric>
#include <vector>

#include "pack_helpers.hpp"
#include "tutti/input/pack.hpp"

namespace tutti {
namespace {

namespace fs = std::filesystem;
using test::Pack;

class PackCsv : public Pack {
  protected:
    void SetUp() override {
        options_.csv = at("in.csv");
        options_.output = at("out.h5");
        options_.label = "y";
    }
    std::string refused(const std::string& text) {
        write("in.csv", text);
        return refusal([&] { pack_csv(options_); });
    }
    std::vector<float> features(const Dataset& data, std::int64_t index) const {
        std::vector<float> values(static_cast<std::size_t>(data.info().sample_shape.count()));
        std::vector<std::int64_t> labels(1);
        data.read(std::vector{index}, std::as_writable_bytes(std::span(values)), labels);
        return values;
    }
    std::vector<std::int64_t> labels(const Dataset& data) const {
        std::vector<std::int64_t> indices, result(static_cast<std::size_t>(data.info().samples));
        for (std::int64_t i = 0; i < data.info().samples; ++i) indices.push_back(i);
        data.read_labels(indices, result);
        return result;
    }
    PackCsvOptions options_;
};

TEST_F(PackCsv, ColumnsBecomeFeaturesAndNamesClasses) {
    write("in.csv",
          "\xef\xbb\xbf"
          "a,y,\"b,c\",id\r\n1.5,wolf,-2e3,x\r\n\r\n+3,\"ape\n\",4,\"y\"\"\"\r\n 0 ,wolf,7,z");
    options_.drop = {"id"};
    pack_csv(options_);
    const auto data = open_hdf5_dataset(options_.output);
    EXPECT_EQ(data->info().sample_shape, (Shape{2}));
    EXPECT_EQ(data->info().dtype, DType::f32);
    EXPECT_EQ(data->info().class_names, (std::vector<std::string>{"ape\n", "wolf"}));
    EXPECT_EQ(labels(*data), (std::vector<std::int64_t>{1, 0, 1}));
    EXPECT_EQ(features(*data, 0), (std::vector{1.5F, -2000.F}));
    EXPECT_EQ(features(*data, 1), (std::vector{3.F, 4.F}));
    EXPECT_EQ(features(*data, 2), (std::vector{0.F, 7.F}));
}

TEST_F(PackCsv, WholeNumbersAreLabelsAsTheyAre) {
    write("in.csv", "y;x\n10;1\n2;2\n");
    options_.delimiter = ';';
    const DatasetInfo info = pack_csv(options_);
    EXPECT_EQ(info.classes, 11);
    EXPECT_EQ(labels(*open_hdf5_dataset(options_.output)), (std::vector<std::int64_t>{10, 2}));
    write("in.csv", "y;x\n1;1\n0;2\n");
    options_.class_names = {"no", "yes"};
    EXPECT_EQ(pack_csv(options_).class_names, (std::vector<std::string>{"no", "yes"}));
    options_.class_names = {"no"};
    EXPECT_EQ(
        refusal([&] { pack_csv(options_); }),
        "2 --class-names gives 1 name, but the column y has 2 classes; give one name per class, or none");
}

// As programs write a column of whole numbers that had blanks.
TEST_F(PackCsv, WholeNumbersMayHaveAFractionOfZero) {
    std::string table = "y,x\n";
    for (int label = 0; label < 12; ++label)
        table += std::to_string(label) + (label % 2 ? "" : ".0") + ",1\n";
    write("in.csv", table);
    std::vector<std::string> said;
    const DatasetInfo info = pack_csv(options_, [&](const std::string& text) { said.push_back(text); });
    EXPECT_EQ(info.classes, 12);
    EXPECT_EQ(info.class_names[10], "10");
    EXPECT_EQ(labels(*open_hdf5_dataset(options_.output)),
              (std::vector<std::int64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}));
    EXPECT_EQ(said, std::vector<std::string>());
    write("in.csv", "y,x\n10.5,1\n9,2\n-3,2\n");
    EXPECT_EQ(pack_csv(options_).class_names, (std::vector<std::string>{"-3", "9", "10.5"})) << "by value";
    write("in.csv", "y,x\nnan,1\n9,2\n");
    EXPECT_EQ(pack_csv(options_).class_names, (std::vector<std::string>{"9", "nan"}));
}

TEST_F(PackCsv, NamesHaveTheirPlacesAmongTheClassNames) {
    write("in.csv", "y,x\ndog,1\n bird ,2\ndog,3\n");
    options_.class_names = {"cat", "dog", "bird"};
    const DatasetInfo info = pack_csv(options_);
    EXPECT_EQ(info.class_names, options_.class_names);
    EXPECT_EQ(info.classes, 3);
    EXPECT_EQ(labels(*open_hdf5_dataset(options_.output)), (std::vector<std::int64_t>{1, 2, 1}));
    // Also where they look like numbers, whichever of them a table has.
    options_.class_names = {"1", " 2", "3", "unknown"};
    write("in.csv", "y,x\n3,1\nunknown,2\n1,3\n");
    pack_csv(options_);
    EXPECT_EQ(labels(*open_hdf5_dataset(options_.output)), (std::vector<std::int64_t>{2, 3, 0}));
    write("in.csv", "y,x\n2,1\n1,2\n");
    EXPECT_EQ(pack_csv(options_).class_names, (std::vector<std::string>{"1", "2", "3", "unknown"}));
    EXPECT_EQ(labels(*open_hdf5_dataset(options_.output)), (std::vector<std::int64_t>{1, 0}));
    write("in.csv", "y,x\n2.0,1\n1.0,2\n2,2\n");
    pack_csv(options_);
    EXPECT_EQ(labels(*open_hdf5_dataset(options_.output)), (std::vector<std::int64_t>{1, 0, 1}));
    // And then all are names.
    for (const char* outside : {"0", "4", "1.5"}) {
        write("in.csv", std::string("y,x\n2,1\n") + outside + ",2\n");
        EXPECT_EQ(refusal([&] { pack_csv(options_); }),
                  "4 " + at("in.csv") + ":3: the column y has the label " + outside +
                      ", which is not among the --class-names; correct it, or name all classes");
    }
    options_.class_names = {"dog", " dog"};
    EXPECT_EQ(refusal([&] { pack_csv(options_); }), "2 --class-names has dog twice; name each class once");
    write("in.csv", "y,x\ndog,1\n bird ,2\ndog,3\n");
    options_.class_names = {"cat", "dog"};
    EXPECT_EQ(refusal([&] { pack_csv(options_); }),
              "4 " + at("in.csv") +
                  ":3: the column y has the label bird, which is not among the --class-names; correct it, or "
                  "name all classes");
}

TEST_F(PackCsv, WhatIsWrongIsNamedWithItsLine) {
    EXPECT_EQ(refused("x,y\n1,0\nabc,1\n"),
              "4 " + at("in.csv") +
                  ":3: column x: 'abc' is not a number; leave the column out with "
                  "--drop x, or correct it");
    EXPECT_FALSE(fs::exists(options_.output));
    EXPECT_EQ(
        refused("x,y\n1,0\n\n1\n"),
        "4 " + at("in.csv") +
            ":4: 1 fields, but the first line names 2 columns; correct the line; a field that holds the "
            "delimiter must be in \"quotes\"");
    EXPECT_EQ(refused("x,y\n1,\n"), "4 " + at("in.csv") +
                                        ":2: column y: there is no label; give the row one, leave it out, or "
                                        "pack without labels: --no-labels");
    EXPECT_EQ(refused("x,y\n1,0\n2, \n"), refused("x,y\n1,0\n2,\n"));
    EXPECT_EQ(refused("x,y\n\"1\"2,0\n"),
              "4 " + at("in.csv") +
                  ":2: there is text after a closing quote; double the quotes inside a quoted field");
    EXPECT_EQ(
        refused("x,y\ninf,0\n"),
        "4 " + at("in.csv") + ":2: column x: inf is not a finite number of 32 bits; features must be finite");
    EXPECT_EQ(refused("x,y\n\"1,0\n"),
              "4 " + at("in.csv") + ":2: a quote is not closed; close it, or double it");
    EXPECT_EQ(refused("width,Label\n1,0\n"),
              "2 --label: " + at("in.csv") +
                  " has no column y; its first line names 2 columns, the first is width");
    EXPECT_EQ(refused("y\n1\n"),
              "4 " + at("in.csv") + ": there is no column beside the label; give data with features");
    EXPECT_EQ(refused("x,y\n"), "4 " + at("in.csv") + ": there are no rows; give data that have some");
    EXPECT_EQ(refused(""), "4 " + at("in.csv") + ": the file is empty; its first line must name the columns");
    fs::remove(at("in.csv"));
    EXPECT_EQ(
        refusal([&] { pack_csv(options_); }),
        "4 " + at("in.csv") + ": cannot be read: No such file or directory; check the path given with --csv");
}

TEST_F(PackCsv, WhatIsMissingAndWhatIsTrueHaveARemedy) {
    const std::string place = "4 " + at("in.csv") + ":2: column a b: ",
                      drop = "leave the column out with --drop 'a b'",
                      fill =
                          "; fill what is missing, in pandas with fillna, leave such rows out, with "
                          "dropna, or " +
                          drop;
    for (const std::string text : {"", " ", "NA", "None", "?"})
        EXPECT_EQ(refused("a b,y\n" + text + ",0\n"), place + "'" + text + "' is not a number" + fill);
    EXPECT_EQ(refused("a b,y\nnan,0\n"), place + "nan is not a finite number of 32 bits" + fill);
    for (const std::string text : {"True", "false"})
        EXPECT_EQ(
            refused("a b,y\n" + text + ",0\n"),
            place + "'" + text + "' is not a number; store 1 and 0, in pandas with astype(int), or " + drop);
}

TEST_F(PackCsv, AColumnWithoutANameIsWarnedOfAndCanBeDropped) {
    std::vector<std::string> said;
    const auto note = [&](const std::string& text) { said.push_back(text); };
    write("in.csv", ",x,y\n0,5,0\n1,6,1\n");
    EXPECT_EQ(pack_csv(options_, note).sample_shape, Shape{2});
    const std::string remedy =
        " becomes a feature; if it only counts the rows, as pandas' to_csv() does unless index=False, leave "
        "it out with --drop ";
    EXPECT_EQ(said, std::vector{at("in.csv") + ": column 1 (without a name)" + remedy + "''"});
    write("in.csv", "Unnamed: 0,x,y\n0,5,0\n1,6,1\n");
    pack_csv(options_, note);
    EXPECT_EQ(said.back(), at("in.csv") + ": column Unnamed: 0" + remedy + "'Unnamed: 0'");
    EXPECT_EQ(refused("x,y,\n5,0,\n"),
              "4 " + at("in.csv") +
                  ":2: column 3 (without a name): '' is not a number; leave the column out with "
                  "--drop '', or give it a name");
    EXPECT_EQ(refused(",x,y,\n1,5,0,\n"),
              "4 " + at("in.csv") + ":1: two columns have no name; give each column a name of its own");
    options_.drop = {""};
    said.clear();
    for (const char* const text : {",x,y\n0,5,0\n1,6,1\n", "x,y,\n5,0,\n6,1,\n"}) {
        write("in.csv", text);
        EXPECT_EQ(pack_csv(options_, note).feature_names, std::vector<std::string>{"x"});
    }
    EXPECT_EQ(said, std::vector<std::string>{});
    EXPECT_EQ(refused("x,y\n5,0\n"), "2 --drop: " + at("in.csv") +
                                         " has no column without a name; leave --drop '' out; is a variable "
                                         "of a script not set?");
}

TEST_F(PackCsv, NumbersThatAreAlmostNothingAreZero) {
    write("in.csv", "x,y\n1e-400,0\n1e-50,1\n");
    pack_csv(options_);
    const auto data = open_hdf5_dataset(at("out.h5"));
    for (const std::int64_t row : {0, 1}) EXPECT_EQ(features(*data, row), std::vector<float>{0});
}

TEST_F(PackCsv, ADataSetIsNoTable) {
    EXPECT_EQ(refused("\x89HDF\r\n"),
              "4 " + at("in.csv") +
                  " is an HDF5 file, not a table; give the table; what is in the file "
                  "says: trainer inspect " +
                  at("in.csv"));
}

TEST_F(PackCsv, ZeroBytesAreRefusedWithTheirLine) {
    const std::string remedy =
        ": there is a zero byte, as in no text; correct the line; a file in UTF-16 is converted by: iconv -f "
        "UTF-16LE -t UTF-8 OLD > NEW";
    using namespace std::string_literals;
    EXPECT_EQ(refused("x,y\n1,a\n2,b\0c\n"s), "4 " + at("in.csv") + ":3" + remedy);
    EXPECT_EQ(refused("x,y\n1,\"a\nb\0\"\n"s), "4 " + at("in.csv") + ":3" + remedy);
    EXPECT_EQ(refused("x\0,\0y\0\n\0"s), "4 " + at("in.csv") + ":1" + remedy);
}

TEST_F(PackCsv, ATableWithAnotherDelimiterSaysWhich) {
    const std::string remedy = "its fields seem to be separated otherwise: give --delimiter ';'";
    EXPECT_EQ(refused("x;y\n1;0\n"), "2 --label: " + at("in.csv") + " has no column y; " + remedy);
    options_.labelled = false;
    EXPECT_EQ(refused("x;y\n1;0\n"),
              "4 " + at("in.csv") + ":2: column x;y: '1;0' is not a number; " + remedy);
    EXPECT_EQ(refused("x;y\n1,5;0\n"),
              "4 " + at("in.csv") + ":2: 2 fields, but the first line names 1 columns; " + remedy);
}

TEST_F(PackCsv, ColumnsThatAreNamedTwiceOrDroppedAsLabelsAreRefused) {
    EXPECT_EQ(refused("x,y,x\n1,0,2\n"),
              "4 " + at("in.csv") + ":1: two columns have the name 'x'; give each column a name of its own");
    options_.drop = {"y"};
    EXPECT_EQ(refused("x,y\n1,0\n"),
              "2 --drop y leaves out the column of --label; drop another column, or pack without labels: "
              "--no-labels");
}

TEST_F(PackCsv, NumbersThatAreNoClassesAreRefused) {
    const std::string remedy =
        "; labels are classes from 0 on, at most 999999; number them so, or give names";
    EXPECT_EQ(refused("x,y\n1,1\n2,-1\n3,-1\n"),
              "4 " + at("in.csv") + ":3: the column y has the label -1" + remedy);
    EXPECT_EQ(refused("x,y\n1,0\n2,1000000\n"),
              "4 " + at("in.csv") + ":3: the column y has the label 1000000" + remedy);
    EXPECT_EQ(refused("x,y\n1,99999999999999999999\n2,0\n"),
              "4 " + at("in.csv") + ":2: the column y has the label 99999999999999999999" + remedy);
}

TEST_F(PackCsv, LabelsThatSurpriseAreWarnedOf) {
    std::vector<std::string> said;
    const auto note = [&](const std::string& text) { said.push_back(text); };
    write("in.csv", "x,y\n1,0\n2,b\n3,-1\n");
    EXPECT_EQ(pack_csv(options_, note).class_names, (std::vector<std::string>{"-1", "0", "b"}));
    write("in.csv", "x,y\n1,0\n2,1000\n");
    EXPECT_EQ(pack_csv(options_, note).classes, 1001);
    const std::string remedy =
        "; where numbers are to be predicted and not classes, give --target y in place of --label";
    EXPECT_EQ(said,
              (std::vector{at("in.csv") + ": 2 of the 3 labels of the column y are numbers, but not all "
                                          "are whole ones: they are taken as names",
                           at("in.csv") +
                               ": the column y has labels up to 1000, but only 2 of these "
                               "classes have samples" +
                               remedy}));
    write("in.csv", "x,y\n1,0.5\n2,1\n");
    EXPECT_EQ(pack_csv(options_, note).classes, 2);
    EXPECT_EQ(said.back(), at("in.csv") +
                               ": 2 of the 2 labels of the column y are numbers, but not all are "
                               "whole ones: they are taken as names" +
                               remedy);
    said.pop_back();
    write("in.csv", "x,y\n1,0\n2,1\n3,3\n");
    pack_csv(options_, note);
    EXPECT_EQ(said.size(), 2U);
    write("in.csv", "x,y\n1, b\n2,a \n3,b\n");
    EXPECT_EQ(pack_csv(options_, note).class_names, (std::vector<std::string>{"a", "b"}));
    EXPECT_EQ(said.size(), 2U);
}

TEST_F(PackCsv, TargetsAreColumnsInTheOrderTheyAreNamed) {
    write("in.csv", "a,y,b,x\n1,10,2,20\n3,,4,40\n5,nan,6,60\n7,70,8,80\n9,90,10,100\n");
    options_.targets = {"x", "y"};
    options_.keep = {{"a", "1"}, {"a", "3.0"}, {"a", "5"}, {"a", "7"}};
    RowCounts left_out;
    const DatasetInfo info = pack_csv(options_, {}, &left_out);
    EXPECT_EQ(info.samples, 2);
    EXPECT_EQ(left_out.not_kept, 1);
    EXPECT_EQ(left_out.without_target, 2);
    const auto data = open_hdf5_dataset(options_.output);
    EXPECT_EQ(data->info().targets, 2);
    EXPECT_EQ(data->info().target_names, (std::vector<std::string>{"x", "y"}));
    EXPECT_FALSE(data->info().labelled);
    EXPECT_EQ(std::vector(data->targets().begin(), data->targets().end()),
              (std::vector{20.F, 10.F, 80.F, 70.F}));
    EXPECT_EQ(features(*data, 0), (std::vector{1.F, 2.F}));
    EXPECT_EQ(features(*data, 1), (std::vector{7.F, 8.F}));
}

TEST_F(PackCsv, ClassesAreThoseOfTheRowsToKeep) {
    write("in.csv", "x,y,split\n1,wolf,train\n2,,val\n3,ape,val\n4,bear, train\nnone,wolf,test\n");
    options_.keep = {{"split", "train"}};
    options_.drop = {"split"};
    RowCounts left_out;
    EXPECT_EQ(pack_csv(options_, {}, &left_out).class_names, (std::vector<std::string>{"bear", "wolf"}));
    EXPECT_EQ(left_out.not_kept, 3);
    EXPECT_EQ(labels(*open_hdf5_dataset(options_.output)), (std::vector<std::int64_t>{1, 0}));
    options_.keep = {{"split", "none"}};
    EXPECT_EQ(
        refusal([&] { pack_csv(options_); }),
        "4 " + at("in.csv") +
            ": of 5 rows none is left: --keep leaves out 5, and 0 have no finite target; check --keep and "
            "--target");
}

TEST_F(PackCsv, ManyTargetsAreWrittenInPieces) {
    // Pieces end at 4 MiB: with 20 features each has 52429 rows.
    std::string text = "t";
    for (int i = 0; i < 20; ++i) text += ",f" + std::to_string(i);
    for (int row = 0; row < 60000; ++row)
        text += "\n" + std::to_string(row) + ",0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0";
    write("in.csv", text);
    options_.targets = {"t"};
    pack_csv(options_);
    const auto data = open_hdf5_dataset(options_.output);
    ASSERT_EQ(data->targets().size(), 60000U);
    for (std::size_t row = 0; row < 60000; ++row) ASSERT_EQ(data->targets()[row], static_cast<float>(row));
}

TEST_F(PackCsv, ManyLabelsAreWrittenInPieces) {
    std::string text = "y";
    for (int i = 0; i < 20; ++i) text += ",f" + std::to_string(i);
    for (int row = 0; row < 60000; ++row)
        text += "\n" + std::to_string(row % 7) + ",0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0";
    write("in.csv", text);
    pack_csv(options_);
    std::vector<std::int64_t> indices(60000), labels(60000);
    std::iota(indices.begin(), indices.end(), std::int64_t{0});
    open_hdf5_dataset(options_.output)->read_labels(indices, labels);
    for (std::size_t row = 0; row < 60000; ++row) ASSERT_EQ(labels[row], static_cast<std::int64_t>(row % 7));
}

TEST_F(PackCsv, TargetsThatCannotBeAreRefused) {
    options_.targets = {"y"};
    options_.drop = {"y"};
    EXPECT_EQ(
        refused("x,y\n1,0\n"),
        "2 --drop y leaves out a column of --target; drop another column, or do not name it as a target");
    options_.drop.clear();
    EXPECT_EQ(refused("y\n1\n"),
              "4 " + at("in.csv") + ": there is no column beside the targets; give data with features");
    EXPECT_EQ(refused("x,y\n1,0\n2,far\n").substr(0, 4 + at("in.csv").size()), "4 " + at("in.csv") + ":3");
    EXPECT_FALSE(fs::exists(options_.output));
}

TEST_F(PackCsv, WithoutLabelsTheFileHasNone) {
    write("in.csv", "x,y\n1,0\n2,5\n");
    options_.labelled = false;
    pack_csv(options_);
    EXPECT_EQ(refusal([&] { open_hdf5_dataset(options_.output); }),
              "4 " + options_.output +
                  ": there is no data set /labels, nor /targets; data without labels can only be predicted "
                  "(trainer predict)");
    const auto data = open_hdf5_dataset(options_.output, mapped_limit, Labels::optional);
    EXPECT_FALSE(data->info().labelled);
    EXPECT_EQ(data->info().classes, 0);
    EXPECT_EQ(data->info().samples, 2);
    EXPECT_EQ(features(*data, 1), (std::vector{2.F, 5.F}));
    options_.class_names = {"no", "yes"};
    EXPECT_EQ(pack_csv(options_).classes, 2);
}

}  // namespace
}  // namespace tutti
