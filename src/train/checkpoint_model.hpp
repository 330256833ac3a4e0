#pragma once
// The model part of a checkpoint, for those who need nothing else of it.

#include <string>
#include <vector>

#include "hdf5_handle.hpp"
#include "tutti/base/named_tensor.hpp"

namespace tutti {

/// Whether an open HDF5 file is a checkpoint (of any version).
bool is_checkpoint(hid_t file);

/// The tensors of model/, checked against the hash of the model alone. `path` is for messages. Throws
/// DataError.
std::vector<NamedTensor> load_checkpoint_model(hid_t file, const std::string& path);

}  // namespace tutti
