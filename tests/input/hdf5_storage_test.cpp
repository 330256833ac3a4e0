// Samples that a job did not get to write: HDF5 would give zeros for them.

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "hdf5_file.hpp"
#include "support/error_message.hpp"
#include "support/temp_dir.hpp"
#include "tutti/input/dataset.hpp"

namespace tutti::test {
namespace {

using Layout = std::function<void(hid_t)>;

class UnwrittenSamples : public testing::Test {
  protected:
    std::string at(const std::string& name) const { return dir_.path() + "/" + name; }
    /// What is said of images of which the first `rows` of 20 were written.
    std::string refusal(hsize_t rows, const Layout& layout = {}) const {
        ImageFile file;
        file.change = [&](Hdf5File& f) {
            f.remove_table("samples");
            f.table("samples", H5T_STD_U8LE, H5T_NATIVE_UINT8, {20, 4, 3, 2}, nullptr, layout);
            if (rows > 0) f.first_rows("samples", H5T_NATIVE_UINT8, rows, counting_pixels(rows * 24).data());
        };
        file.write(at("data.h5"));
        return data_error([this] { open_hdf5_dataset(at("data.h5")); });
    }
    /// In raw files of so many bytes, "one" and "two".
    std::string raw_refusal(std::size_t one, std::size_t two) const {
        std::ofstream(at("one")) << std::string(one, 'x');
        std::ofstream(at("two")) << std::string(two, 'x');
        return refusal(0, [this](hid_t layout) {
            H5Pset_external(layout, at("one").c_str(), 10, 100);
            H5Pset_external(layout, at("two").c_str(), 0, H5F_UNLIMITED);
        });
    }
    const TempDir dir_;
};

void chunked(hid_t layout) {
    const hsize_t chunk[] = {7, 4, 2, 2};
    H5Pset_chunk(layout, 4, chunk);
}

TEST_F(UnwrittenSamples, in_one_piece_are_refused) {
    EXPECT_EQ(refusal(0),
              at("data.h5") +
                  ": /samples is uint8 [20, 4, 3, 2], 480 bytes, of which 0 were written: what wrote "
                  "it was ended, or is not done yet; write all of it, or pack it again with: trainer "
                  "pack idx, images, clips, features or csv; or correct what wrote it by the schema in "
                  "data/README.md");
    EXPECT_EQ(refusal(20), "");
}

TEST_F(UnwrittenSamples, in_chunks_are_counted) {
    const Layout compressed = [](hid_t layout) {
        chunked(layout);
        H5Pset_deflate(layout, 1);
    };
    for (const Layout& layout : {Layout(chunked), compressed}) {
        EXPECT_CONTAINS(refusal(0, layout), "[20, 4, 3, 2], 6 chunks, of which 0 were written: ");
        EXPECT_CONTAINS(refusal(14, layout), "[20, 4, 3, 2], 6 chunks, of which 4 were written: ");
        EXPECT_EQ(refusal(20, layout), "");
    }
}

TEST_F(UnwrittenSamples, in_raw_files_are_those_behind_their_ends) {
    EXPECT_EQ(raw_refusal(110, 380), "");
    EXPECT_CONTAINS(raw_refusal(110, 379),
                    "480 bytes, of which 479 are there: " + at("two") + " ends too early");
    EXPECT_CONTAINS(raw_refusal(60, 380),
                    "480 bytes, of which 50 are there: " + at("one") + " ends too early");
    EXPECT_EQ(raw_refusal(110, 380), "");
    std::remove(at("two").c_str());
    EXPECT_CONTAINS(data_error([this] { open_hdf5_dataset(at("data.h5")); }), at("two") + " is missing");
}

TEST_F(UnwrittenSamples, in_raw_files_below_hdf5s_prefix_are_found) {
    std::ofstream(at("raw")) << std::string(480, 'x');
    const auto said = [this] {
        return refusal(0, [](hid_t layout) { H5Pset_external(layout, "raw", 0, H5F_UNLIMITED); });
    };
    EXPECT_CONTAINS(said(), "raw is missing");
    setenv("HDF5_EXTFILE_PREFIX", "${ORIGIN}", 1);
    EXPECT_EQ(said(), "");
    unsetenv("HDF5_EXTFILE_PREFIX");
}

}  // namespace
}  // namespace tutti::test
