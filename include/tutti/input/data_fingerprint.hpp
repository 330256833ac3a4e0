#pragma once
// Whether two data sets have the same samples, told without reading all of them.

#include <string>

#include "tutti/input/dataset.hpp"

namespace tutti {

/// Of the number of samples, their bytes in the file, labels and targets; 16 hexadecimal digits, the same
/// whatever the files are called and however training transforms them. Samples are not read. Throws DataError
/// as read_labels() does.
std::string labels_fingerprint(const Dataset& data);

/// Of these, of the file's own normalisation and, unless they are cropped, of the first, the middle and the
/// last sample: two sets of images with the same labels differ. of_labels: labels_fingerprint() of the same
/// data where that is known, so that labels are not read again; empty: it is taken here. Throws DataError as
/// read() does.
std::string data_fingerprint(const Dataset& data, const std::string& of_labels = {});

}  // namespace tutti
