#include "tutti/input/geography.hpp"
#include "tutti/base/units.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstddef>
#include <span>
#include <utility>

#include "dataset_file.hpp"
#include "hdf5_storage.hpp"
#include "hdf5_table.hpp"
#include "schema.hpp"
#include "tutti/base/error.hpp"

namespace tutti {
namespace {

using hdf5::Table;

constexpr const char* how_to_place =
    "pack it again with --placements (data/README.md), or go on without kilometres: data.latitudes=null "
    "data.longitudes=null";

void append_placements(const hdf5::File& file, std::int64_t samples, std::vector<SamplePlacement>& to) {
    const Table table = hdf5::open_table(file, schema::placements_dataset, how_to_place);
    const auto fail = [&](const std::string& problem) {
        schema::fail(file.path, schema::placements_dataset + problem, how_to_place);
    };
    if (H5Tget_class(table.type.get()) != H5T_FLOAT || table.dims.size() != 2 ||
        table.dims[1] != std::int64_t{placement_numbers})
        fail(" is " + hdf5::describe(table) + ", but must be float32 or float64 [N, 4]");
    if (table.dims[0] != samples)
        fail(fmt::format(" has {}, but /samples has {}", counted(table.dims[0], "row"), samples));
    if (const hdf5::Storage storage = hdf5::storage_of(table); !storage.complete)
        fail(" was not written as a whole: " + storage.missing);
    const std::size_t before = to.size();
    to.resize(before + static_cast<std::size_t>(samples));
    if (H5Dread(table.data.get(), H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, to.data() + before) < 0)
        fail(" cannot be read: " + hdf5::last_error());
    for (std::size_t i = before; i < to.size(); ++i) {
        const SamplePlacement& of = to[i];
        const bool finite = std::isfinite(of.x) && std::isfinite(of.y) && std::isfinite(of.x_step) &&
                            std::isfinite(of.y_step);
        if (!finite || of.x_step == 0 || of.y_step == 0)
            fail(
                fmt::format(" of sample {} is ({}, {}, {}, {}): steps that are not 0, and finite numbers, "
                            "are needed",
                            i - before, of.x, of.y, of.x_step, of.y_step));
    }
}

/// Whether pixels from `first` on, `step` apart, have one on a line of `size` pixels.
bool reach(double first, double step, std::int64_t count, std::int64_t size) {
    const double last = first + step * static_cast<double>(count - 1);
    return std::max(first, last) >= -0.5 && std::min(first, last) <= static_cast<double>(size) - 0.5;
}

/// What lies beside the picture is of another one, or the grid is: its places would all come to lie on the
/// border, and the distances between them would be too short.
void require_share(std::span<const SamplePlacement> placements, const Shape& shape, const GeoGrid& grid,
                   const std::string& path, const std::string& latitudes) {
    for (std::size_t i = 0; i < placements.size(); ++i) {
        const SamplePlacement& of = placements[i];
        if (reach(of.x, of.x_step, shape[1], grid.width()) && reach(of.y, of.y_step, shape[0], grid.height()))
            continue;
        throw DataError(
            fmt::format(
                "{}: sample {}, whose first pixel is at x {}, y {} (/placements), lies beside the picture "
                "of {} x {} pixels (height x width) of data.latitudes {}",
                path, i, of.x, of.y, grid.height(), grid.width(), latitudes),
            "give the arrays of the picture that the samples were cut from, as [height, width]");
    }
}

}  // namespace

Geography::Geography(GeoGrid grid, std::vector<SamplePlacement> placements)
    : grid_(std::move(grid)), placements_(std::move(placements)) {}

std::optional<EarthPosition> Geography::position(std::int64_t sample, const SamplePlace& place) const {
    if (placements_.empty()) return grid_.at(place.x, place.y);
    assert(sample >= 0 && sample < std::ssize(placements_));
    const SamplePlacement& at = placements_[static_cast<std::size_t>(sample)];
    return grid_.at(at.x + at.x_step * place.x, at.y + at.y_step * place.y);
}

std::optional<double> Geography::distance_km(std::int64_t sample, const SamplePlace& a,
                                             const SamplePlace& b) const {
    const auto from = position(sample, a), to = position(sample, b);
    if (!from || !to) return {};
    return great_circle_km(*from, *to);
}

Geography open_geography(const DataConfig& config, std::span<const std::string> files, const Shape& shape) {
    if (shape.rank() != 3)
        throw UsageError(
            "data.latitudes is for places in images, but samples are of shape " + to_string(shape),
            "leave it out");
    GeoGrid grid = read_geo_grid(config.latitudes, config.longitudes);
    const hdf5::QuietErrors quiet;
    std::vector<SamplePlacement> placements;
    bool any = false;
    for (const std::string& path : files) {
        const hdf5::File file = open_dataset_file(path);
        require_schema(file);
        const hdf5::Table table = hdf5::open_table(file, schema::samples_dataset);
        if (table.dims.empty()) schema::fail(path, "/samples is " + hdf5::describe(table));
        const std::int64_t samples = table.dims.front();
        if (hdf5::has_table(file, schema::placements_dataset)) {
            append_placements(file, samples, placements);
            require_share(std::span(placements).last(static_cast<std::size_t>(samples)), shape, grid, path,
                          config.latitudes);
            any = true;
            continue;
        }
        if (shape[0] != grid.height() || shape[1] != grid.width())
            throw DataError(
                fmt::format("{} does not say where its samples of {} x {} pixels lie in the picture of {} x "
                            "{} of data.latitudes {}: there is no data set /placements",
                            path, shape[0], shape[1], grid.height(), grid.width(), config.latitudes),
                how_to_place);
        placements.insert(placements.end(), static_cast<std::size_t>(samples), SamplePlacement());
    }
    if (!any) placements.clear();
    return {std::move(grid), std::move(placements)};
}

bool has_placements(const std::string& path) {
    const hdf5::QuietErrors quiet;
    return hdf5::has_table(open_dataset_file(path), schema::placements_dataset);
}

}  // namespace tutti
