#pragma once
// Whether two data sets have the same samples, told by what surrounds them.

#include <string>

#include "tutti/input/dataset.hpp"

namespace tutti {

/// Of the number of samples, their bytes in the file, labels and targets; 16 hexadecimal digits, the same
/// whatever the files are called and however training transforms them. Samples themselves are not read: of
/// data with neither labels nor targets only number and size count. Throws DataError as read_labels() does.
std::string data_fingerprint(const Dataset& data);

}  // namespace tutti
