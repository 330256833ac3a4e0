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
    /// Files of which a virtual one is made, to be kept while `data` is read.
    std::vector<Handle> sources{};
};

Table table_of(Handle data);

/// Whether the file has something of this name.
bool has_table(const File& file, const char* name);

/// DataError: there is none, or it cannot be opened.
Table open_table(const File& file, const char* name, const std::string& remedy = schema::pack_again());

/// "uint8 [10, 28, 28]".
std::string describe(const Table& table);

}  // namespace tutti::hdf5
