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
    /// Those of the samples first … first + count − 1, which must be there, in UTF-8 (a byte that is not
    /// becomes U+FFFD); empty in files without /paths. Reads in pieces of about a MiB. DataError: a read that
    /// fails.
    virtual std::vector<std::string> read(std::int64_t first, std::int64_t count) const = 0;
};

/// Opens HDF5 data sets, and reads all their /paths once. Null: none of them has any; what is no text [N] is
/// no such. DataError, with the file: as open_hdf5_dataset() for what is no data set; texts that are not one
/// for each sample, not written as a whole, or cannot be read.
std::unique_ptr<SamplePaths> open_sample_paths(std::span<const std::string> files);

}  // namespace tutti
