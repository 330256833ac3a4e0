// Where samples that are packed from images lie in a larger picture.
#include <gtest/gtest.h>

#include "hdf5_file.hpp"
#include "input/image_file.hpp"
#include "input/picture_offset.hpp"
#include "pack_helpers.hpp"
#include "png_files.hpp"
#include "tutti/input/geography.hpp"
#include "tutti/input/pack.hpp"

namespace tutti {
namespace {

using test::png;
using From = PlacementSource::From;

class PackPlacements : public test::PackListed {
  protected:
    void SetUp() override {
        PackListed::SetUp();
        options_.labelled = false;
        write("in/frame_3_10.png", png(4, 8, 0, std::string(32, '\7')));
    }
    /// Where pixel (x, y) of a sample is, in a picture whose degrees are its pixels.
    std::pair<double, double> place(std::int64_t sample, SamplePlace at) const {
        std::vector<double> latitudes, longitudes;
        for (int i = 0; i < 60 * 60; ++i) {
            latitudes.push_back(i / 60 * 1e-3);
            longitudes.push_back(i % 60 * 1e-3);
        }
        const auto position =
            Geography(GeoGrid(60, 60, latitudes, longitudes), placements()).position(sample, at);
        return {position->longitude * 1e3, position->latitude * 1e3};
    }
    std::vector<SamplePlacement> placements() const;
};

/// Read with HDF5's own functions.
std::vector<SamplePlacement> PackPlacements::placements() const {
    const hdf5::Handle file(H5Fopen(options_.output.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), H5Fclose);
    const hdf5::Handle data(H5Dopen2(file.get(), "/placements", H5P_DEFAULT), H5Dclose);
    const hdf5::Handle space(H5Dget_space(data.get()), H5Sclose);
    std::vector<SamplePlacement> rows(static_cast<std::size_t>(H5Sget_simple_extent_npoints(space.get())) /
                                      4);
    H5Dread(data.get(), H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, rows.data());
    return rows;
}

TEST_F(PackPlacements, AreStoredOnlyWhenAsked) {
    pack("path\nframe_3_10.png\n");
    EXPECT_FALSE(has_placements(options_.output));
    options_.placements = PlacementSource{From::image, {}, {}};
    pack("path\nframe_3_10.png\n");
    EXPECT_EQ(placements(), std::vector{SamplePlacement()});
}

TEST_F(PackPlacements, ComeFromNamesOrFromColumns) {
    options_.placements = PlacementSource{From::name, {}, {}};
    pack("path\nframe_3_10.png\n");
    EXPECT_EQ(placements(), (std::vector{SamplePlacement{3, 10, 1, 1}}));
    options_.placements = PlacementSource{From::columns, "x0", "y0"};
    pack("path,y0,x0\nframe_3_10.png, 7.5,-2\nframe_3_10.png,1,0\n");
    EXPECT_EQ(placements(), (std::vector{SamplePlacement{-2, 7.5, 1, 1}, SamplePlacement{0, 1, 1, 1}}));
    EXPECT_EQ(refusal([&] { pack("path,y0,x0\nframe_3_10.png,,1\n"); }),
              "4 " + options_.csv +
                  ":2: column y0: '' is not a finite number; give the first pixel's place in the picture, or "
                  "leave the row out");
    EXPECT_NE(refusal([&] { pack("path,x0\nframe_3_10.png,1\n"); }).find("y0"), std::string::npos);
}

TEST_F(PackPlacements, FollowWhatTheImageBecame) {
    options_.placements = PlacementSource{From::name, {}, {}};
    options_.targets = options_.target_pixels = {"x", "y"};
    options_.height = options_.width = 4;
    for (const Fit fit : {Fit::letterbox, Fit::crop, Fit::stretch}) {
        options_.fit = fit;
        pack("path,x,y\nframe_3_10.png,6,2\n");
        const auto data = open_hdf5_dataset(options_.output);
        // Whatever became of the image, its place is where it was in the picture.
        const auto [x, y] =
            place(0, {static_cast<double>(data->targets()[0]), static_cast<double>(data->targets()[1])});
        EXPECT_NEAR(x, 9, 1e-5);
        EXPECT_NEAR(y, 12, 1e-5);
    }
}

TEST_F(PackPlacements, TargetsMustBeOfTheSamePixels) {
    options_.placements = PlacementSource{From::image, {}, {}};
    options_.targets = {"x", "y"};
    pack("path,x,y\nframe_3_10.png,6,2\n");
    options_.height = options_.width = 4;
    EXPECT_EQ(
        refusal([&] { pack("path,x,y\nframe_3_10.png,6,2\n"); }),
        "2 --placements says where pixels of samples lie, but with --size the places in --target stay in "
        "pixels of the images; name the columns with them, too: --target-pixels X,Y");
}

TEST_F(PackPlacements, OfClipsAreThoseOfTheirFolders) {
    PackClipsOptions clips;
    clips.folder = at("clips");
    clips.output = options_.output;
    clips.frames = 2;
    clips.placements = PlacementSource{From::name, {}, {}};
    write("clips/calm/01-02-2020_0600_213_196/1.png", png(4, 8, 0, std::string(32, '\7')));
    write("clips/storm/01-02-2020_0600_0_0/1.png", png(4, 8, 0, std::string(32, '\7')));
    pack_clips(clips);
    EXPECT_EQ(placements(), (std::vector{SamplePlacement{213, 196, 1, 1}, SamplePlacement{0, 0, 1, 1}}));
    write("clips/storm/none/1.png", png(4, 8, 0, std::string(32, '\7')));
    EXPECT_EQ(
        refusal([&] { pack_clips(clips); }),
        "4 " + at("clips/storm/none") +
            ": its name does not end in two numbers, as frame_213_196 does, so that it is not known where "
            "it lies in the picture; rename it, or list x and y in two columns of a table: --csv FILE "
            "--placements X,Y");
    write("clips/storm/01-02-2020_0600_0_0/2.png", png(8, 8, 0, std::string(64, '\7')));
    std::filesystem::remove_all(at("clips/storm/none"));
    clips.height = clips.width = 4;
    EXPECT_NE(refusal([&] { pack_clips(clips); }).find("or leave out --placements"), std::string::npos);
}

TEST(PictureOffset, IsTheLastTwoNumbersOfTheName) {
    const auto of = [](const std::string& path) {
        const PictureOffset offset = offset_in_name(path);
        return std::pair(offset.x, offset.y);
    };
    EXPECT_EQ(of("a/01-02-2020_0600_213_196"), std::pair(213.0, 196.0));
    EXPECT_EQ(of("a/01-02-2020_0600_213_196/"), std::pair(213.0, 196.0));
    EXPECT_EQ(of("a_9_9/x_1065_0.png"), std::pair(1065.0, 0.0));
    EXPECT_EQ(of("x_1_2.JPEG"), std::pair(1.0, 2.0));
    EXPECT_EQ(of("x_-1_2"), std::pair(-1.0, 2.0));
    for (const char* name : {"x_1", "1_2", "x_1_2_", "x_1_2.5", "x_a_2", "", "x_1_ 2"})
        EXPECT_THROW(of(name), DataError) << name;
}

}  // namespace
}  // namespace tutti
