// Data sets that HDF5 puts together from other files: whole, or refused.

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <numeric>

#include "hdf5_file.hpp"
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
    std::string refusal() const {
        return data_error([&] { open_hdf5_dataset(at("data.h5")); });
    }
    const TempDir dir_;
};

TEST_F(VirtualSources, are_read_where_they_are) {
    ImageFile{}.write(at("part.h5"));
    for (const std::string& source : {at("part.h5"), std::string("part.h5")}) {
        write(source);
        const std::unique_ptr<Dataset> data = open_hdf5_dataset(at("data.h5"));
        std::vector<std::int64_t> all(20), labels(20);
        std::iota(all.begin(), all.end(), 0);
        std::vector<std::byte> samples(20 * 24);
        data->read(all, samples, labels);
        const std::vector<std::uint8_t> pixels = counting_pixels(20 * 24);
        for (std::size_t i = 0; i < pixels.size(); ++i)
            ASSERT_EQ(static_cast<std::uint8_t>(samples[i]), pixels[i]);
    }
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

}  // namespace
}  // namespace tutti::test
