#include "input/mapped_samples.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "support/temp_dir.hpp"

namespace tutti {
namespace {

constexpr std::size_t bytes_each = 700;
constexpr std::int64_t file_samples = 3000;  // 2.1 MB: several pieces of read-ahead, many pages

std::byte content(std::uint64_t position) {
    return static_cast<std::byte>(position % 251);
}

std::size_t pages_not_in_memory(int file, std::size_t bytes) {
    void* const view = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, file, 0);
    std::vector<unsigned char> pages(bytes / static_cast<std::size_t>(sysconf(_SC_PAGESIZE)));
    const bool known = view != MAP_FAILED && mincore(view, bytes, pages.data()) == 0;
    munmap(view, bytes);
    return known ? static_cast<std::size_t>(
                       std::ranges::count_if(pages, [](unsigned char page) { return (page & 1U) == 0; }))
                 : bytes;
}

/// A file of `offset` other bytes and the samples.
class MappedSamplesOf : public testing::TestWithParam<std::uint64_t> {
  protected:
    void SetUp() override {
        std::string bytes(offset(), 'x');
        for (std::uint64_t i = 0; i < file_samples * bytes_each; ++i)
            bytes.push_back(static_cast<char>(content(i)));
        std::ofstream(path(), std::ios::binary) << bytes;
        file_ = open(path().c_str(), O_RDWR | O_CLOEXEC);
        ASSERT_GE(file_, 0);
        mapped_ = MappedSamples::map(file_, offset(), file_samples * bytes_each, bytes_each);
        if (!mapped_) GTEST_SKIP() << "the temporary directory is on no local file system";
    }
    void TearDown() override {
        mapped_.reset();
        close(file_);
    }

    static std::uint64_t offset() { return GetParam(); }
    std::string path() const { return dir_.path() + "/file"; }
    void cut(std::uint64_t sample_count) const {
        ASSERT_EQ(ftruncate(file_, static_cast<off_t>(offset() + sample_count * bytes_each)), 0);
    }
    bool copy(const std::vector<std::int64_t>& indices) const {
        std::vector<std::byte> out(indices.size() * bytes_each);
        return mapped_->copy(indices, out.data());
    }
    void expect_copies(const std::vector<std::int64_t>& indices) const {
        std::vector<std::byte> out(indices.size() * bytes_each);
        ASSERT_TRUE(mapped_->copy(indices, out.data()));
        for (std::size_t i = 0; i < out.size(); ++i)
            ASSERT_EQ(out[i], content(static_cast<std::uint64_t>(indices[i / bytes_each]) * bytes_each +
                                      i % bytes_each))
                << "byte " << i;
    }

    test::TempDir dir_;
    int file_ = -1;
    std::unique_ptr<MappedSamples> mapped_;
};

TEST_P(MappedSamplesOf, CopiesAnyIndicesInTheirOrder) {
    expect_copies({});
    expect_copies({0});
    expect_copies({file_samples - 1, 0, 1, 2, 1, 1, file_samples - 1});
    std::mt19937 random(7);
    std::vector<std::int64_t> indices(500);
    for (std::int64_t& index : indices) index = static_cast<std::int64_t>(random() % file_samples);
    expect_copies(indices);
}

TEST_P(MappedSamplesOf, CopiesOnSeveralThreads) {
    std::vector<std::thread> threads;
    for (std::int64_t t = 0; t < 4; ++t)
        threads.emplace_back([this, t] {
            for (std::int64_t i = 0; i < 50; ++i)
                expect_copies({(i * 61 + t) % file_samples, t, file_samples - 1 - i});
        });
    for (std::thread& thread : threads) thread.join();
}

TEST_P(MappedSamplesOf, AFileThatWasCutIsNoLongerCopied) {
    expect_copies({file_samples - 1});
    // Inside the last page that is left, the mapping shows zeros and no error.
    cut(file_samples - 1);
    EXPECT_FALSE(copy({file_samples - 1}));
    cut(10);
    EXPECT_FALSE(copy({file_samples - 1}));
    EXPECT_FALSE(copy({0})) << "pread decides about samples that are left";
}

TEST_P(MappedSamplesOf, AFileThatWasCutInsideItsLastPageStillHasTheSamplesBefore) {
    const auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
    const std::uint64_t end = offset() + file_samples * bytes_each;
    const std::uint64_t last_page = (end - 1) / page * page;
    ASSERT_EQ(ftruncate(file_, static_cast<off_t>(last_page + 1)), 0);
    const auto first_in_it = static_cast<std::int64_t>((last_page - offset()) / bytes_each);
    expect_copies({first_in_it - 1, 0, 5});
    for (std::int64_t i = first_in_it; i < file_samples; ++i) EXPECT_FALSE(copy({0, i, 5})) << "sample " << i;
}

TEST_P(MappedSamplesOf, AFileThatWasCutByALittleMoreThanItsLastPageIsNoLongerCopied) {
    const auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
    expect_copies({0, file_samples - 1});  // all pages are there before
    const std::uint64_t last_page = (offset() + file_samples * bytes_each - 1) / page * page;
    ASSERT_EQ(ftruncate(file_, static_cast<off_t>(last_page - 1)), 0);
    EXPECT_FALSE(copy({static_cast<std::int64_t>((last_page - 1 - offset()) / bytes_each)}));
    EXPECT_FALSE(copy({0})) << "pread decides about samples that are left";
}

TEST_P(MappedSamplesOf, AFileThatIsCutMeanwhileEndsNoProcess) {
    std::atomic<bool> stop = false;
    std::thread cutter([this, &stop] {
        while (!stop) {
            cut(1);
            cut(file_samples);  // zeros now
        }
    });
    std::vector<std::int64_t> indices(400);
    for (std::size_t i = 0; i < indices.size(); ++i) indices[i] = static_cast<std::int64_t>(i * 7);
    int refused = 0;
    for (int round = 0; round < 100'000 && refused < 50; ++round) refused += copy(indices) ? 0 : 1;
    stop = true;
    cutter.join();
    EXPECT_EQ(refused, 50);
}

TEST_P(MappedSamplesOf, WhereMemoryHasBecomeShortNothingIsCopied) {
    std::int64_t available = 0;
    mapped_ = MappedSamples::map(file_, offset(), file_samples * bytes_each, bytes_each,
                                 [&] { return std::optional(available); });
    expect_copies({0, 7});
    BringInPatience patience{};
    patience.asked_for = std::uint64_t{1} << 30;  // by files before it
    mapped_->bring_in(patience);
    EXPECT_FALSE(patience.more_to_bring) << "given up";
    EXPECT_FALSE(copy({0, 7}));
    // Room again is seen after a GiB, copied or not.
    available = std::int64_t{2} << 30;
    const std::vector<std::int64_t> many(3000, 7);
    std::uint64_t taken = 4 * bytes_each;
    std::vector<std::byte> out(many.size() * bytes_each);
    bool copied = false;
    for (; !copied && taken < std::uint64_t{3} << 30; taken += out.size())
        copied = mapped_->copy(many, out.data());
    EXPECT_TRUE(copied);
    EXPECT_NEAR(static_cast<double>(taken), 1.0 * (1 << 30), 1.5 * static_cast<double>(out.size()));
    expect_copies({0, 7});
}

TEST_P(MappedSamplesOf, NothingIsMappedForNoSamples) {
    EXPECT_EQ(MappedSamples::map(file_, offset(), 0, bytes_each), nullptr);
}

TEST(MappedSamples, CopiesFromPiecesThatAreAndThatAreNotYetInMemory) {
    constexpr std::size_t large = std::size_t{1} << 20;
    constexpr std::int64_t count = 5 * BroughtInRange::piece_bytes / large + 2;
    const test::TempDir dir;
    const std::string path = dir.path() + "/file";
    const int file = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    ASSERT_EQ(ftruncate(file, static_cast<off_t>(count * large)), 0);  // a hole, but for one byte of each
    for (std::int64_t i = 0; i < count; ++i) {
        const auto value = static_cast<char>(i);
        ASSERT_EQ(pwrite(file, &value, 1, i * static_cast<off_t>(large) + 5), 1);
    }
    const auto mapped = MappedSamples::map(file, 0, count * large, large);
    if (!mapped) GTEST_SKIP() << "the temporary directory is on no local file system";
    std::vector<std::byte> out(2 * large);
    for (std::int64_t i = 0; i < count; ++i) {
        const std::vector<std::int64_t> two{count - 1 - i, i};
        BringInPatience one_piece{};
        one_piece.end = {};
        mapped->bring_in(one_piece);
        ASSERT_TRUE(mapped->copy(two, out.data()));
        EXPECT_EQ(out[5], static_cast<std::byte>(count - 1 - i));
        EXPECT_EQ(out[large + 5], static_cast<std::byte>(i));
        EXPECT_EQ(out[large + 6], std::byte{0});
    }
    close(file);
}

/// A file of `bytes` bytes on the disk, with no page in memory.
class MappedSamplesOnDisk : public testing::Test {
  protected:
    static constexpr std::size_t bytes = 2 * BroughtInRange::piece_bytes + (std::size_t{5} << 20);
    static constexpr std::size_t sample = 1024;

    void SetUp() override {
        constexpr int populate_read = 22;
        file_ = open((dir_.path() + "/file").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        ASSERT_GE(file_, 0);
        const std::vector<char> content(bytes, 'x');
        ASSERT_EQ(write(file_, content.data(), bytes), static_cast<ssize_t>(bytes));
        void* const view = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, file_, 0);
        ASSERT_NE(view, MAP_FAILED);
        const bool waits = madvise(view, 1, populate_read) == 0;
        ASSERT_EQ(munmap(view, bytes), 0);
        if (!waits) GTEST_SKIP() << "this Linux cannot bring a range in and wait";
        ASSERT_EQ(fsync(file_), 0);
        ASSERT_EQ(posix_fadvise(file_, 0, 0, POSIX_FADV_DONTNEED), 0);
    }
    void TearDown() override { close(file_); }

    std::unique_ptr<MappedSamples> map(std::size_t from, std::size_t size) const {
        return MappedSamples::map(file_, from, size, sample);
    }

    static BringInPatience none() {
        BringInPatience result;
        result.end = {};
        return result;
    }

    static bool copy(const MappedSamples& mapped, std::int64_t index) {
        const std::vector<std::int64_t> indices{index};
        std::vector<std::byte> out(sample);
        return mapped.copy(indices, out.data());
    }

    test::TempDir dir_;
    int file_ = -1;
};

TEST_F(MappedSamplesOnDisk, NoThreadCopiesBeforeTheFileIsIn) {
    const auto mapped = map(0, bytes);
    if (!mapped) GTEST_SKIP() << "the temporary directory is on no local file system";
    std::vector<std::size_t> missing(4, bytes);
    std::vector<std::thread> threads;
    for (std::size_t t = 0; t < missing.size(); ++t)
        threads.emplace_back([&, t] {
            BringInPatience patience;
            patience.end += std::chrono::hours(1);
            mapped->bring_in(patience);
            if (copy(*mapped, static_cast<std::int64_t>(t))) missing[t] = pages_not_in_memory(file_, bytes);
        });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(missing, std::vector<std::size_t>(4, 0));
}

TEST_F(MappedSamplesOnDisk, WithoutPatienceEachBatchBringsOnePiece) {
    const auto mapped = map(0, bytes);
    if (!mapped) GTEST_SKIP() << "the temporary directory is on no local file system";
    for (std::size_t in = 0; in < bytes;) {
        in = std::min(bytes, in + BroughtInRange::piece_bytes);
        BringInPatience patience = none();
        mapped->bring_in(patience);
        EXPECT_EQ(pages_not_in_memory(file_, in), 0U) << "of the first " << in << " bytes";
    }
    EXPECT_TRUE(copy(*mapped, bytes / sample - 1));
}

TEST_F(MappedSamplesOnDisk, MayEndWhileItsPagesAreStillTouched) {
    for (int i = 0; i < 30; ++i) {
        const auto mapped = map(0, bytes);
        if (!mapped) GTEST_SKIP() << "the temporary directory is on no local file system";
        BringInPatience patience = none();
        mapped->bring_in(patience);
        EXPECT_TRUE(patience.piece_brought);
    }
}

// Of many runs of samples in several files, each would wait for its file.
TEST_F(MappedSamplesOnDisk, WithoutPatienceABatchBringsOnePieceOfAllItsFiles) {
    const std::size_t half = BroughtInRange::piece_bytes + (std::size_t{2} << 20);
    const auto first = map(0, half), second = map(half, bytes - half);
    if (!first || !second) GTEST_SKIP() << "the temporary directory is on no local file system";
    const auto batch = [&] {
        BringInPatience patience = none();
        for (int run = 0; run < 3; ++run) {
            first->bring_in(patience);
            second->bring_in(patience);
        }
        return pages_not_in_memory(file_, bytes);
    };
    // The system may read some more than it is asked for.
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    constexpr std::size_t most = BroughtInRange::piece_bytes + (std::size_t{4} << 20);
    for (std::size_t batches = 1, missing = bytes / page; batches <= 4; ++batches) {
        const std::size_t before = missing;
        missing = batch();
        EXPECT_LE(before - missing, most / page) << "by batch " << batches;
    }
    EXPECT_EQ(pages_not_in_memory(file_, bytes), 0U);
}

INSTANTIATE_TEST_SUITE_P(Offset, MappedSamplesOf, testing::Values(0, 1, 2048, 4096, 70'001),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace tutti
