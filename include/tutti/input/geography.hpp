#pragma once
// Where on the earth places in samples are.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tutti/base/config.hpp"
#include "tutti/base/shape.hpp"
#include "tutti/input/geo_grid.hpp"
#include "tutti/input/sample_placement.hpp"

namespace tutti {

/// A place in a sample, in its pixels, x to the right and y down.
struct SamplePlace {
    double x, y;
};

/// Of the samples of a data set. Immutable.
class Geography {
  public:
    /// placements: of each sample; none: each shows the whole picture, pixel by pixel.
    Geography(GeoGrid grid, std::vector<SamplePlacement> placements);

    /// As GeoGrid::at().
    std::optional<EarthPosition> position(std::int64_t sample, const SamplePlace& place) const;
    /// Kilometres between two places of a sample; nothing where the picture shows no earth at one of them.
    std::optional<double> distance_km(std::int64_t sample, const SamplePlace& a, const SamplePlace& b) const;

  private:
    GeoGrid grid_;
    std::vector<SamplePlacement> placements_;
};

/// Reads data.latitudes and data.longitudes, and the /placements (data/README.md) of data sets, one behind
/// the other; 32 B per sample. shape: [height, width, channels] of a sample. DataError: what is wrong with a
/// file; one without /placements whose samples are not as large as the picture, or a sample that lies beside
/// it; UsageError: samples that are no images.
Geography open_geography(const DataConfig& config, std::span<const std::string> files, const Shape& shape);

/// Whether a data set has /placements. DataError: as open_hdf5_dataset() for what is no data set.
bool has_placements(const std::string& file);

}  // namespace tutti
