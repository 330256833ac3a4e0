#pragma once
// What `trainer` trains when it is given no config.

#include <string>

namespace tutti {

/// The recipe as YAML; without a data directory it names no data.
std::string quickstart_recipe(const std::string& data_directory);

/// Where train.h5 and test.h5 of Fashion-MNIST are: $TUTTI_DATA_DIR, data/fashion_mnist in the working
/// directory, the same beside the program's build folder, the user's cache. If they are nowhere but Debian's
/// package dataset-fashion-mnist is installed, they are packed into the cache first. Call it on one rank.
/// Throws DataError that says how to get them.
std::string find_quickstart_data();

}  // namespace tutti
