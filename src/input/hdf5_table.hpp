#pragma once
// A data set of an HDF5 file, opened: what it is of, and how large.

#include <cstdint>
#include <string>
#include <vector>

#include "hdf5_attributes.hpp"
#include "hdf5_support.hpp"
#include "schema.hpp"

namespace tutti::hdf5 {

struct Table {
    Handle data, type, space;
    std::vector<std::int64_t> dims;
};

/// Whether the file has something of this name.
bool has_table(const File& file, const char* name);

/// DataError: there is none, or it cannot be opened.
Table open_table(const File& file, const char* name, const std::string& remedy = schema::pack_again());

/// What of a table's values the file holds. What was never written has no storage: the library makes it up,
/// of zeros where the file gives nothing else, however large the table claims to be.
struct Storage {
    std::uint64_t needed = 0, held = 0;  ///< bytes
    bool complete = true;
};
/// Compressed chunks may be of any size: they are only known to be missing where there are none.
Storage storage_of(const Table& table);

/// "uint8 [10, 28, 28]".
std::string describe(const Table& table);

}  // namespace tutti::hdf5
