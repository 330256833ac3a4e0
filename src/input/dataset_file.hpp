#pragma once
// Opening the HDF5 file of a data set.

#include <string>

#include "hdf5_attributes.hpp"

namespace tutti {

/// For reading, without a file lock. DataError: missing, a pipe, not HDF5, truncated.
hdf5::File open_dataset_file(const std::string& path);

/// DataError: its attributes do not say that it is a data set, or one of another version of the schema.
void require_schema(const hdf5::File& file);

}  // namespace tutti
