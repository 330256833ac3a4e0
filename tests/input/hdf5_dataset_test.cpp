#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <numeric>
#include <thread>

#include "hdf5_file.hpp"
#include "support/temp_dir.hpp"
#include "tutti/input/dataset.hpp"
#include "tutti/input/sampler.hpp"

namespace tutti {
namespace {

using test::data_error;
using test::Hdf5File;
using test::ImageFile;

void chunked(hid_t layout) {
    const hsize_t chunk[] = {7, 4, 2, 2};
    H5Pset_chunk(layout, 4, chunk);
}
void compressed(hid_t layout) {
    chunked(layout);
    H5Pset_shuffle(layout);
    H5Pset_deflate(layout, 6);
}

class Hdf5Dataset : public testing::Test {
  protected:
    std::string path(const std::string& name = "data.h5") const { return dir_.path() + "/" + name; }

    /// What opening the file says; the test fails when it does not begin with the file's name.
    std::string open_error() const {
        const std::string message = data_error([this] { open_hdf5_dataset(path()); });
        EXPECT_EQ(message.find(path()), 0U) << message;
        EXPECT_EQ(message.find('\n'), std::string::npos) << message;
        return message;
    }
    void expect_pixels(const Dataset& dataset, const std::vector<std::int64_t>& indices) const {
        std::vector<std::byte> samples(indices.size() * 24);
        std::vector<std::int64_t> labels(indices.size());
        dataset.read(indices, samples, labels);
        for (std::size_t i = 0; i < indices.size(); ++i) {
            EXPECT_EQ(labels[i], indices[i] % 10);
            for (std::size_t k = 0; k < 24; ++k)
                ASSERT_EQ(static_cast<std::size_t>(samples[24 * i + k]),
                          (24 * static_cast<std::size_t>(indices[i]) + k) % 251)
                    << "index " << indices[i] << ", pixel " << k;
        }
    }
    void expect_reads(const ImageFile& file) const {
        file.write(path());
        const std::unique_ptr<Dataset> dataset = open_hdf5_dataset(path());
        EXPECT_EQ(dataset->info().samples, 20);
        std::vector<std::int64_t> all(20);
        std::iota(all.begin(), all.end(), 0);
        expect_pixels(*dataset, all);
        expect_pixels(*dataset, {19, 3, 4, 5, 5, 0, 18, 19, 2, 1});
        expect_pixels(*dataset, {});
    }

  private:
    test::TempDir dir_;
};

TEST_F(Hdf5Dataset, samples_that_lie_in_another_file_are_read_there) {
    ImageFile{.user_block = 512}.write(path("pixels.h5"));
    const auto linked = [this](const std::function<void(hid_t)>& link) {
        expect_reads({.change = [&](Hdf5File& file) {
            file.remove_table("samples");
            link(file.id());
            const std::vector<std::uint8_t> others(100000, 99);
            file.table("others", H5T_STD_U8LE, H5T_NATIVE_UINT8, {others.size()}, others.data());
        }});
    };
    linked([](hid_t file) {
        H5Lcreate_external("pixels.h5", "/samples", file, "samples", H5P_DEFAULT, H5P_DEFAULT);
    });
    // Which somebody locks.
    const int other = open(path("pixels.h5").c_str(), O_RDONLY);
    ASSERT_EQ(flock(other, LOCK_EX), 0);
    linked([](hid_t file) {
        H5Lcreate_external("pixels.h5", "/", file, "elsewhere", H5P_DEFAULT, H5P_DEFAULT);
        H5Lcreate_soft("/elsewhere/samples", file, "samples", H5P_DEFAULT, H5P_DEFAULT);
    });
    close(other);
}

TEST_F(Hdf5Dataset, DescribesImages) {
    ImageFile file;
    file.change = [](Hdf5File& f) {
        f.doubles("mean", {0.25, 0.5});
        f.doubles("std", {1, 2});
    };
    file.write(path());
    const std::unique_ptr<Dataset> dataset = open_hdf5_dataset(path());
    EXPECT_EQ(dataset->name(), path());
    EXPECT_EQ(dataset->info().samples, 20);
    EXPECT_EQ(dataset->info().sample_shape, (Shape{4, 3, 2}));
    EXPECT_EQ(dataset->info().dtype, DType::u8);
    EXPECT_EQ(dataset->info().classes, 10);
    EXPECT_TRUE(dataset->info().class_names.empty());
    EXPECT_EQ(dataset->info().mean, (std::vector<float>{0.25F, 0.5F}));
    EXPECT_EQ(dataset->info().std, (std::vector<float>{1, 2}));
}

TEST_F(Hdf5Dataset, ReadsContiguousData) {
    expect_reads({});
}
TEST_F(Hdf5Dataset, ReadsContiguousDataBehindAUserBlock) {
    expect_reads({.user_block = 1024});
}
TEST_F(Hdf5Dataset, ReadsChunkedData) {
    expect_reads({.layout = chunked});
}
TEST_F(Hdf5Dataset, ReadsCompressedData) {
    expect_reads({.layout = compressed});
}
TEST_F(Hdf5Dataset, ReadsCompactData) {
    expect_reads({.layout = [](hid_t layout) { H5Pset_layout(layout, H5D_COMPACT); }});
}
TEST_F(Hdf5Dataset, ReadsUnsignedByteLabels) {
    expect_reads({.label_type = H5T_STD_U8LE});
}
TEST_F(Hdf5Dataset, ReadsBigEndianLabels) {
    expect_reads({.label_type = H5T_STD_I32BE});
}

TEST_F(Hdf5Dataset, IsReadBySeveralThreadsAtOnce) {
    for (const auto& layout : {std::function<void(hid_t)>(), std::function<void(hid_t)>(compressed)}) {
        ImageFile{.layout = layout}.write(path());
        const std::unique_ptr<Dataset> dataset = open_hdf5_dataset(path());
        std::vector<std::thread> threads;
        for (std::int64_t t = 0; t < 4; ++t)
            threads.emplace_back([this, &dataset, t] {
                for (std::int64_t i = 0; i < 100; ++i)
                    expect_pixels(*dataset, {(i * 7 + t) % 20, i % 19, i % 19 + 1});
            });
        for (std::thread& thread : threads) thread.join();
    }
}

TEST_F(Hdf5Dataset, ReadsFeaturesOfEitherByteOrder) {
    std::vector<float> values(5 * 6);
    std::iota(values.begin(), values.end(), 0.5F);
    for (const hid_t type : {H5T_IEEE_F32LE, H5T_IEEE_F32BE}) {
        ImageFile file;
        file.samples = 5;
        file.change = [&](Hdf5File& f) {
            f.remove_table("samples");
            f.table("samples", type, H5T_NATIVE_FLOAT, {5, 6}, values.data());
        };
        file.write(path());
        const std::unique_ptr<Dataset> dataset = open_hdf5_dataset(path());
        EXPECT_EQ(dataset->info().dtype, DType::f32);
        EXPECT_EQ(dataset->info().sample_shape, (Shape{6}));
        std::vector<float> read(12);
        std::vector<std::int64_t> labels(2);
        dataset->read(std::vector<std::int64_t>{4, 1}, std::as_writable_bytes(std::span(read)), labels);
        for (std::size_t k = 0; k < 6; ++k) {
            EXPECT_EQ(read[k], values[24 + k]);
            EXPECT_EQ(read[6 + k], values[6 + k]);
        }
    }
}

TEST_F(Hdf5Dataset, MissingFileIsNamed) {
    const std::string remedy =
        "; check the path, or make the file: trainer pack images, clips, features, csv or idx "
        "(trainer pack --help)";
    EXPECT_EQ(open_error(), path() + ": No such file or directory" + remedy);
    const std::string here = std::filesystem::current_path().string();
    EXPECT_EQ(data_error([] { open_hdf5_dataset("none/train.h5"); }),
              "none/train.h5: No such file or directory (looked for in " + here +
                  ", where the program was started)" + remedy);
}

TEST_F(Hdf5Dataset, NamesThatWereJoinedAreSaidToBeAList) {
    const std::string message = data_error([] { open_hdf5_dataset("none/a.h5,none/b.h5"); });
    EXPECT_EQ(message, "none/a.h5,none/b.h5: No such file or directory (looked for in " +
                           std::filesystem::current_path().string() +
                           ", where the program was started); if it is several files, give a list, "
                           "'data.train=[none/a.h5,none/b.h5]', or where --data is an option, --data "
                           "none/a.h5 none/b.h5; if it "
                           "is one, check the path");
}

TEST_F(Hdf5Dataset, DirectoryIsRefused) {
    const test::TempDir directory;
    EXPECT_NE(data_error([&] { open_hdf5_dataset(directory.path()); }).find("Is a directory"),
              std::string::npos);
}

TEST_F(Hdf5Dataset, TextFileIsRefused) {
    std::ofstream(path()) << "0,1,2\n3,4,5\n";
    EXPECT_NE(open_error().find("not an HDF5 file; make one with trainer pack images, "), std::string::npos);
    const std::string table = path("train.csv");
    std::ofstream(table) << "path,label\n";
    EXPECT_EQ(data_error([&] { open_hdf5_dataset(table); }).find(table + ": a list or a table, but samples"),
              0U);
}

TEST_F(Hdf5Dataset, a_name_in_a_command_is_one_word) {
    const test::TempDir directory;
    const std::string folder = directory.path() + "/my data";
    std::filesystem::create_directory(folder);
    const std::string message = data_error([&] { open_hdf5_dataset(folder); });
    EXPECT_NE(message.find(" --dir '" + folder + "' -o FILE.h5"), std::string::npos) << message;
}

// It may be weights.
TEST_F(Hdf5Dataset, what_is_there_and_is_no_data_set_is_not_to_be_written_over) {
    std::ofstream(path()) << "text";
    const std::string message = open_error();
    EXPECT_EQ(message.find(path() + ": not an HDF5"), 0U) << message;
    EXPECT_EQ(message.find(" -o "), std::string::npos) << message;
}

TEST_F(Hdf5Dataset, TruncatedFileIsRefused) {
    ImageFile{.samples = 1000}.write(path());
    ASSERT_EQ(truncate(path().c_str(), 6000), 0);
    const std::string message = open_error();
    EXPECT_NE(message.find("truncated"), std::string::npos) << message;
}

TEST_F(Hdf5Dataset, FileCutAfterOpeningNamesTheSample) {
    for (const hsize_t user_block : {0U, 512U})
        for (const std::uint64_t map_at_most : {std::uint64_t{0}, mapped_limit}) {
            ImageFile{.samples = 5000, .user_block = user_block}.write(path());
            const std::unique_ptr<Dataset> dataset = open_hdf5_dataset(path(), map_at_most);
            std::vector<std::byte> samples(48);
            std::vector<std::int64_t> labels(2);
            dataset->read(std::vector<std::int64_t>{4321, 4999}, samples, labels);
            ASSERT_EQ(truncate(path().c_str(), 60000), 0);
            dataset->read(std::vector<std::int64_t>{100, 7}, samples, labels);
            EXPECT_EQ(samples[0], static_cast<std::byte>(2400 % 251));
            const std::string message = data_error([&] {
                dataset->read(std::vector<std::int64_t>{5, 4321}, samples, labels);
            });
            EXPECT_NE(message.find("sample 4321"), std::string::npos) << message;
            EXPECT_NE(message.find("cut or replaced"), std::string::npos) << message;
            EXPECT_EQ(message.find(path()), 0U) << message;
        }
}

TEST_F(Hdf5Dataset, EveryWayOfReadingGivesTheSameBits) {
    const std::vector<std::int64_t> order = random_permutation(3000, 5);
    std::vector<std::byte> expected(order.size() * 24);
    std::vector<std::int64_t> labels(order.size());
    for (std::size_t i = 0; i < order.size(); ++i)
        for (std::size_t k = 0; k < 24; ++k)
            expected[24 * i + k] =
                static_cast<std::byte>((static_cast<std::size_t>(order[i]) * 24 + k) % 251);
    for (const auto& layout : {std::function<void(hid_t)>(), std::function<void(hid_t)>(compressed)})
        for (const std::uint64_t map_at_most : {std::uint64_t{0}, std::uint64_t{72000}}) {
            ImageFile{.samples = 3000, .layout = layout}.write(path());
            const std::unique_ptr<Dataset> dataset = open_hdf5_dataset(path(), map_at_most);
            std::vector<std::byte> samples(expected.size());
            dataset->read(order, samples, labels);
            EXPECT_EQ(samples, expected) << "mapped " << dataset->mapped_bytes();
        }
}

TEST_F(Hdf5Dataset, MapsNoMoreThanItMay) {
    ImageFile{.samples = 1000}.write(path());
    EXPECT_EQ(open_hdf5_dataset(path(), 23999)->mapped_bytes(), 0U);
    const std::uint64_t mapped = open_hdf5_dataset(path(), 24000)->mapped_bytes();
    EXPECT_TRUE(mapped == 24000 || mapped == 0) << mapped;  // 0: the temporary directory is no local one
    ImageFile{.samples = 1000, .layout = compressed}.write(path());
    EXPECT_EQ(open_hdf5_dataset(path())->mapped_bytes(), 0U);
}

TEST_F(Hdf5Dataset, DamagedChunkNamesTheSample) {
    ImageFile{.samples = 2000, .layout = compressed}.write(path());
    {
        std::fstream file(path(), std::ios::in | std::ios::out | std::ios::binary);
        file.seekg(0, std::ios::end);
        const auto size = static_cast<std::streamoff>(file.tellg());
        const std::string noise(static_cast<std::size_t>(size / 3), '\x5a');
        file.seekp(size / 3);
        file.write(noise.data(), static_cast<std::streamsize>(noise.size()));
    }
    const std::string message = data_error([this] {
        const std::unique_ptr<Dataset> dataset = open_hdf5_dataset(path());
        std::vector<std::byte> samples(24);
        std::vector<std::int64_t> labels(1);
        for (std::int64_t i = 0; i < 2000; ++i) dataset->read(std::vector{i}, samples, labels);
    });
    EXPECT_NE(message.find("cannot be read"), std::string::npos) << message;
}

TEST_F(Hdf5Dataset, LabelOutsideTheClassesNamesTheSample) {
    ImageFile file;
    file.labels = {0, 1, 2, 11, 4, -1};
    file.write(path());
    const std::unique_ptr<Dataset> dataset = open_hdf5_dataset(path());
    std::vector<std::byte> samples(24);
    std::vector<std::int64_t> labels(1);
    const auto read = [&](std::int64_t index) {
        return data_error([&] { dataset->read(std::vector{index}, samples, labels); });
    };
    EXPECT_EQ(read(2), "");
    EXPECT_EQ(read(3).find(path() + ": sample 3 has label 11, but the file says 10 classes (0..9); "), 0U)
        << read(3);
    EXPECT_NE(read(3).find("correct the label (they count from 0)"), std::string::npos);
    EXPECT_EQ(read(5).find(path() + ": sample 5 has label -1, but the file says 10 classes (0..9); "), 0U)
        << read(5);
}

TEST_F(Hdf5Dataset, FeatureThatIsNotFiniteNamesTheSample) {
    std::vector<float> values(5 * 6, 1e38F);
    values[2 * 6 + 4] = std::numeric_limits<float>::quiet_NaN();
    values[4 * 6] = -std::numeric_limits<float>::infinity();
    ImageFile file;
    file.samples = 5;
    file.change = [&](Hdf5File& f) {
        f.remove_table("samples");
        f.table("samples", H5T_IEEE_F32LE, H5T_NATIVE_FLOAT, {5, 6}, values.data());
    };
    file.write(path());
    const std::unique_ptr<Dataset> dataset = open_hdf5_dataset(path());
    std::vector<std::byte> samples(2 * 24);
    std::vector<std::int64_t> labels(2);
    const auto read = [&](std::int64_t first, std::int64_t second) {
        return data_error([&] { dataset->read(std::vector{first, second}, samples, labels); });
    };
    EXPECT_EQ(read(0, 3), "");
    EXPECT_EQ(read(1, 2).find(path() + ": sample 2 has the value nan as feature 4; "), 0U) << read(1, 2);
    EXPECT_EQ(read(4, 1).find(path() + ": sample 4 has the value -inf as feature 0; "), 0U) << read(4, 1);
}

TEST_F(Hdf5Dataset, IndexOutsideTheFileIsRefused) {
    ImageFile{}.write(path());
    const std::unique_ptr<Dataset> dataset = open_hdf5_dataset(path());
    std::vector<std::byte> samples(24);
    std::vector<std::int64_t> labels(1);
    for (const std::int64_t index : {-1, 20})
        EXPECT_NE(data_error([&] {
                      dataset->read(std::vector{index}, samples, labels);
                  }).find("there is no sample " + std::to_string(index) + ", the file has 20"),
                  std::string::npos);
}

TEST_F(Hdf5Dataset, ErrorsPrintNothing) {
    std::ofstream(path()) << "text";
    testing::internal::CaptureStderr();
    data_error([this] { open_hdf5_dataset(path()); });
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

}  // namespace
}  // namespace tutti
