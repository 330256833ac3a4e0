#include "tutti/input/geo_grid.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstddef>
#include <numbers>
#include <utility>

#include "npy_file.hpp"
#include "tutti/base/error.hpp"

namespace tutti {
namespace {

constexpr double degree = std::numbers::pi / 180;

/// Where a coordinate lies between the pixels of a line: that far behind the first of two neighbours.
struct Between {
    std::size_t first, second;
    double behind;
};

Between between(double coordinate, std::int64_t size) {
    const double inside = std::clamp(coordinate, 0.0, static_cast<double>(size - 1));
    const double floor = std::floor(inside);
    const auto first = static_cast<std::size_t>(floor);
    return {first, std::min(first + 1, static_cast<std::size_t>(size - 1)), inside - floor};
}

constexpr const char* how_to_make =
    "write the degrees of each pixel [height, width] of the picture with numpy.save (data/README.md)";

std::vector<double> read_degrees(const NpyFile& file) {
    const std::int64_t rows = file.rows(), columns = file.columns();
    std::vector<float> degrees(static_cast<std::size_t>(rows * columns));
    file.read(0, rows, degrees.data(), columns);
    return {degrees.begin(), degrees.end()};
}

/// Radians in place of degrees, or pixels, would give distances that look as if they could be.
void require_degrees(const std::string& path, const std::vector<double>& values, double largest) {
    bool any = false;
    for (const double value : values) {
        any = any || std::isfinite(value);
        if (std::isfinite(value) && std::abs(value) > largest)
            throw DataError(
                fmt::format("{} has the value {}, but degrees are at most {}", path, value, largest),
                how_to_make);
    }
    if (!any) throw DataError(path + ": no value is finite", how_to_make);
}

}  // namespace

double great_circle_km(const EarthPosition& a, const EarthPosition& b) {
    constexpr double mean_radius_km = 6371.0088;
    const double down = std::sin((b.latitude - a.latitude) * degree / 2);
    const double across = std::sin((b.longitude - a.longitude) * degree / 2);
    const double haversine =
        down * down + std::cos(a.latitude * degree) * std::cos(b.latitude * degree) * across * across;
    // Rounding may put it above 1 between antipodes; a NaN stays one.
    return 2 * mean_radius_km * std::asin(haversine > 1 ? 1.0 : std::sqrt(haversine));
}

GeoGrid::GeoGrid(std::int64_t height, std::int64_t width, std::vector<double> latitudes,
                 std::vector<double> longitudes)
    : height_(height), width_(width), latitudes_(std::move(latitudes)), longitudes_(std::move(longitudes)) {
    assert(height >= 1 && width >= 1 && std::ssize(latitudes_) == height * width &&
           latitudes_.size() == longitudes_.size());
}

std::optional<EarthPosition> GeoGrid::at(double x, double y) const {
    if (std::isnan(x) || std::isnan(y)) return EarthPosition{};
    const Between column = between(x, width_), row = between(y, height_);
    // Degrees jump at the date line; unit vectors from the centre of the earth do not.
    std::array<double, 3> sum{};
    const auto add = [&](std::size_t line, std::size_t place, double weight) {
        if (weight == 0) return;
        const std::size_t at = line * static_cast<std::size_t>(width_) + place;
        const double latitude = latitudes_[at] * degree, longitude = longitudes_[at] * degree;
        sum[0] += weight * std::cos(latitude) * std::cos(longitude);
        sum[1] += weight * std::cos(latitude) * std::sin(longitude);
        sum[2] += weight * std::sin(latitude);
    };
    add(row.first, column.first, (1 - row.behind) * (1 - column.behind));
    add(row.first, column.second, (1 - row.behind) * column.behind);
    add(row.second, column.first, row.behind * (1 - column.behind));
    add(row.second, column.second, row.behind * column.behind);
    const double across = std::hypot(sum[0], sum[1]);
    if (!std::isfinite(across) || !std::isfinite(sum[2])) return {};
    return EarthPosition{std::atan2(sum[2], across) / degree, std::atan2(sum[1], sum[0]) / degree};
}

GeoGrid read_geo_grid(const std::string& latitudes_path, const std::string& longitudes_path) {
    const MatrixMeaning degrees{
        "[height, width]", "row of pixels", "degrees",
        "check the path, or go on without kilometres: data.latitudes=null data.longitudes=null"};
    const NpyFile latitude_file(latitudes_path, degrees), longitude_file(longitudes_path, degrees);
    const std::int64_t height = latitude_file.rows(), width = latitude_file.columns();
    if (longitude_file.rows() != height || longitude_file.columns() != width)
        throw DataError(
            fmt::format("{} has {} x {} values, but {} has {} x {}", longitudes_path, longitude_file.rows(),
                        longitude_file.columns(), latitudes_path, height, width),
            how_to_make);
    if (height < 1) throw DataError(latitudes_path + ": there is no row", how_to_make);
    std::vector<double> latitudes = read_degrees(latitude_file), longitudes = read_degrees(longitude_file);
    require_degrees(latitudes_path, latitudes, 90);
    require_degrees(longitudes_path, longitudes, 540);  // some count on across the date line
    return {height, width, std::move(latitudes), std::move(longitudes)};
}

}  // namespace tutti
