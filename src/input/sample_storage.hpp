#pragma once
// Where the samples of an HDF5 file lie, and how they are fetched.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "hdf5_support.hpp"
#include "tutti/input/dataset.hpp"

namespace tutti {

/// read() may be called from several threads at once.
class SampleStorage {
  public:
    virtual ~SampleStorage() = default;
    /// The samples `indices`, all in [0, info.samples), one after the other to `out`. Throws DataError naming
    /// file and sample.
    virtual void read(std::span<const std::int64_t> indices, std::byte* out) const = 0;
    /// As those of Dataset; any thread.
    virtual void bring_in(BringInPatience& patience) const { static_cast<void>(patience); }
    virtual bool waits_for_disk() const { return false; }
    /// Whether read() calls the HDF5 library.
    virtual bool calls_library() const { return false; }
    virtual void announce(std::span<const std::int64_t> indices) const { static_cast<void>(indices); }
    /// Bytes of the file that are mapped into memory.
    virtual std::uint64_t mapped_bytes() const { return 0; }
    /// As that of Dataset.
    virtual std::uint64_t brought_in_bytes() const { return mapped_bytes(); }
    /// From now on nothing is mapped or brought in. Before the first read() and bring_in().
    virtual void fetch_as_needed() {}
};

/// Calls visit(first, count, begin) for each longest run of indices that follow each other: the samples first
/// … first+count−1 are indices begin … begin+count−1.
template <class Visit>
void for_each_run(std::span<const std::int64_t> indices, Visit visit) {
    for (std::size_t begin = 0, end = 0; begin < indices.size(); begin = end) {
        end = begin + 1;
        while (end < indices.size() && indices[end] == indices[end - 1] + 1) ++end;
        visit(indices[begin], static_cast<std::int64_t>(end - begin), begin);
    }
}

/// Samples in one piece of the file from byte `offset` on, as they are in memory: copied from a mapping of
/// the file where that is safe and they are few enough for `memory` (MappedSamples), else read with pread.
/// DataError: the file ends before the last sample.
std::unique_ptr<SampleStorage> contiguous_storage(const std::string& path, const DatasetInfo& info,
                                                  std::uint64_t offset, const FileMemory& memory);

/// Everything else (chunks, filters, another byte order): read through the library, one call at a time. Takes
/// over the open file and its data set /samples.
std::unique_ptr<SampleStorage> library_storage(const std::string& path, const DatasetInfo& info,
                                               hdf5::Handle file, hdf5::Handle samples);

/// As library_storage(), but where each sample is a chunk compressed with gzip (creation properties `layout`)
/// and they are more than its cache holds, the library only fetches it: it is decompressed here, by several
/// threads at once.
std::unique_ptr<SampleStorage> chunked_storage(const std::string& path, const DatasetInfo& info, hid_t layout,
                                               hdf5::Handle file, hdf5::Handle samples);

}  // namespace tutti
