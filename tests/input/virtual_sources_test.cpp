// Data sets that HDF5 puts together from other files: whole, or refused.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <numeric>

#include "hdf5_file.hpp"
#include "support/error_message.hpp"
#include "support/temp_dir.hpp"
#include "tutti/input/dataset.hpp"

namespace tutti::test {
namespace {

class VirtualSources : public testing::Test {
  protected:
    std::string at(const std::string& name) const { return dir_.path() + "/" + name; }
    /// data.h5, whose samples are those of `source` as it is named.
    void write(const std::string& source, const char* table = "samples") const {
        ImageFile file;
        file.layout = [source, table](hid_t creation) {
            const hsize_t dims[] = {20, 4, 3, 2};
            const Handle space(H5Screate_simple(4, dims, nullptr), H5Sclose);
            H5Pset_virtual(creation, space.get(), source.c_str(), table, space.get());
        };
        file.write(at("data.h5"));
    }
    /// data.h5, of whose 20 samples the first `rows` are those of `table` in `source`.
    void write_first(hsize_t rows, const std::string& source = "part.h5",
                     const std::string& table = "samples") const {
        const auto layout = [&](hid_t creation) {
            const hsize_t dims[] = {20, 4, 3, 2}, begin[] = {0, 0, 0, 0}, count[] = {rows, 4, 3, 2};
            const Handle space(H5Screate_simple(4, dims, nullptr), H5Sclose);
            H5Sselect_hyperslab(space.get(), H5S_SELECT_SET, begin, nullptr, count, nullptr);
            H5Pset_virtual(creation, space.get(), source.c_str(), table.c_str(), space.get());
        };
        ImageFile file;
        file.change = [&](Hdf5File& f) {
            f.remove_table("samples");
            f.table("samples", H5T_STD_U8LE, H5T_NATIVE_UINT8, {20, 4, 3, 2}, nullptr, layout);
        };
        file.write(at("data.h5"));
    }
    /// part.h5, whose samples are in chunks of 4, the first `rows` of them written.
    void write_source(hsize_t rows) const {
        ImageFile file;
        file.change = [&](Hdf5File& f) {
            f.remove_table("samples");
            f.table("samples", H5T_STD_U8LE, H5T_NATIVE_UINT8, {20, 4, 3, 2}, nullptr, [](hid_t creation) {
                const hsize_t chunk[] = {4, 4, 3, 2};
                H5Pset_chunk(creation, 4, chunk);
            });
            f.first_rows("samples", H5T_NATIVE_UINT8, rows, counting_pixels(rows * 24).data());
        };
        file.write(at("part.h5"));
    }
    static bool has_its_pixels(const Dataset& data) {
        std::vector<std::int64_t> all(20), labels(20);
        std::iota(all.begin(), all.end(), 0);
        std::vector<std::byte> samples(20 * 24);
        data.read(all, samples, labels);
        const std::vector<std::uint8_t> pixels = counting_pixels(20 * 24);
        return std::ranges::equal(samples, std::as_bytes(std::span(pixels)));
    }
    std::string refusal() const {
        return data_error([&] { open_hdf5_dataset(at("data.h5")); });
    }
    const TempDir dir_;
};

TEST_F(VirtualSources, are_read_where_they_are) {
    ImageFile{}.write(at("part.h5"));
    for (const std::string& source : {at("part.h5"), std::string("part.h5")}) {
        write(source);
        EXPECT_TRUE(has_its_pixels(*open_hdf5_dataset(at("data.h5"))));
    }
}

/// Releases of HDF5 differ in whether they open them with locks.
TEST_F(VirtualSources, that_somebody_locks_later_are_not_read_as_zeros) {
    ImageFile{}.write(at("part.h5"));
    write("part.h5");
    const std::unique_ptr<Dataset> before = open_hdf5_dataset(at("data.h5"));
    const int other = open(at("part.h5").c_str(), O_RDONLY);
    const bool locked_by_us = flock(other, LOCK_EX | LOCK_NB) != 0;
    EXPECT_TRUE(has_its_pixels(*before));
    if (!locked_by_us) {
        EXPECT_TRUE(has_its_pixels(*open_hdf5_dataset(at("data.h5"))));
    }
    close(other);
}

TEST_F(VirtualSources, that_cannot_be_locked_are_refused_where_hdf5_would_lock_them) {
    ImageFile{}.write(at("part.h5"));
    write("part.h5");
    const int other = open(at("part.h5").c_str(), O_RDONLY);
    ASSERT_EQ(flock(other, LOCK_EX), 0);
    const std::string message = refusal();
    if (message.empty()) {
        EXPECT_TRUE(has_its_pixels(*open_hdf5_dataset(at("data.h5"))));
    } else {
        EXPECT_CONTAINS(message, at("part.h5") + " cannot be opened: ");
        EXPECT_CONTAINS(message, "export HDF5_USE_FILE_LOCKING=FALSE");
    }
    close(other);
}

TEST_F(VirtualSources, are_found_below_hdf5s_prefix) {
    std::filesystem::create_directory(at("parts"));
    ImageFile{}.write(at("part.h5"));
    write("part.h5");
    std::filesystem::rename(at("part.h5"), at("parts/part.h5"));
    EXPECT_NE(refusal(), "");
    for (const std::string& prefix : {at("parts"), std::string("${ORIGIN}/parts")}) {
        setenv("HDF5_VDS_PREFIX", prefix.c_str(), 1);
        EXPECT_EQ(refusal(), "") << prefix;
    }
    unsetenv("HDF5_VDS_PREFIX");
}

TEST_F(VirtualSources, that_are_missing_are_named_and_not_read_as_zeros) {
    ImageFile{}.write(at("part.h5"));
    write(at("part.h5"));
    std::remove(at("part.h5").c_str());
    EXPECT_EQ(refusal(), at("data.h5") + ": /samples is put together from other files, and " + at("part.h5") +
                             " is not there; HDF5 would read zeros there; bring it there, or give the files "
                             "themselves: data.train: [A.h5, B.h5]");
    ImageFile without;
    without.change = [](Hdf5File& file) { file.remove_table("samples"); };
    without.write(at("part.h5"));
    EXPECT_NE(refusal().find("there is no data set samples in " + at("part.h5")), std::string::npos)
        << refusal();
    std::FILE* const text = std::fopen(at("part.h5").c_str(), "w");
    std::fputs("text", text);
    std::fclose(text);
    EXPECT_NE(refusal().find(at("part.h5") + " cannot be opened: "), std::string::npos) << refusal();
}

TEST_F(VirtualSources, that_leave_samples_out_are_not_read_as_zeros) {
    ImageFile{}.write(at("part.h5"));
    write_first(20);
    EXPECT_EQ(refusal(), "");
    write_first(13);
    EXPECT_CONTAINS(refusal(),
                    "/samples is put together from other files, and of its 480 values only 312 are in one");
}

TEST_F(VirtualSources, of_the_same_file_must_be_in_it) {
    write_first(20, ".", "none");
    EXPECT_CONTAINS(refusal(), "there is no data set none in " + at("data.h5"));
}

TEST_F(VirtualSources, that_lead_back_to_themselves_are_refused) {
    write_first(20, ".");
    EXPECT_EQ(refusal(), at("data.h5") +
                             ": /samples is put together from other data, which lead back to samples of " +
                             at("data.h5") + " itself; write the values themselves");
}

TEST_F(VirtualSources, that_were_not_written_as_a_whole_are_not_read_as_zeros) {
    write_source(8);
    write_first(20);
    EXPECT_CONTAINS(refusal(), "samples of " + at("part.h5") +
                                   " is uint8 [20, 4, 3, 2], 5 chunks, of which 2 were written; HDF5 would");
    // What was written of one that grows may be taken.
    write_first(8);
    EXPECT_CONTAINS(refusal(), "of its 480 values only 192 are in one");
    write_source(20);
    write_first(20);
    EXPECT_EQ(refusal(), "");
}

/// A file for every four samples, as many as there are.
TEST_F(VirtualSources, that_are_numbered_are_found_by_their_numbers) {
    const std::vector<std::uint8_t> pixels = counting_pixels(20 * 24);
    for (hsize_t part = 0; part < 5; ++part) {
        Hdf5File file(at("part-" + std::to_string(part) + ".h5"));
        file.table("samples", H5T_STD_U8LE, H5T_NATIVE_UINT8, {4, 4, 3, 2}, pixels.data() + part * 96);
    }
    ImageFile file;
    file.change = [&](Hdf5File& f) {
        f.remove_table("samples");
        const hsize_t dims[] = {0, 4, 3, 2}, most[] = {H5S_UNLIMITED, 4, 3, 2}, four[] = {4, 4, 3, 2},
                      begin[] = {0, 0, 0, 0}, count[] = {H5S_UNLIMITED, 1, 1, 1};
        const Handle all(H5Screate_simple(4, dims, most), H5Sclose),
            one(H5Screate_simple(4, four, nullptr), H5Sclose),
            creation(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
        H5Sselect_hyperslab(all.get(), H5S_SELECT_SET, begin, four, count, four);
        H5Pset_virtual(creation.get(), all.get(), "part-%b.h5", "samples", one.get());
        const Handle data(
            H5Dcreate2(f.id(), "samples", H5T_STD_U8LE, all.get(), H5P_DEFAULT, creation.get(), H5P_DEFAULT),
            H5Dclose);
        ASSERT_TRUE(data);
    };
    file.write(at("data.h5"));
    EXPECT_EQ(refusal(), "");
    EXPECT_EQ(open_hdf5_dataset(at("data.h5"))->info().samples, 20);
    std::remove(at("part-3.h5").c_str());
    EXPECT_CONTAINS(refusal(), "/labels has 20 entries, but /samples has 12");
}

}  // namespace
}  // namespace tutti::test
