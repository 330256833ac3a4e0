#include "input/idx.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "hdf5_file.hpp"
#include "idx_files.hpp"
#include "support/error_message.hpp"
#include "support/temp_dir.hpp"

namespace tutti {
namespace {

using Kind = IdxReader::Kind;

class Idx : public testing::Test {
  protected:
    std::string path() const { return dir_.path() + "/file"; }

    /// Reads all of the file and says what is wrong; empty when nothing is.
    std::string read_error(Kind kind) const {
        const std::string message = test::data_error([&] {
            IdxReader reader(path(), kind);
            std::int64_t size = 1;
            for (const std::int64_t dim : reader.dims()) size *= dim;
            std::vector<std::byte> values(static_cast<std::size_t>(size));
            reader.read(values);
            reader.require_end();
        });
        EXPECT_TRUE(message.empty() || message.find(path() + ": ") == 0) << message;
        return message;
    }

  private:
    test::TempDir dir_;
};

TEST_F(Idx, PlainAndGzipFilesReadAlike) {
    for (const auto& write : {test::write_plain, test::write_gzip}) {
        write(path(), test::idx_images(5, 4, 3));
        IdxReader reader(path(), Kind::images);
        EXPECT_EQ(std::vector<std::int64_t>(reader.dims().begin(), reader.dims().end()),
                  (std::vector<std::int64_t>{5, 4, 3}));
        std::vector<std::byte> values(60);
        reader.read(std::span(values).first(25));
        reader.read(std::span(values).subspan(25));
        reader.require_end();
        for (std::size_t k = 0; k < 60; ++k) EXPECT_EQ(static_cast<std::size_t>(values[k]), k);
    }
}

TEST_F(Idx, MissingFileIsNamed) {
    EXPECT_CONTAINS(read_error(Kind::images), "No such file");
}

TEST_F(Idx, DirectoryIsRefused) {
    std::filesystem::create_directory(path());
    EXPECT_CONTAINS(read_error(Kind::images), "Is a directory");
}

TEST_F(Idx, WrongMagicNumberIsShown) {
    test::write_plain(path(), "\x89PNG, not IDX");
    EXPECT_CONTAINS(read_error(Kind::images), "it begins with 0x89504e47 instead of 0x00000803");
}

TEST_F(Idx, ExchangedFilesAreRecognised) {
    test::write_plain(path(), test::idx_labels(5, 3));
    EXPECT_CONTAINS(read_error(Kind::images), "exchange --images and --labels");
    test::write_plain(path(), test::idx_images(5, 2, 2));
    EXPECT_CONTAINS(read_error(Kind::labels), "exchange --images and --labels");
}

TEST_F(Idx, FileThatEndsInTheHeaderIsRefused) {
    for (const std::size_t size : {0U, 3U, 4U, 15U}) {
        test::write_plain(path(), test::idx_images(5, 2, 2).substr(0, size));
        EXPECT_CONTAINS(read_error(Kind::images), "ends within the header");
    }
}

TEST_F(Idx, EmptyFileOfImagesIsRefused) {
    test::write_plain(path(), test::idx_images(0, 28, 28));
    EXPECT_CONTAINS(read_error(Kind::images), "0 images of 28 x 28: nothing to pack");
}

TEST_F(Idx, HeaderThatNoFileOfThisSizeCanHoldIsRefusedBeforeMemoryIsTaken) {
    const std::string whole = test::idx_images(2, 4, 3);
    for (const std::size_t dimension : {4U, 8U, 12U}) {
        test::write_plain(path(), std::string(whole).replace(dimension, 4, 4, '\xff'));
        const std::string message = read_error(Kind::images);
        EXPECT_CONTAINS(message, ": damaged: its header says ");
        EXPECT_CONTAINS(message, "4294967295");
        EXPECT_CONTAINS(message, ", more than a file of 40 bytes can hold; download");
    }
    test::write_gzip(path(), std::string(whole).replace(4, 12, 12, '\xff'));
    EXPECT_CONTAINS(read_error(Kind::images), ": damaged: its header says ");
    test::write_plain(path(), test::idx_labels(3, 2).replace(4, 4, 4, '\xff'));
    EXPECT_CONTAINS(read_error(Kind::labels), ": damaged: its header says 4294967295 labels, more than");
}

TEST_F(Idx, TruncatedPlainFileNamesTheSample) {
    test::write_plain(path(), test::idx_images(5, 2, 2).substr(0, 16 + 13));
    EXPECT_CONTAINS(read_error(Kind::images),
                    "truncated: its header says 5 images of 2 x 2, but it ends in sample 3");
    test::write_plain(path(), test::idx_labels(5, 3).substr(0, 8 + 2));
    EXPECT_CONTAINS(read_error(Kind::labels), "truncated: its header says 5 labels, but it ends in sample 2");
}

TEST_F(Idx, GzipFileCutAnywhereIsRefused) {
    test::write_gzip(path(), test::idx_images(50, 28, 28));
    const auto size = std::filesystem::file_size(path());
    for (const auto cut : {size / 2, size - 9, size - 8, size - 1}) {
        test::write_gzip(path(), test::idx_images(50, 28, 28));
        std::filesystem::resize_file(path(), cut);
        EXPECT_CONTAINS(read_error(Kind::images), "truncated") << "cut at " << cut << " of " << size;
    }
}

TEST_F(Idx, DamagedGzipFileIsRefused) {
    test::write_gzip(path(), test::idx_images(50, 28, 28));
    std::fstream file(path(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-8, std::ios::end);  // the checksum
    file.write("xxxx", 4);
    file.close();
    EXPECT_CONTAINS(read_error(Kind::images), "incorrect data check");
}

TEST_F(Idx, DataAfterTheLastSampleAreRefused) {
    for (const auto& write : {test::write_plain, test::write_gzip}) {
        write(path(), test::idx_labels(5, 3) + '\0');
        EXPECT_CONTAINS(read_error(Kind::labels), "data after the 5 labels");
    }
}

}  // namespace
}  // namespace tutti
