#include "tutti/input/dataset.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <thread>

#include "tutti/base/memory_use.hpp"
#include "written_datasets.hpp"

namespace tutti {
namespace {

using test::data_error;
using test::Hdf5File;
using test::ImageFile;

class OpenDatasets : public test::WrittenDatasets {};

ImageFile with_labels_from(std::int64_t first, hsize_t samples) {
    ImageFile file;
    file.samples = samples;
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(samples); ++i)
        file.labels.push_back((first + i) % 10);
    return file;
}

/// As many samples as there are rows of `targets` numbers.
ImageFile with_targets(const std::vector<double>& values, hsize_t targets,
                       const std::vector<const char*>& names = {}) {
    return {.samples = values.size() / targets, .change = [=](Hdf5File& f) {
                f.remove_table("labels");
                f.remove_attribute("classes");
                f.table("targets", H5T_IEEE_F32LE, H5T_NATIVE_DOUBLE, {values.size() / targets, targets},
                        values.data());
                if (!names.empty()) f.variable_texts("target_names", names, H5T_CSET_UTF8);
            }};
}

void evict(const std::string& path) {
    const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    ASSERT_GE(file, 0);
    fsync(file);
    posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
    close(file);
}

std::size_t pages_not_in_memory(const std::string& path) {
    const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    const auto bytes = static_cast<std::size_t>(lseek(file, 0, SEEK_END));
    void* const view = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, file, 0);
    close(file);
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    std::vector<unsigned char> pages((bytes + page - 1) / page);
    EXPECT_EQ(mincore(view, bytes, pages.data()), 0);
    munmap(view, bytes);
    return static_cast<std::size_t>(
        std::ranges::count_if(pages, [](unsigned char flags) { return (flags & 1U) == 0; }));
}

TEST_F(OpenDatasets, ReadsFilesOneAfterTheOther) {
    const std::vector<std::string> paths{write("a.h5", with_labels_from(0, 3)),
                                         write("b.h5", with_labels_from(3, 0)),
                                         write("c.h5", with_labels_from(3, 4))};
    const std::unique_ptr<Dataset> dataset = open_datasets(paths);
    EXPECT_EQ(dataset->info().samples, 7);
    EXPECT_EQ(dataset->name(), paths[0] + ", " + paths[1] + ", " + paths[2]);
    const std::vector<std::int64_t> indices{6, 0, 1, 2, 3, 4, 2};
    std::vector<std::byte> samples(indices.size() * 24);
    std::vector<std::int64_t> labels(indices.size());
    dataset->read(indices, samples, labels);
    EXPECT_EQ(labels, indices);
    for (std::size_t i = 0; i < indices.size(); ++i) {
        const std::int64_t local = indices[i] < 3 ? indices[i] : indices[i] - 3;
        EXPECT_EQ(static_cast<std::int64_t>(samples[24 * i]), 24 * local);
    }
}

TEST_F(OpenDatasets, TargetsOfFilesFollowEachOther) {
    const auto a = write("a.h5", with_targets({1, 2, 3, 4}, 2)),
               b = write("b.h5", with_targets({5, 6}, 2, {"x", "y"})),
               c = write("c.h5", with_targets({7, 8}, 2, {"y", "x"})),
               one = write("one.h5", with_targets({7, 8}, 1)), labels = write("labels.h5", ImageFile{});
    const auto data = open_datasets(std::vector{a, b});
    EXPECT_EQ(data->info().samples, 3);
    EXPECT_EQ(data->info().targets, 2);
    EXPECT_FALSE(data->info().labelled);
    EXPECT_EQ(data->info().target_names, (std::vector<std::string>{"x", "y"}));
    EXPECT_EQ(std::vector(data->targets().begin(), data->targets().end()),
              (std::vector<float>{1, 2, 3, 4, 5, 6}));
    const auto refusal = [](const std::vector<std::string>& paths) {
        return data_error([&] { open_datasets(paths); });
    };
    const std::string agree = "; files that are used together must agree; ";
    EXPECT_EQ(refusal({a, b, c}),
              b + " and " + c + " have different target names" + agree + "pack them again");
    EXPECT_EQ(refusal({a, one}),
              a + " has 2 targets, but " + one + " has 1 target" + agree + "use them apart");
    EXPECT_EQ(refusal({labels, a}),
              labels + " has 10 classes, but " + a + " has 2 targets" + agree + "use them apart");
}

TEST(DescribeWanted, NamesWhatAModelIsToGive) {
    DatasetInfo info;
    info.classes = 10;
    EXPECT_EQ(describe_wanted(info), "10 classes");
    info.classes = 1;
    EXPECT_EQ(describe_wanted(info), "1 class");
    info.labelled = false;
    EXPECT_EQ(describe_wanted(info), "1 class, no labels");
    info.classes = 0;
    EXPECT_EQ(describe_wanted(info), "no labels");
    info.targets = 2;
    EXPECT_EQ(describe_wanted(info), "2 targets");
    info.targets = 1;
    EXPECT_EQ(describe_wanted(info), "1 target");
}

TEST_F(OpenDatasets, FilesThatAreNotInMemoryAreReadTheSame) {
    const std::vector<std::string> paths{write("a.h5", with_labels_from(0, 50)),
                                         write("b.h5", with_labels_from(50, 50))};
    const std::unique_ptr<Dataset> mapped = open_datasets(paths),
                                   read = open_datasets(paths, 0, Labels::required);
    std::vector<std::int64_t> indices;
    for (std::int64_t i = 0; i < 100; ++i) indices.push_back(i * 37 % 100);
    std::vector<std::byte> expected(indices.size() * 24), samples(indices.size() * 24);
    std::vector<std::int64_t> labels(indices.size());
    mapped->read(indices, expected, labels);
    EXPECT_FALSE(read->waits_for_disk());
    for (int round = 0; round < 3; ++round) {
        for (const std::string& path : paths) evict(path);
        read->announce(indices);
        read->read(indices, samples, labels);
        EXPECT_EQ(samples, expected);
    }
}

TEST_F(OpenDatasets, FilesTogetherAreMappedUpToTheLimit) {
    // Holes: nothing is written, and reading gives zeros.
    const auto hollow = [](Hdf5File& f) {
        f.remove_table("samples");
        f.table("samples", H5T_STD_U8LE, H5T_NATIVE_UINT8, {3, 20000, 10000, 1}, nullptr, [](hid_t creation) {
            H5Pset_alloc_time(creation, H5D_ALLOC_TIME_EARLY);
            H5Pset_fill_time(creation, H5D_FILL_TIME_NEVER);
        });
    };
    ImageFile file;
    file.samples = 3;
    file.change = hollow;
    const std::vector<std::string> paths{write("a.h5", file), write("b.h5", file)};
    const std::unique_ptr<Dataset> first = open_hdf5_dataset(paths[0]);
    if (first->mapped_bytes() == 0) GTEST_SKIP() << "the temporary directory is on no local file system";
    EXPECT_EQ(first->mapped_bytes(), 600'000'000U);
    EXPECT_EQ(open_datasets(paths, 1'199'999'999, Labels::required)->mapped_bytes(), 600'000'000U);
    EXPECT_EQ(open_datasets(paths, 1'200'000'000, Labels::required)->mapped_bytes(), 1'200'000'000U);
    EXPECT_EQ(open_datasets(paths, 599'999'999, Labels::required)->mapped_bytes(), 0U);
}

TEST_F(OpenDatasets, FilesThatAreNotMappedAreBroughtInWhereThereIsRoom) {
    const std::vector<std::string> paths{write("a.h5", with_labels_from(0, 100)),
                                         write("b.h5", with_labels_from(0, 100)),
                                         write("c.h5", with_labels_from(0, 100))};
    const auto expect = [&](FileMemory memory, std::uint64_t mapped, std::uint64_t brought_in) {
        const std::unique_ptr<Dataset> dataset = open_datasets(paths, memory, Labels::required);
        EXPECT_EQ(dataset->mapped_bytes(), mapped);
        EXPECT_EQ(dataset->brought_in_bytes(), brought_in);
        const FileMemory left = memory.left_by(*dataset);
        EXPECT_EQ(left.map, memory.map - mapped);
        EXPECT_EQ(left.bring_in, memory.bring_in - brought_in);
    };
    if (open_datasets(paths)->mapped_bytes() == 0)
        GTEST_SKIP() << "the temporary directory is on no local file system";
    expect({0, 0}, 0, 0);
    expect({0, 2399}, 0, 0);
    expect({0, 2400}, 0, 2400);
    expect({2400, 4799}, 2400, 2400);
    expect({2400, 7200}, 2400, 7200);
    expect({7200, 7200}, 7200, 7200);
}

TEST_F(OpenDatasets, FilesThatAreNotMappedAreBroughtIn) {
    // 48 MB: three pieces.
    ImageFile file;
    file.samples = 2;
    file.change = [](Hdf5File& f) {
        const std::vector<std::uint8_t> pixels(48'000'000, 7);
        f.remove_table("samples");
        f.table("samples", H5T_STD_U8LE, H5T_NATIVE_UINT8, {2, 6000, 4000, 1}, pixels.data());
    };
    const std::string path = write("a.h5", file);
    const auto missing = [&] { return pages_not_in_memory(path); };
    // Before Linux 5.14 pages are only asked for.
    const auto missing_soon = [&] {
        const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
        while (missing() >= 20 && std::chrono::steady_clock::now() < end)
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
        return missing();
    };
    for (const bool fits : {true, false}) {
        const auto dataset = open_datasets(std::vector{path}, {0, fits ? mapped_limit : 0}, Labels::required);
        if (fits && dataset->brought_in_bytes() == 0)
            GTEST_SKIP() << "the temporary directory is on no local file system";
        EXPECT_EQ(dataset->brought_in_bytes(), fits ? 48'000'000U : 0U);
        evict(path);
        const std::size_t before = missing();
        if (before == 0) GTEST_SKIP() << "nothing is evicted from this file system's memory";
        const std::int64_t resident = resident_bytes();
        BringInPatience patience;
        patience.end += std::chrono::hours(1);
        dataset->bring_in(patience);
        EXPECT_FALSE(patience.more_to_bring);
        EXPECT_LT(resident_bytes() - resident, 24'000'000) << "pieces stay mapped";
        if (fits)
            EXPECT_LT(missing_soon(), 20U);  // labels and the library's own; the samples are 11719 pages
        else
            EXPECT_EQ(missing(), before);
    }
    const auto dataset = open_datasets(std::vector{path}, {0, mapped_limit}, Labels::required);
    evict(path);
    for (int batch = 1; batch <= 3; ++batch) {
        BringInPatience none;
        none.end = {};
        dataset->bring_in(none);
        EXPECT_EQ(none.more_to_bring, batch < 3) << "batch " << batch;
    }
    EXPECT_LT(missing_soon(), 20U);
    // What little of it is read is fetched as needed.
    const auto left = open_datasets(std::vector{path}, {0, mapped_limit}, Labels::required);
    left->expect_reads(1.9);
    EXPECT_EQ(left->brought_in_bytes(), 0U);
}

TEST_F(OpenDatasets, AFileThatIsCutWhileItIsBroughtInNamesTheSample) {
    const std::string path = write("a.h5", with_labels_from(0, 100'000));
    const auto dataset = open_datasets(std::vector{path}, {0, mapped_limit}, Labels::required);
    if (dataset->brought_in_bytes() == 0)
        GTEST_SKIP() << "the temporary directory is on no local file system";
    ASSERT_EQ(truncate(path.c_str(), 4096), 0);
    BringInPatience patience;
    dataset->bring_in(patience);
    std::vector<std::byte> sample(24);
    std::vector<std::int64_t> label(1);
    EXPECT_NE(data_error([&] {
                  dataset->read(std::vector<std::int64_t>{99'999}, sample, label);
              }).find("sample 99999 is beyond the end"),
              std::string::npos);
}

TEST_F(OpenDatasets, FilesOfWhichLittleIsReadAreNotMapped) {
    // 1000 samples of 24 bytes: as much as one read ahead, and less.
    const std::vector<std::string> paths{write("a.h5", with_labels_from(0, 1000)),
                                         write("b.h5", with_labels_from(0, 3000))};
    const std::unique_ptr<Dataset> read = open_datasets(paths), left = open_datasets(paths);
    if (read->mapped_bytes() == 0) GTEST_SKIP() << "the temporary directory is on no local file system";
    read->expect_reads(4);
    EXPECT_EQ(read->mapped_bytes(), 96'000U);
    left->expect_reads(0.5);
    EXPECT_EQ(left->mapped_bytes(), 0U);
    std::vector<std::int64_t> indices(4000), labels(4000);
    std::iota(indices.begin(), indices.end(), std::int64_t{0});
    std::vector<std::byte> samples(indices.size() * 24), others(samples.size());
    read->read(indices, samples, labels);
    left->read(indices, others, labels);
    EXPECT_EQ(samples, others);
}

TEST(WholeFilePays, WhereItsSamplesWouldBeReadOneByOneNoSooner) {
    constexpr std::int64_t ahead = std::int64_t{128} << 10;
    // A small sample costs as much as what is read ahead.
    EXPECT_TRUE(whole_file_pays(1000, 1000 * ahead, 1));
    EXPECT_FALSE(whole_file_pays(999, 1000 * ahead, 1));
    EXPECT_TRUE(whole_file_pays(359, 60'000, 784));
    EXPECT_FALSE(whole_file_pays(358, 60'000, 784));
    // Of large ones all must be read.
    EXPECT_TRUE(whole_file_pays(1000, 1000, ahead));
    EXPECT_FALSE(whole_file_pays(999.9, 1000, ahead));
    EXPECT_FALSE(whole_file_pays(999.9, 1000, 10 * ahead));
    EXPECT_TRUE(whole_file_pays(3000, 1000, 10 * ahead));
}

TEST(WholeFilePays, ForNoSamples) {
    EXPECT_TRUE(whole_file_pays(0, 0, 784));
}

TEST(FileMemory, IsHalfOfWhatIsAvailableOfWhichTheLimitMayBeMapped) {
    const auto expect = [](std::optional<std::int64_t> available, std::uint64_t map, std::uint64_t bring_in) {
        const FileMemory memory = file_memory(available);
        EXPECT_EQ(memory.map, map);
        EXPECT_EQ(memory.bring_in, bring_in);
    };
    expect(std::nullopt, mapped_limit, mapped_limit);
    expect(0, 0, 0);
    expect(1'000'001, 500'000, 500'000);
    expect(std::int64_t{2} << 30, mapped_limit, mapped_limit);
    expect(std::int64_t{9} << 40, mapped_limit, std::uint64_t{9} << 39);
}

TEST_F(OpenDatasets, OneFileIsItself) {
    const std::vector<std::string> paths{write("a.h5", {})};
    EXPECT_EQ(open_datasets(paths)->name(), paths[0]);
}

TEST_F(OpenDatasets, NoFileIsRefused) {
    EXPECT_THROW(open_datasets({}), UsageError);
}

TEST_F(OpenDatasets, IndexOutsideIsRefused) {
    const std::vector<std::string> paths{write("a.h5", {}), write("b.h5", {})};
    const std::unique_ptr<Dataset> dataset = open_datasets(paths);
    std::vector<std::int64_t> label(1);
    EXPECT_THROW(dataset->read_labels(std::vector<std::int64_t>{40}, label), DataError);
    EXPECT_THROW(dataset->read_labels(std::vector<std::int64_t>{-1}, label), DataError);
}

TEST_F(OpenDatasets, LabelsAreCountedOverAllFiles) {
    const std::vector<std::string> paths{write("a.h5", with_labels_from(0, 9000)),
                                         write("b.h5", with_labels_from(0, 5))};
    const std::vector<std::int64_t> counts = count_labels(*open_datasets(paths));
    EXPECT_EQ(counts, (std::vector<std::int64_t>{901, 901, 901, 901, 901, 900, 900, 900, 900, 900}));
}

/// Overrides only what must be.
class SmallDataset final : public Dataset {
  public:
    SmallDataset() {
        info_.samples = 7;
        info_.sample_shape = {2};
        info_.classes = 3;
    }
    const DatasetInfo& info() const override { return info_; }
    std::string name() const override { return "small"; }
    void read(std::span<const std::int64_t> indices, std::span<std::byte> samples,
              std::span<std::int64_t> labels) const override {
        ASSERT_EQ(samples.size(), 2 * indices.size());
        for (std::size_t i = 0; i < indices.size(); ++i) labels[i] = indices[i] % 3;
    }

  private:
    DatasetInfo info_;
};

TEST(Dataset, LabelsAreCountedByReadingSamplesUnlessItHasAShorterWay) {
    EXPECT_EQ(count_labels(SmallDataset()), (std::vector<std::int64_t>{3, 2, 2}));
}

TEST(Dataset, ImagesWhoseChannelsSeemToComeFirstAreDoubted) {
    DatasetInfo info;
    for (const auto& [shape, doubted] : std::vector<std::pair<Shape, bool>>{{{3, 32, 32}, true},
                                                                            {{1, 28, 28}, true},
                                                                            {{28, 28, 1}, false},
                                                                            {{32, 32, 3}, false},
                                                                            {{3, 480, 640}, true},
                                                                            {{4, 32, 16}, true},
                                                                            {{2, 32, 32}, false},
                                                                            {{1, 128, 3}, false},
                                                                            {{1, 1, 1}, false},
                                                                            {{3, 3, 3}, false},
                                                                            {{12}, false}}) {
        info.sample_shape = shape;
        info.dtype = shape.rank() == 3 ? DType::u8 : DType::f32;
        EXPECT_EQ(!doubt_about_layout(info).empty(), doubted) << to_string(shape);
    }
    info.dtype = DType::u8;
    info.sample_shape = {3, 32, 32};
    info.frames = 16;
    EXPECT_EQ(doubt_about_layout(info), "") << "clips";
    info.frames = 0;
    EXPECT_EQ(
        doubt_about_layout(info),
        "samples are [3, 32, 32], taken for images of 3 x 32 pixels with 32 channels; if their channels come "
        "first, store them as [N, H, W, C], in h5py with images.transpose(0, 2, 3, 1)");
}

}  // namespace
}  // namespace tutti
