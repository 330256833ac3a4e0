#include <gtest/gtest.h>
#include <zlib.h>

#include <array>
#include <thread>
#include <vector>

#include "hdf5_file.hpp"
#include "input/hdf5_support.hpp"
#include "support/temp_dir.hpp"
#include "tutti/input/dataset.hpp"
#include "tutti/input/sampler.hpp"

namespace tutti {
namespace {

using test::data_error;
using test::Hdf5File;
using test::ImageFile;

constexpr hsize_t samples = hdf5::chunk_cache_slots + 79;  // more than the library keeps
constexpr std::size_t sample_bytes = 24;

void gzip_by_sample(hid_t layout) {
    const std::array<hsize_t, 4> chunk{1, 4, 3, 2};
    H5Pset_chunk(layout, 4, chunk.data());
    H5Pset_deflate(layout, 6);
}

/// Files with a compressed chunk for each sample.
class DeflatedStorage : public testing::Test {
  protected:
    std::string path() const { return dir_.path() + "/data.h5"; }

    static std::byte pixel(std::int64_t sample, std::size_t k) {
        return static_cast<std::byte>((static_cast<std::size_t>(sample) * sample_bytes + k) % 251);
    }
    static std::vector<std::byte> read(const Dataset& dataset, const std::vector<std::int64_t>& indices) {
        std::vector<std::byte> out(indices.size() * sample_bytes);
        std::vector<std::int64_t> labels(indices.size());
        dataset.read(indices, out, labels);
        return out;
    }
    static void expect_pixels(const Dataset& dataset, const std::vector<std::int64_t>& indices) {
        std::vector<std::byte> expected;
        for (const std::int64_t index : indices)
            for (std::size_t k = 0; k < sample_bytes; ++k) expected.push_back(pixel(index, k));
        EXPECT_EQ(read(dataset, indices), expected);
    }

    test::TempDir dir_;
};

TEST_F(DeflatedStorage, GivesTheSamplesThatWereWritten) {
    ImageFile{.samples = samples, .layout = gzip_by_sample}.write(path());
    const std::unique_ptr<Dataset> dataset = open_hdf5_dataset(path());
    expect_pixels(*dataset, {});
    expect_pixels(*dataset, {samples - 1, 0, 1, 1, 7});
    expect_pixels(*dataset, random_permutation(samples, 3));
}

TEST_F(DeflatedStorage, BehindAUserBlock) {
    ImageFile{.samples = samples, .user_block = 1024, .layout = gzip_by_sample}.write(path());
    expect_pixels(*open_hdf5_dataset(path()), {samples - 1, 0, 4000});
}

TEST_F(DeflatedStorage, IsReadBySeveralThreadsAtOnce) {
    ImageFile{.samples = samples, .layout = gzip_by_sample}.write(path());
    const std::unique_ptr<Dataset> dataset = open_hdf5_dataset(path());
    std::vector<std::thread> threads;
    for (std::uint64_t t = 0; t < 4; ++t)
        threads.emplace_back([&dataset, t] { expect_pixels(*dataset, random_permutation(samples, t)); });
    for (std::thread& thread : threads) thread.join();
}

TEST_F(DeflatedStorage, AChunkThatIsStoredAsItIsIsRead) {
    ImageFile file{.samples = samples, .layout = gzip_by_sample};
    file.change = [](Hdf5File& f) {
        const hdf5::Handle data(H5Dopen2(f.id(), "samples", H5P_DEFAULT), H5Dclose);
        std::array<unsigned char, sample_bytes> plain{};
        plain.fill(77);
        const std::array<hsize_t, 4> begin{5, 0, 0, 0};
        constexpr std::uint32_t without_filter = 1;
        ASSERT_GE(
            H5Dwrite_chunk(data.get(), H5P_DEFAULT, without_filter, begin.data(), plain.size(), plain.data()),
            0);
    };
    file.write(path());
    const std::unique_ptr<Dataset> dataset = open_hdf5_dataset(path());
    EXPECT_EQ(read(*dataset, {5}), std::vector<std::byte>(sample_bytes, std::byte{77}));
    expect_pixels(*dataset, {4, 6});
}

TEST_F(DeflatedStorage, ADamagedChunkNamesTheSample) {
    ImageFile file{.samples = samples, .layout = gzip_by_sample};
    file.change = [](Hdf5File& f) {
        const hdf5::Handle data(H5Dopen2(f.id(), "samples", H5P_DEFAULT), H5Dclose);
        const std::array<unsigned char, 30> noise{1, 2, 3};
        const std::array<hsize_t, 4> begin{9, 0, 0, 0};
        ASSERT_GE(H5Dwrite_chunk(data.get(), H5P_DEFAULT, 0, begin.data(), noise.size(), noise.data()), 0);
    };
    file.write(path());
    const std::unique_ptr<Dataset> dataset = open_hdf5_dataset(path());
    const std::string message = data_error([&dataset] { read(*dataset, {8, 9}); });
    EXPECT_NE(message.find("sample 9 cannot be read"), std::string::npos) << message;
    expect_pixels(*dataset, {8, 10});
}

TEST_F(DeflatedStorage, AChunkOfTooFewBytesNamesTheSample) {
    ImageFile file{.samples = samples, .layout = gzip_by_sample};
    file.change = [](Hdf5File& f) {
        const hdf5::Handle data(H5Dopen2(f.id(), "samples", H5P_DEFAULT), H5Dclose);
        const std::array<unsigned char, sample_bytes - 1> part{1, 2, 3};
        std::array<unsigned char, 100> packed{};
        uLongf bytes = packed.size();
        ASSERT_EQ(compress(packed.data(), &bytes, part.data(), part.size()), Z_OK);
        const std::array<hsize_t, 4> begin{9, 0, 0, 0};
        ASSERT_GE(H5Dwrite_chunk(data.get(), H5P_DEFAULT, 0, begin.data(), bytes, packed.data()), 0);
    };
    file.write(path());
    const std::unique_ptr<Dataset> dataset = open_hdf5_dataset(path());
    const std::string message = data_error([&dataset] { read(*dataset, {8, 9}); });
    EXPECT_NE(message.find("sample 9 cannot be read: its chunk holds too few bytes"), std::string::npos)
        << message;
    expect_pixels(*dataset, {8, 10});
}

}  // namespace
}  // namespace tutti
