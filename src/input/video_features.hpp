#pragma once
// Features of the seconds of videos, read part by part.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "segment_list.hpp"
#include "tutti/input/pack.hpp"

namespace tutti {

/// What the files of a part have.
struct Extent {
    std::vector<std::int64_t> columns;  // of each folder
    std::int64_t last = 0;              // the part's, or less where files end before it

    std::int64_t width() const;
};

/// Reads the files of parts, one of each folder. Several threads may.
class PartReader {
  public:
    /// options: kept.
    explicit PartReader(const PackFeaturesOptions& options) : options_(options) {}

    /// Looks at the files without their values. DataError: one is missing, damaged or too short.
    Extent extent(const VideoPart& part) const;

    /// Seconds first … last − 1: the rows of all folders, side by side; each row begins `stride` floats
    /// behind the one before, of which those behind the features are 1. DataError: a value is not finite, a
    /// file was changed.
    std::vector<float> read(const VideoPart& part, const Extent& extent, std::int64_t first,
                            std::int64_t last, std::int64_t stride) const;

  private:
    const PackFeaturesOptions& options_;
};

/// A part of which there are files.
struct PartSource {
    VideoPart part;
    Extent extent;

    std::int64_t seconds() const { return extent.last - part.first; }
};

/// A piece of a part, which one thread reads.
struct PartPiece {
    const PartSource* source;
    std::int64_t first, last;
};

/// The parts of the list that can be packed, in its order; with `skipped` all values are looked at, and the
/// others are told. accepts: throws DataError for a part that is not to be packed. UsageError: the output is
/// one of the files. DataError: one cannot be packed (without `skipped`), or none.
std::vector<PartSource> find_sources(std::vector<VideoPart> parts, const PartReader& reader,
                                     const PackFeaturesOptions& options,
                                     const std::function<void(const std::string&)>& skipped,
                                     const std::function<void(const PartSource&)>& accepts = {});

/// The sources in pieces of packed_piece_bytes at most, or a second, where a second is `row` floats.
std::vector<PartPiece> pieces_of(const std::vector<PartSource>& sources, std::int64_t row);

}  // namespace tutti
