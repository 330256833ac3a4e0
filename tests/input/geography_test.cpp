#include "tutti/input/geography.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>

#include "hdf5_file.hpp"
#include "npy_files.hpp"
#include "support/error_message.hpp"
#include "support/files.hpp"
#include "support/temp_dir.hpp"
#include "tutti/input/dataset.hpp"

namespace tutti {
namespace {

using test::Hdf5File;
using test::ImageFile;

/// Of 20 x 30 pixels, a tenth of a degree each.
class GeographyOfFiles : public testing::Test {
  protected:
    GeographyOfFiles() {
        std::vector<float> latitudes, longitudes;
        for (int i = 0; i < 600; ++i) {
            latitudes.push_back(40.F - 0.1F * static_cast<float>(i / 30));
            longitudes.push_back(5.F + 0.1F * static_cast<float>(i % 30));
        }
        config_.latitudes = dir_.path() + "/latitudes.npy";
        config_.longitudes = dir_.path() + "/longitudes.npy";
        test::write_file(config_.latitudes, test::npy("<f4", "(20, 30)", latitudes));
        test::write_file(config_.longitudes, test::npy("<f4", "(20, 30)", longitudes));
    }
    std::string at(const std::string& name) const { return dir_.path() + "/" + name; }
    std::string data(const std::string& name, hsize_t samples, const std::vector<double>& placements) const {
        ImageFile{.samples = samples,
                  .change =
                      [&](Hdf5File& file) {
                          if (!placements.empty())
                              file.table("placements", H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE,
                                         {placements.size() / 4, 4}, placements.data());
                      }}
            .write(at(name));
        return at(name);
    }
    Geography open(const std::vector<std::string>& files) const {
        return open_geography(config_, files, {4, 3, 2});
    }
    std::string refusal(const std::vector<std::string>& files) const {
        return test::data_error([&] { open(files); });
    }
    DataConfig config_;

  private:
    test::TempDir dir_;
};

TEST_F(GeographyOfFiles, SamplesOfSeveralFilesLieWhereTheySay) {
    const Geography map =
        open({data("a.h5", 2, {0, 0, 1, 1, 10, 5, 2, 0.5}), data("b.h5", 1, {-1, 3, 1, 1})});
    const auto expect = [&](std::int64_t sample, SamplePlace place, double latitude, double longitude) {
        const auto position = map.position(sample, place);
        ASSERT_TRUE(position);
        EXPECT_NEAR(position->latitude, latitude, 1e-4);
        EXPECT_NEAR(position->longitude, longitude, 1e-4);
    };
    expect(0, {2, 3}, 39.7, 5.2);
    expect(1, {2, 3}, 40 - 0.65, 6.4);
    expect(2, {2, 3}, 39.4, 5.1);
    expect(2, {0, 0}, 39.7, 5.0);  // a pixel outside of the picture
    EXPECT_NEAR(*map.distance_km(1, {0, 0}, {0, 2}), 0.1 * 111.195, 0.01);
    EXPECT_NEAR(*map.distance_km(1, {0, 0}, {1, 0}), 0.2 * 111.195 * std::cos(39.5 / 57.29578), 0.01);
    EXPECT_TRUE(has_placements(at("a.h5")));
}

TEST_F(GeographyOfFiles, AFileMustSayWhereItsSamplesLieUnlessTheyAreTheWholePicture) {
    const std::string bare = data("bare.h5", 2, {});
    EXPECT_FALSE(has_placements(bare));
    EXPECT_EQ(refusal({data("a.h5", 1, {0, 0, 1, 1}), bare}),
              bare +
                  " does not say where its samples of 4 x 3 pixels lie in the picture of 20 x 30 of "
                  "data.latitudes " +
                  config_.latitudes +
                  ": there is no data set /placements; pack it again with --placements (data/README.md), or "
                  "go on without kilometres: data.latitudes=null data.longitudes=null");
    test::write_file(config_.latitudes, test::npy("<f4", "(4, 3)", std::vector<float>(12, 50)));
    test::write_file(config_.longitudes,
                     test::npy("<f4", "(4, 3)", std::vector<float>{0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2}));
    EXPECT_NEAR(open({bare}).position(1, {1.5, 2})->longitude, 1.5, 1e-9);
    // Beside one that says it: those lie there, these are the picture.
    const Geography both = open({bare, data("a.h5", 1, {1, 0, 0.5, 1})});
    EXPECT_NEAR(both.position(1, {1, 2})->longitude, 1, 1e-9);
    EXPECT_NEAR(both.position(2, {1, 2})->longitude, 1.5, 1e-9);
}

TEST_F(GeographyOfFiles, ASampleBesideThePictureIsRefused) {
    // Of 4 x 3 pixels: some of the picture's are enough, as of an image with a border around it.
    open({data("edges.h5", 4, {-2, -3, 1, 1, 29.5, 19.5, 1, 1, -9, 3, 5, 5, 30, 0, -0.5, 1})});
    for (const char* const where : {"x -2.6, y 0", "x 29.6, y 0", "x 0, y -3.6", "x 0, y 19.6"}) {
        double x = 0, y = 0;
        ASSERT_EQ(std::sscanf(where, "x %lf, y %lf", &x, &y), 2);
        EXPECT_EQ(refusal({data("beside.h5", 2, {0, 0, 1, 1, x, y, 1, 1})}),
                  at("beside.h5") + ": sample 1, whose first pixel is at " + where +
                      " (/placements), lies beside the picture of 20 x 30 pixels (height x width) of "
                      "data.latitudes " +
                      config_.latitudes +
                      "; give the arrays of the picture that the samples were cut from, as [height, width]");
    }
}

TEST_F(GeographyOfFiles, WhatAreNoPlacementsIsRefused) {
    const std::string remedy =
        "; pack it again with --placements (data/README.md), or go on without kilometres: "
        "data.latitudes=null data.longitudes=null";
    const auto expect = [&](const std::vector<double>& placements, const std::string& problem) {
        const std::string file = data("bad.h5", 2, placements);
        EXPECT_EQ(refusal({file}), file + ": /placements" + problem + remedy);
    };
    expect({0, 0, 1, 1}, " has 1 row, but /samples has 2");
    expect({0, 0, 1, 1, 0, 0, 0, 1},
           " of sample 1 is (0, 0, 0, 1): steps that are not 0, and finite numbers, are needed");
    expect({0, std::nan(""), 1, 1, 0, 0, 1, 1},
           " of sample 0 is (0, nan, 1, 1): steps that are not 0, and finite numbers, are needed");
    ImageFile{.samples = 2,
              .change =
                  [](Hdf5File& file) {
                      const std::vector<double> numbers(6);
                      file.table("placements", H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, {2, 3}, numbers.data());
                  }}
        .write(at("narrow.h5"));
    EXPECT_EQ(
        refusal({at("narrow.h5")}),
        at("narrow.h5") + ": /placements is float64 [2, 3], but must be float32 or float64 [N, 4]" + remedy);
    EXPECT_EQ(test::message_of<UsageError>([&] { open_geography(config_, {}, {7}); }),
              "data.latitudes is for places in images, but samples are of shape [7]; leave it out");
}

}  // namespace
}  // namespace tutti
