#pragma once
// HDF5's virtual data sets, whose values lie in other files.

#include <string>
#include <vector>

#include "hdf5_table.hpp"

namespace tutti::hdf5 {

/// Of which files a virtual data set is made, open as the library opens them: that may take a lock (1.10
/// does, whatever is said of the file itself), and it reads zeros where it does not get one later.
///
/// DataError: a file of which this virtual data set is made, or the data set in it, is not there or was not
/// written as a whole, or values are in none of them. HDF5 itself then reads zeros without a word (seen with
/// 2.0). Nothing for data sets that are not virtual. `path`, `name`: where it lies.
std::vector<Handle> open_virtual_sources(const Table& table, const std::string& path,
                                         const std::string& name);

}  // namespace tutti::hdf5
