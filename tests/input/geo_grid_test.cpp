#include "tutti/input/geo_grid.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "hdf5_file.hpp"
#include "npy_files.hpp"
#include "support/files.hpp"
#include "support/temp_dir.hpp"
#include "tutti/base/error.hpp"

namespace tutti {
namespace {

constexpr double radius = 6371.0088, degree = std::numbers::pi / 180;

/// By the angle between the two directions from the centre of the earth, in another way than the haversine.
double by_angle(const EarthPosition& a, const EarthPosition& b) {
    const auto direction = [](const EarthPosition& p) {
        return std::array{std::cos(p.latitude * degree) * std::cos(p.longitude * degree),
                          std::cos(p.latitude * degree) * std::sin(p.longitude * degree),
                          std::sin(p.latitude * degree)};
    };
    const auto u = direction(a), v = direction(b);
    const double cross =
        std::hypot(u[1] * v[2] - u[2] * v[1], u[2] * v[0] - u[0] * v[2], u[0] * v[1] - u[1] * v[0]);
    return radius * std::atan2(cross, u[0] * v[0] + u[1] * v[1] + u[2] * v[2]);
}

TEST(GreatCircle, IsTheAngleTimesTheRadius) {
    EXPECT_EQ(great_circle_km({41, 12}, {41, 12}), 0);
    EXPECT_NEAR(great_circle_km({0, 0}, {0, 90}), radius * std::numbers::pi / 2, 1e-9);
    EXPECT_NEAR(great_circle_km({90, 17}, {-90, -120}), radius * std::numbers::pi, 1e-9);
    EXPECT_NEAR(great_circle_km({10, 179.5}, {10, -179.5}), great_circle_km({10, 0}, {10, 1}), 1e-9);
    EXPECT_NEAR(great_circle_km({10, -10}, {10, 350}), 0, 1e-9);
    for (double latitude = -90; latitude <= 90; latitude += 17)
        for (double longitude = -180; longitude <= 180; longitude += 31)
            for (const EarthPosition& to : {EarthPosition{48.85, 2.35}, EarthPosition{-33.9, 151.2}}) {
                const EarthPosition from{latitude, longitude};
                EXPECT_NEAR(great_circle_km(from, to), by_angle(from, to), 1e-6);
            }
    EXPECT_TRUE(std::isnan(great_circle_km({std::nan(""), 0}, {0, 0})));
    EXPECT_TRUE(std::isnan(great_circle_km({0, 0}, {0, std::nan("")})));
}

GeoGrid grid(std::int64_t height, std::int64_t width, double north, double west, double step) {
    std::vector<double> latitudes, longitudes;
    for (std::int64_t i = 0; i < height; ++i)
        for (std::int64_t j = 0; j < width; ++j) {
            latitudes.push_back(north - step * static_cast<double>(i));
            const double longitude = west + step * static_cast<double>(j);
            longitudes.push_back(longitude > 180 ? longitude - 360 : longitude);
        }
    return {height, width, latitudes, longitudes};
}

TEST(GeoGrid, PixelsHaveTheirPositionsAndPlacesBetweenThemTheirsBetween) {
    const GeoGrid map = grid(5, 7, 45, 10, 0.04);
    const auto corner = map.at(0, 0), last = map.at(6, 4);
    EXPECT_NEAR(corner->latitude, 45, 1e-12);
    EXPECT_NEAR(corner->longitude, 10, 1e-12);
    EXPECT_NEAR(last->latitude, 44.84, 1e-12);
    EXPECT_NEAR(last->longitude, 10.24, 1e-12);
    // Pixels of 3 km lie as good as on a plane.
    const auto between = map.at(2.25, 1.5);
    EXPECT_NEAR(between->latitude, 44.94, 1e-5);
    EXPECT_NEAR(between->longitude, 10.09, 1e-5);
}

TEST(GeoGrid, OutsideOfThePictureItsBorderCounts) {
    const GeoGrid map = grid(5, 7, 45, 10, 0.04);
    EXPECT_NEAR(map.at(-3, 2)->longitude, 10, 1e-12);
    EXPECT_NEAR(map.at(1e30, 2)->longitude, 10.24, 1e-12);
    EXPECT_NEAR(map.at(3, -INFINITY)->latitude, 45, 1e-12);
    EXPECT_TRUE(std::isnan(map.at(std::nan(""), 0)->latitude));
    EXPECT_TRUE(std::isnan(map.at(0, std::nan(""))->longitude));
    const GeoGrid one(1, 1, {7}, {8});
    EXPECT_NEAR(one.at(0.5, -0.5)->latitude, 7, 1e-12);
}

TEST(GeoGrid, GoesAcrossTheDateLineAndThePole) {
    const GeoGrid map = grid(3, 4, 60, 179.5, 1);  // 179.5, -179.5, -178.5, ...
    EXPECT_NEAR(std::abs(map.at(0.5, 1)->longitude), 180, 1e-9);
    EXPECT_NEAR(map.at(0.75, 1)->longitude, -179.75, 1e-3);
    const GeoGrid pole(1, 2, {89, 89}, {0, 180});
    EXPECT_NEAR(pole.at(0.5, 0)->latitude, 90, 1e-9);
}

TEST(GeoGrid, SaysWhereThereIsNoEarth) {
    const GeoGrid map(2, 2, {10, std::nan(""), 11, 12}, {20, std::nan(""), 21, INFINITY});
    EXPECT_TRUE(map.at(0, 0));
    EXPECT_FALSE(map.at(1, 0));
    EXPECT_FALSE(map.at(0.25, 0));
    EXPECT_TRUE(map.at(0, 0.5)) << "what does not count may be anything";
    EXPECT_FALSE(map.at(1, 1));
}

class GridFiles : public testing::Test {
  protected:
    template <class Value>
    std::string file(const std::string& name, const std::string& shape, const std::vector<Value>& values,
                     const char* type) const {
        test::write_file(dir_.path() + "/" + name, test::npy(type, shape, values));
        return dir_.path() + "/" + name;
    }
    std::string floats(const std::string& name, const std::string& shape,
                       const std::vector<float>& values) const {
        return file(name, shape, values, "<f4");
    }
    std::string refusal(const std::string& latitudes, const std::string& longitudes) const {
        std::string message = test::data_error([&] { read_geo_grid(latitudes, longitudes); });
        for (std::size_t at; (at = message.find(dir_.path() + "/")) != std::string::npos;)
            message.erase(at, dir_.path().size() + 1);
        return message;
    }

  private:
    test::TempDir dir_;
};

TEST_F(GridFiles, OfAnyFloatsAreRead) {
    const std::vector<double> doubles{45, 44.5, 44, 43.5, 43, 42.5};
    const GeoGrid map = read_geo_grid(file("latitudes.npy", "(2, 3)", doubles, "<f8"),
                                      floats("longitudes.npy", "(2, 3)", {1, 2, 3, 4, 5, NAN}));
    EXPECT_EQ(map.height(), 2);
    EXPECT_EQ(map.width(), 3);
    EXPECT_NEAR(map.at(1, 1)->latitude, 43, 1e-9);
    EXPECT_NEAR(map.at(1, 1)->longitude, 5, 1e-9);
    EXPECT_FALSE(map.at(2, 1));
}

TEST_F(GridFiles, WhatIsNoGridIsRefusedWithWhatToDo) {
    const std::string good = floats("good.npy", "(2, 2)", {1, 2, 3, 4}),
                      remedy =
                          "; write the degrees of each pixel [height, width] of the picture with numpy.save "
                          "(data/README.md)";
    EXPECT_EQ(refusal(good, floats("wide.npy", "(1, 4)", {1, 2, 3, 4})),
              "wide.npy has 1 x 4 values, but good.npy has 2 x 2" + remedy);
    EXPECT_EQ(refusal(floats("pixels.npy", "(2, 2)", {1, 2, 300, 4}), good),
              "pixels.npy has the value 300, but degrees are at most 90" + remedy);
    EXPECT_EQ(refusal(good, floats("far.npy", "(2, 2)", {1, 2, -541, 4})),
              "far.npy has the value -541, but degrees are at most 540" + remedy);
    EXPECT_EQ(refusal(good, floats("none.npy", "(2, 2)", {NAN, NAN, INFINITY, NAN})),
              "none.npy: no value is finite" + remedy);
    EXPECT_EQ(refusal(floats("empty.npy", "(0, 2)", {}), floats("empty2.npy", "(0, 2)", {})),
              "empty.npy: there is no row" + remedy);
    EXPECT_EQ(
        refusal(floats("line.npy", "(4,)", {1, 2, 3, 4}), good),
        "line.npy: it has the shape [4], not [height, width]; write it again with a row for each row of "
        "pixels");
    EXPECT_EQ(refusal(file("int.npy", "(2, 2)", std::vector<std::int32_t>{1, 2, 3, 4}, "<i4"), good),
              "int.npy: its values have the type <i4, not <f2, <f4 or <f8; write it again: numpy.save(path, "
              "degrees.astype('float32'))");
    EXPECT_EQ(refusal(good, good.substr(0, good.size() - 8) + "there-is-none.npy"),
              "there-is-none.npy: No such file or directory; check the path, or go on without kilometres: "
              "data.latitudes=null data.longitudes=null");
}

}  // namespace
}  // namespace tutti
