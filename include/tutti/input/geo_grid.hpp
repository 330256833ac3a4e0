#pragma once
// Where on the earth the pixels of a picture are.

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace tutti {

/// Degrees, positive to the north and to the east.
struct EarthPosition {
    double latitude = std::numeric_limits<double>::quiet_NaN();
    double longitude = std::numeric_limits<double>::quiet_NaN();
};

/// Kilometres along the great circle between two positions on a sphere of the earth's mean radius, 6371.0088
/// km (IUGG; H. Moritz, Geodetic Reference System 1980), by the haversine formula (R. W. Sinnott, Virtues of
/// the Haversine, Sky & Telescope 68, 1984). NaN where a coordinate is. Pure.
double great_circle_km(const EarthPosition& a, const EarthPosition& b);

/// A position for each pixel [height, width] of a picture. Immutable.
class GeoGrid {
  public:
    /// latitudes, longitudes: [height · width], row-major, degrees; not finite where the picture shows no
    /// earth. height, width ≥ 1.
    GeoGrid(std::int64_t height, std::int64_t width, std::vector<double> latitudes,
            std::vector<double> longitudes);

    std::int64_t height() const { return height_; }
    std::int64_t width() const { return width_; }

    /// At x to the right and y down, in pixels from the centre of the first: between pixels linear in space,
    /// so also across the date line and the poles. Outside of the picture that of the nearest place on its
    /// border. Of coordinates that are NaN a position that is NaN; nothing where one of the pixels that count
    /// shows no earth.
    std::optional<EarthPosition> at(double x, double y) const;

  private:
    std::int64_t height_, width_;
    std::vector<double> latitudes_, longitudes_;
};

/// Reads two .npy files of f16, f32 or f64 [height, width]. DataError: what is wrong with one, and how to
/// make it.
GeoGrid read_geo_grid(const std::string& latitudes, const std::string& longitudes);

}  // namespace tutti
