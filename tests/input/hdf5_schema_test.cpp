#include <gtest/gtest.h>
#include <hdf5.h>

#include "hdf5_file.hpp"
#include "support/files.hpp"
#include "support/temp_dir.hpp"
#include "tutti/input/dataset.hpp"

namespace tutti {
namespace {

using test::Hdf5File;
using test::ImageFile;

struct Wrong {
    const char* what;
    std::function<void(Hdf5File&)> change;
    const char* message;
};

void replace_samples(Hdf5File& f, hid_t type, const std::vector<hsize_t>& dims) {
    f.remove_table("samples");
    f.table("samples", type, type, dims, nullptr);
}

TEST(Hdf5Schema, LabelsMayBeAbsentWhereTheyAreOptional) {
    const test::TempDir directory;
    const std::string path = directory.path() + "/data.h5";
    const auto open = [&](Labels labels) { return open_hdf5_dataset(path, mapped_limit, labels); };
    ImageFile{.change = [](Hdf5File& f) { f.remove_table("labels"); }}.write(path);
    EXPECT_NE(
        test::data_error([&] {
            open(Labels::required);
        }).find("there is no data set /labels, nor /targets; data without labels can only be predicted"),
        std::string::npos);
    const auto bare = open(Labels::optional);
    EXPECT_FALSE(bare->info().labelled);
    EXPECT_EQ(bare->info().classes, 10);
    std::vector<std::int64_t> labels(2, 7);
    const std::vector<std::int64_t> indices{3, 4};
    bare->read_labels(indices, labels);
    EXPECT_EQ(labels, (std::vector<std::int64_t>{0, 0}));
    EXPECT_EQ(test::data_error([&] { bare->read_labels(std::vector<std::int64_t>{20}, labels); }).empty(),
              false);

    ImageFile{.change = [](Hdf5File& f) {
        f.remove_table("labels");
        f.remove_attribute("classes");
    }}.write(path);
    EXPECT_EQ(open(Labels::optional)->info().classes, 0);
    EXPECT_NE(test::data_error([&] {
                  open(Labels::required);
              }).find("nor /targets; data without labels can only be"),
              std::string::npos);

    ImageFile{}.write(path);
    EXPECT_TRUE(open(Labels::optional)->info().labelled);
}

/// HDF5 1.10 keeps a broken list of properties of a data set whose layout it does not know, and its handler
/// at exit goes astray in that. The program does without that handler, too.
[[maybe_unused]] const herr_t without_exit_handler = H5dont_atexit();

TEST(Hdf5Schema, AFormatOfALaterLibraryIsSaidToBeOne) {
    const test::TempDir directory;
    const std::string path = directory.path() + "/data.h5";
    ImageFile{}.write(path);
    // Layout messages (HDF5 File Format Specification, IV.A.2.i) of contiguous data, of 24 bytes: version and
    // class stand behind type, length and flags.
    std::string bytes = test::read_file(path);
    const std::string before{8, 0, 24, 0}, version_and_class{3, 1};
    int changed = 0;
    for (std::size_t at = bytes.find(before); at != std::string::npos; at = bytes.find(before, at + 1)) {
        if (bytes.substr(at + 8, 2) != version_and_class) continue;
        bytes[at + 8] = 99;
        ++changed;
    }
    ASSERT_EQ(changed, 2) << "samples and labels";
    test::write_file(path, bytes);
    const std::string refusal = test::data_error([&] { open_hdf5_dataset(path, mapped_limit); });
    EXPECT_NE(refusal.find("/samples cannot be opened: bad version number"), std::string::npos) << refusal;
    EXPECT_NE(refusal.find("let it write for older ones, in h5py with File(path, 'w', libver="),
              std::string::npos)
        << refusal;
}

TEST(Hdf5Schema, a_data_set_is_known_by_its_mark) {
    const test::TempDir directory;
    const std::string path = directory.path() + "/data.h5";
    EXPECT_FALSE(is_dataset_file(path));
    EXPECT_FALSE(is_dataset_file(directory.path()));
    ImageFile{}.write(path);
    EXPECT_TRUE(is_dataset_file(path));
    ImageFile{.change = [](Hdf5File& f) {
        f.remove_attribute("tutti_schema_version");
        f.integer("tutti_schema_version", 2);
    }}.write(path);
    EXPECT_TRUE(is_dataset_file(path));
    ImageFile{.change = [](Hdf5File& f) { f.remove_attribute("tutti_schema"); }}.write(path);
    EXPECT_FALSE(is_dataset_file(path));
    ImageFile{.change = [](Hdf5File& f) {
        f.remove_attribute("tutti_schema");
        f.integer("tutti_schema", 1);
    }}.write(path);
    EXPECT_FALSE(is_dataset_file(path));
}

TEST(Hdf5Schema, WhatTheSchemaDoesNotAllowIsRefused) {
    const test::TempDir directory;
    const std::string path = directory.path() + "/data.h5";
    const std::vector<Wrong> table = {
        {"no schema", [](Hdf5File& f) { f.remove_attribute("tutti_schema"); },
         "not a Tutti data set: there is no attribute 'tutti_schema'"},
        {"another schema",
         [](Hdf5File& f) {
             f.remove_attribute("tutti_schema");
             f.text("tutti_schema", "checkpoint");
         },
         "'tutti_schema' is 'checkpoint', not 'samples'"},
        {"schema not text",
         [](Hdf5File& f) {
             f.remove_attribute("tutti_schema");
             f.integer("tutti_schema", 1);
         },
         "'tutti_schema' is not text"},
        {"no version", [](Hdf5File& f) { f.remove_attribute("tutti_schema_version"); },
         "no attribute 'tutti_schema_version'"},
        {"wrong version",
         [](Hdf5File& f) {
             f.remove_attribute("tutti_schema_version");
             f.integer("tutti_schema_version", 2);
         },
         "schema version 2, but this program reads version 1"},
        {"no classes", [](Hdf5File& f) { f.remove_attribute("classes"); }, "no attribute 'classes'"},
        {"classes not an integer",
         [](Hdf5File& f) {
             f.remove_attribute("classes");
             f.doubles("classes", {10});
         },
         "'classes' is not one integer"},
        {"zero classes",
         [](Hdf5File& f) {
             f.remove_attribute("classes");
             f.integer("classes", 0);
         },
         "'classes' is 0, but must be 1 or more"},
        {"more classes than anybody counts",
         [](Hdf5File& f) {
             f.remove_attribute("classes");
             f.integer("classes", 2147483647);
         },
         "'classes' is 2147483647, but must be at most 100000000"},
        {"too few names",
         [](Hdf5File& f) {
             f.variable_texts("class_names", {"cat", "dog"}, H5T_CSET_UTF8);
         },
         "'class_names' has 2 names, but 'classes' is 10"},
        {"no samples", [](Hdf5File& f) { f.remove_table("samples"); }, "there is no data set /samples"},
        {"samples are a group",
         [](Hdf5File& f) {
             f.remove_table("samples");
             H5Gclose(H5Gcreate2(f.id(), "samples", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
         },
         "/samples cannot be opened: not a dataset"},
        {"images without channels",
         [](Hdf5File& f) {
             replace_samples(f, H5T_STD_U8LE, {20, 4, 3});
         },
         "/samples is uint8 [20, 4, 3], but must be uint8 [N, H, W, C] for images, float32 [N, F] for "
         "features or float32 [N, T, F] for sequences: grey images have C = 1, one dimension more; "},
        {"signed bytes",
         [](Hdf5File& f) {
             replace_samples(f, H5T_STD_I8LE, {20, 4, 3, 2});
         },
         " for sequences: convert the pixels to bytes from 0 to 255, in h5py with astype('uint8'); "},
        {"pixels of 16 bits",
         [](Hdf5File& f) {
             replace_samples(f, H5T_STD_U16LE, {20, 4, 3, 2});
         },
         " for sequences: scale the pixels to bytes from 0 to 255, those of all 16 bits in h5py with "
         "(samples >> "
         "8).astype('uint8'); astype alone is for pixels that are at most 255; "},
        {"pixels of floats",
         [](Hdf5File& f) {
             replace_samples(f, H5T_IEEE_F32LE, {20, 4, 3, 2});
         },
         " for sequences: pixels are stored as bytes from 0 to 255, and divided by 255 as they are read: "
         "those of floats from 0 to 1 are stored in h5py as (samples * 255).round().astype('uint8'); "},
        {"doubles",
         [](Hdf5File& f) {
             replace_samples(f, H5T_IEEE_F64LE, {20, 6});
         },
         " for sequences: convert the features, in h5py with astype('float32'); "},
        {"empty images",
         [](Hdf5File& f) {
             replace_samples(f, H5T_STD_U8LE, {20, 4, 0, 2});
         },
         "the shape [4, 0, 2], with nothing in it"},
        {"label count",
         [](Hdf5File& f) {
             f.remove_table("labels");
             f.table("labels", H5T_STD_U8LE, H5T_STD_U8LE, {19}, nullptr);
         },
         "/labels has 19 entries, but /samples has 20"},
        {"labels of two columns",
         [](Hdf5File& f) {
             f.remove_table("labels");
             f.table("labels", H5T_STD_U8LE, H5T_STD_U8LE, {20, 2}, nullptr);
         },
         "/labels is uint8 [20, 2], but must be integers [N], one for each sample: of a row per class store "
         "where "
         "it is largest; "},
        {"labels in a column",
         [](Hdf5File& f) {
             f.remove_table("labels");
             f.table("labels", H5T_STD_U8LE, H5T_STD_U8LE, {20, 1}, nullptr);
         },
         "/labels is uint8 [20, 1], but must be integers [N], with one dimension less: store them in h5py as "
         "labels[:, 0]; "},
        {"labels are floats",
         [](Hdf5File& f) {
             f.remove_table("labels");
             f.table("labels", H5T_IEEE_F32LE, H5T_IEEE_F32LE, {20}, nullptr);
         },
         "/labels is float32 [20], but must be integers [N]: convert them, in h5py with astype('int64'); "},
        {"mean of the wrong length",
         [](Hdf5File& f) {
             f.doubles("mean", {0.5});
             f.doubles("std", {1, 1});
         },
         "'mean' has 1 entries, but samples have 2 channels"},
        {"std of the wrong length",
         [](Hdf5File& f) {
             f.doubles("mean", {0.5, 0.5});
             f.doubles("std", {1, 1, 1});
         },
         "'std' has 3 entries, but samples have 2 channels"},
        {"frames that do not divide the channels", [](Hdf5File& f) { f.integer("frames", 3); },
         "'frames' is 3, but samples have the shape [4, 3, 2], which are no clips of that many"},
        {"std of zero",
         [](Hdf5File& f) {
             f.doubles("mean", {0.5, 0.5});
             f.doubles("std", {1, 0});
         },
         "'std' has an entry that is not positive"},
        {"mean alone",
         [](Hdf5File& f) {
             f.doubles("mean", {0.5, 0.5});
         },
         "without the other"},
    };
    for (const Wrong& wrong : table) {
        ImageFile file;
        file.change = wrong.change;
        file.write(path);
        const std::string message = test::data_error([&] { open_hdf5_dataset(path); });
        EXPECT_EQ(message.find(path + ": "), 0U) << message;
        EXPECT_EQ(message.find('\n'), std::string::npos) << message;
        EXPECT_NE(message.find(wrong.message), std::string::npos) << wrong.what << ": " << message;
        EXPECT_NE(message.find("; pack it again with: trainer pack idx"), std::string::npos) << message;
    }
}

}  // namespace
}  // namespace tutti
