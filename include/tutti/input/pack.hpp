#pragma once
// Makes HDF5 data sets.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tutti/input/dataset.hpp"

namespace tutti {

/// Writes one data set (schema: data/README.md): to a temporary file beside `path`, synced, then renamed, so
/// that `path` is either complete or as before. samples: info.samples · info.sample_bytes(); labels:
/// info.samples. Throws DataError, and RunError where writing fails.
void write_hdf5_dataset(const std::string& path, const DatasetInfo& info, std::span<const std::byte> samples,
                        std::span<const std::int64_t> labels, const std::string& source);

struct PackIdxOptions {
    std::string images, labels, output;
    std::vector<std::string> class_names;  ///< empty: "0", "1", …
    std::vector<float> mean, std;          ///< empty: none in the file
};
/// Packs a pair of IDX files (Y. LeCun's MNIST format; plain or gzip) of u8 images [N, H, W] and u8 labels
/// [N]. Throws DataError: missing, truncated, wrong magic number, numbers of images and labels that differ;
/// and RunError where writing fails.
/// Returns what was written.
DatasetInfo pack_idx(const PackIdxOptions& options);

}  // namespace tutti
