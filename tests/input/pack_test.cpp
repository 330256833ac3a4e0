#include "tutti/input/pack.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <iterator>
#include <limits>
#include <numeric>

#include "hdf5_file.hpp"
#include "idx_files.hpp"
#include "input/dataset_writer.hpp"
#include "input/hdf5_attributes.hpp"
#include "support/error_message.hpp"
#include "support/files.hpp"
#include "support/temp_dir.hpp"

namespace tutti {
namespace {

namespace fs = std::filesystem;
using test::data_error;
using test::read_file;

std::ptrdiff_t entries_in(const std::string& directory) {
    return std::distance(fs::directory_iterator(directory), fs::directory_iterator());
}

DatasetInfo image_info(std::int64_t samples) {
    DatasetInfo info;
    info.samples = samples;
    info.sample_shape = {2, 3, 1};
    info.classes = 3;
    return info;
}

/// Of one piece.
void write_hdf5_dataset(const std::string& path, const DatasetInfo& info, std::span<const std::byte> samples,
                        std::span<const std::int64_t> labels, const std::string& source,
                        std::span<const float> targets = {}) {
    DatasetWriter writer(path, info, source);
    writer.append(samples, labels, targets);
    writer.commit();
}

class WriteHdf5Dataset : public testing::Test {
  protected:
    const std::string& directory() const { return dir_.path(); }
    std::string path() const { return dir_.path() + "/data.h5"; }

    void write(const DatasetInfo& info) const {
        const std::vector<std::byte> samples(static_cast<std::size_t>(info.samples * info.sample_bytes()),
                                             std::byte{7});
        write_hdf5_dataset(path(), info, samples,
                           std::vector<std::int64_t>(static_cast<std::size_t>(info.samples), 1),
                           "made by a test");
    }

  private:
    test::TempDir dir_;
};

TEST_F(WriteHdf5Dataset, TargetsAreReadBack) {
    DatasetInfo info = image_info(3);
    info.labelled = false;
    info.classes = 0;
    info.targets = 2;
    info.target_names = {"x", "y"};
    const std::vector<std::byte> samples(18, std::byte{7});
    std::vector<float> targets{1, 2, 3, 4, 5, 6};
    write_hdf5_dataset(path(), info, samples, {}, "", targets);
    const auto data = open_hdf5_dataset(path());
    EXPECT_EQ(data->info().target_names, info.target_names);
    EXPECT_EQ(std::vector(data->targets().begin(), data->targets().end()), targets);
    const auto refusal = [&] {
        return data_error([&] { write_hdf5_dataset(path(), info, samples, {}, "", targets); });
    };
    targets[3] = std::numeric_limits<float>::infinity();
    EXPECT_EQ(refusal(), path() + ": sample 1 has the value inf as target 1 (y)");
    targets.pop_back();
    EXPECT_CONTAINS(refusal(), "5 targets are not 2 for each of 3 samples");
    info.target_names = {"x"};
    EXPECT_CONTAINS(refusal(), "'target_names' has 1 names, but samples have 2 targets");
    info.labelled = true;
    EXPECT_CONTAINS(refusal(), "samples have both labels and targets");
    info.targets = -1;
    EXPECT_CONTAINS(refusal(), "the number of targets is -1");
}

TEST_F(WriteHdf5Dataset, ReadsBackWhatWasWritten) {
    DatasetInfo info = image_info(100);
    info.class_names = {"cat", "dog", "Bär"};
    info.mean = {0.5F};
    info.std = {0.25F};
    std::vector<std::byte> samples(600);
    for (std::size_t i = 0; i < samples.size(); ++i) samples[i] = static_cast<std::byte>(i % 251);
    std::vector<std::int64_t> labels(100);
    for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<std::int64_t>(i % 3);
    write_hdf5_dataset(path(), info, samples, labels, "made by a test");

    const std::unique_ptr<Dataset> dataset = open_hdf5_dataset(path());
    EXPECT_EQ(dataset->info().samples, 100);
    EXPECT_EQ(dataset->info().sample_shape, info.sample_shape);
    EXPECT_EQ(dataset->info().dtype, DType::u8);
    EXPECT_EQ(dataset->info().classes, 3);
    EXPECT_EQ(dataset->info().class_names, info.class_names);
    EXPECT_EQ(dataset->info().mean, info.mean);
    EXPECT_EQ(dataset->info().std, info.std);
    std::vector<std::int64_t> indices(100), read_labels(100);
    std::iota(indices.begin(), indices.end(), 0);
    std::vector<std::byte> read(600);
    dataset->read(indices, read, read_labels);
    EXPECT_EQ(read, samples);
    EXPECT_EQ(read_labels, labels);
    const hdf5::File file{hdf5::Handle(H5Fopen(path().c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), H5Fclose),
                          path()};
    EXPECT_EQ(hdf5::read_text(file, "source"), "made by a test");
}

TEST_F(WriteHdf5Dataset, WritesMoreThanOnePiece) {
    DatasetInfo info = image_info(9);
    info.dtype = DType::f32;
    info.sample_shape = {400000};  // 1.6 MB each, two a piece
    std::vector<float> samples(9 * 400000);
    std::iota(samples.begin(), samples.end(), 0.0F);
    write_hdf5_dataset(path(), info, std::as_bytes(std::span(samples)), std::vector<std::int64_t>(9, 2), "");
    const std::unique_ptr<Dataset> dataset = open_hdf5_dataset(path());
    std::vector<float> read(samples.size());
    std::vector<std::int64_t> indices(9), labels(9);
    std::iota(indices.begin(), indices.end(), 0);
    dataset->read(indices, std::as_writable_bytes(std::span(read)), labels);
    EXPECT_EQ(read, samples);
}

TEST_F(WriteHdf5Dataset, HoldsNoSamplesAtAll) {
    write(image_info(0));
    EXPECT_EQ(open_hdf5_dataset(path())->info().samples, 0);
}

TEST_F(WriteHdf5Dataset, HoldsMoreClassNamesThanASmallAttribute) {
    DatasetInfo info = image_info(1);
    info.classes = 30000;
    for (int i = 0; i < 30000; ++i) info.class_names.push_back("class number " + std::to_string(i));
    write(info);
    EXPECT_EQ(open_hdf5_dataset(path())->info().class_names, info.class_names);
}

TEST_F(WriteHdf5Dataset, SameDataGiveTheSameBytes) {
    write(image_info(10));
    const std::string first = read_file(path());
    write(image_info(10));
    EXPECT_TRUE(read_file(path()) == first);
}

TEST_F(WriteHdf5Dataset, LeavesNothingBesideTheFile) {
    write(image_info(10));
    EXPECT_EQ(entries_in(directory()), 1);
}

TEST_F(WriteHdf5Dataset, FailureLeavesTheOldFileAndNothingElse) {
    test::write_plain(path(), "old");
    const DatasetInfo info = image_info(2);
    const std::vector<std::byte> samples(12);
    const std::string message = data_error([&] {
        write_hdf5_dataset(path(), info, samples, std::vector<std::int64_t>{0, 3}, "");
    });
    EXPECT_CONTAINS(message, "sample 1 has label 3");
    EXPECT_THROW(write_hdf5_dataset(path(), info, samples, std::vector<std::int64_t>{0}, ""), DataError);
    EXPECT_EQ(read_file(path()), "old");
    EXPECT_EQ(entries_in(directory()), 1);
}

TEST_F(WriteHdf5Dataset, DirectoryInPlaceOfTheFileIsRefused) {
    fs::create_directory(path());
    EXPECT_CONTAINS(data_error([this] { write(image_info(1)); }), "it is a directory");
}

TEST_F(WriteHdf5Dataset, PathThroughAFileIsRefused) {
    test::write_plain(path(), "a file, not a directory");
    const std::string below = path() + "/more/data.h5";
    EXPECT_CONTAINS(data_error([&] { write_hdf5_dataset(below, image_info(0), {}, {}, ""); }),
                    below + ": its directory cannot be made: ");
}

TEST_F(WriteHdf5Dataset, WhatTheSchemaDoesNotAllowIsRefused) {
    DatasetInfo info = image_info(1);
    info.classes = 0;
    EXPECT_CONTAINS(data_error([&] { write(info); }), "'classes' is 0");
    info = image_info(-1);
    EXPECT_CONTAINS(data_error([&] { write_hdf5_dataset(path(), info, {}, {}, ""); }),
                    "number of samples is -1");
    info = image_info(1);
    info.sample_shape = {4, 4};
    EXPECT_CONTAINS(data_error([&] { write(info); }), "u8 of shape [4, 4]");
    EXPECT_EQ(entries_in(directory()), 0);
}

class PackIdx : public testing::Test {
  protected:
    std::string path(const std::string& name) const { return dir_.path() + "/" + name; }
    PackIdxOptions options() const {
        PackIdxOptions options;
        options.images = path("images");
        options.labels = path("labels");
        options.output = path("new/folder/out.h5");
        return options;
    }
    std::string pack_error(const PackIdxOptions& options) const {
        const std::string message = data_error([&] { pack_idx(options); });
        EXPECT_FALSE(fs::exists(options.output));
        EXPECT_TRUE(!fs::exists(path("new/folder")) || entries_in(path("new/folder")) == 0);
        return message;
    }

  private:
    test::TempDir dir_;
};

TEST_F(PackIdx, WritesWhatItReports) {
    test::write_gzip(path("images"), test::idx_images(10, 4, 3));
    test::write_plain(path("labels"), test::idx_labels(10, 4));
    PackIdxOptions with_mean = options();
    with_mean.mean = {0.5F};
    with_mean.std = {0.25F};
    const DatasetInfo info = pack_idx(with_mean);
    EXPECT_EQ(info.samples, 10);
    EXPECT_EQ(info.sample_shape, (Shape{4, 3, 1}));
    EXPECT_EQ(info.classes, 4);
    EXPECT_EQ(info.class_names, (std::vector<std::string>{"0", "1", "2", "3"}));

    const std::unique_ptr<Dataset> dataset = open_hdf5_dataset(with_mean.output);
    EXPECT_EQ(dataset->info().class_names, info.class_names);
    EXPECT_EQ(dataset->info().mean, with_mean.mean);
    std::vector<std::byte> samples(24);
    std::vector<std::int64_t> labels(2);
    dataset->read(std::vector<std::int64_t>{9, 5}, samples, labels);
    EXPECT_EQ(labels, (std::vector<std::int64_t>{1, 1}));
    EXPECT_EQ(static_cast<int>(samples[0]), 9 * 12);
    EXPECT_EQ(static_cast<int>(samples[23]), 5 * 12 + 11);
}

TEST_F(PackIdx, ClassesAreThoseNamed) {
    test::write_plain(path("images"), test::idx_images(4, 2, 2));
    test::write_plain(path("labels"), test::idx_labels(4, 2));
    PackIdxOptions named = options();
    named.class_names = {"a", "b", "c"};
    EXPECT_EQ(pack_idx(named).classes, 3);
    named.class_names = {"a", "b", " a"};
    EXPECT_EQ(test::message_of<UsageError>([&] { pack_idx(named); }),
              "--class-names has a twice; name each class once");
}

TEST_F(PackIdx, LabelBeyondTheNamesIsNamed) {
    test::write_plain(path("images"), test::idx_images(4, 2, 2));
    test::write_plain(path("labels"), test::idx_labels(4, 4));
    PackIdxOptions named = options();
    named.class_names = {"a", "b", "c"};
    EXPECT_EQ(pack_error(named),
              path("labels") + ": sample 3 has label 3, but 3 class names are given; give 4 names, or none");
}

TEST_F(PackIdx, NumbersThatDifferAreRefused) {
    test::write_plain(path("images"), test::idx_images(4, 2, 2));
    test::write_plain(path("labels"), test::idx_labels(5, 4));
    EXPECT_CONTAINS(pack_error(options()), "has 4 images, but " + path("labels") + " has 5 labels");
}

TEST_F(PackIdx, TruncatedImagesLeaveNothing) {
    const std::string images = test::idx_images(400, 10, 10);
    test::write_plain(path("images"), images.substr(0, images.size() - 1));
    test::write_plain(path("labels"), test::idx_labels(400, 4));
    EXPECT_CONTAINS(pack_error(options()), "truncated");
}

TEST_F(PackIdx, MoreImagesThanAnnouncedLeaveNothing) {
    test::write_plain(path("images"), test::idx_images(4, 2, 2) + "x");
    test::write_plain(path("labels"), test::idx_labels(4, 4));
    EXPECT_CONTAINS(pack_error(options()), "data after the 4 images");
}

TEST_F(PackIdx, MissingFilesAreNamed) {
    EXPECT_CONTAINS(pack_error(options()), path("labels") + ": No such file");
    test::write_plain(path("labels"), test::idx_labels(4, 4));
    EXPECT_CONTAINS(pack_error(options()), path("images") + ": No such file");
}

TEST_F(PackIdx, FashionMnistIsPackedWhole) {
    const std::string folder = "/usr/share/datasets/fashion-mnist/";
    if (!fs::exists(folder + "t10k-images-idx3-ubyte.gz"))
        GTEST_SKIP() << "needs Debian's package dataset-fashion-mnist in " << folder;
    PackIdxOptions real = options();
    for (const auto& [part, samples] : {std::pair{"t10k", 10000}, std::pair{"train", 60000}}) {
        real.images = folder + part + "-images-idx3-ubyte.gz";
        real.labels = folder + part + "-labels-idx1-ubyte.gz";
        const DatasetInfo info = pack_idx(real);
        EXPECT_EQ(info.samples, samples);
        EXPECT_EQ(info.sample_shape, (Shape{28, 28, 1}));
        EXPECT_EQ(info.classes, 10);
        const std::unique_ptr<Dataset> dataset = open_hdf5_dataset(real.output);
        EXPECT_EQ(count_labels(*dataset), std::vector<std::int64_t>(10, samples / 10));
        // The last image, pixel by pixel, read without this library's readers.
        const gzFile file = gzopen(real.images.c_str(), "rb");
        gzseek(file, 16 + 784L * (samples - 1), SEEK_SET);
        std::vector<std::byte> expected(784), found(784);
        ASSERT_EQ(gzread(file, expected.data(), 784), 784);
        gzclose(file);
        std::vector<std::int64_t> label(1);
        dataset->read(std::vector<std::int64_t>{samples - 1}, found, label);
        EXPECT_EQ(found, expected);
    }
}

}  // namespace
}  // namespace tutti
