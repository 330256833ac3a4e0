#pragma once
// Where the samples of data sets come from.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace tutti {

/// A text for each sample of one file, or of several, one behind the other: their /paths (data/README.md).
/// For one thread at a time.
class SamplePaths {
  public:
    virtual ~SamplePaths() = default;
    /// Of all files.
    virtual std::int64_t samples() const = 0;
    /// Those of the samples first … first + count − 1, which must be there, in UTF-8; empty in files without
    /// /paths. Holds a few MiB beside them. DataError: a read that fails.
    virtual std::vector<std::string> read(std::int64_t first, std::int64_t count) const = 0;
};

/// Opens HDF5 data sets, and looks at all that is in their /paths. Null: none of them has any. DataError,
/// with the file: as open_hdf5_dataset() for what is no data set; /paths that are no text, not one for each
/// sample, not written as a whole, cannot be read, or are not UTF-8 (with the sample).
std::unique_ptr<SamplePaths> open_sample_paths(std::span<const std::string> files);

}  // namespace tutti
