#pragma once
// What of an HDF5 data set was written.

#include <string>

#include "hdf5_table.hpp"

namespace tutti::hdf5 {

/// What of a table's values the file holds. What was never written has no storage: the library makes it up,
/// of zeros where the file gives nothing else, however large the table claims to be.
struct Storage {
    bool complete = true;
    bool known = true;    ///< the file's own list of chunks can be read
    bool empty = false;   ///< nothing was written, of a table that has values
    std::string missing;  ///< "24 bytes, of which 0 were written"; empty where it is complete
};
/// Of virtual data sets nothing: require_virtual_sources() looks at those.
Storage storage_of(const Table& table);

}  // namespace tutti::hdf5
