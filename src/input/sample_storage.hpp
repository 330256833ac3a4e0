#pragma once
// Where the samples of an HDF5 file lie, and how runs of them are fetched.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "hdf5_support.hpp"
#include "tutti/input/dataset.hpp"

namespace tutti {

/// read_run() may be called from several threads at once.
class SampleStorage {
  public:
    virtual ~SampleStorage() = default;
    /// Samples first … first+count−1 to `out`. Throws DataError naming file and sample.
    virtual void read_run(std::int64_t first, std::int64_t count, std::byte* out) const = 0;
};

/// Samples in one piece of the file from byte `offset` on, as they are in memory: read with pread.
/// DataError: the file ends before the last sample.
std::unique_ptr<SampleStorage> contiguous_storage(const std::string& path, const DatasetInfo& info,
                                                  std::uint64_t offset);

/// Everything else (chunks, filters, another byte order): read through the library, one call at a time. Takes
/// over the open file and its data set /samples.
std::unique_ptr<SampleStorage> library_storage(const std::string& path, const DatasetInfo& info,
                                               hdf5::Handle file, hdf5::Handle samples);

}  // namespace tutti
