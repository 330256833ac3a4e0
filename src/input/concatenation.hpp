#pragma once
// Several data sets, one after the other, as one.

#include <memory>
#include <vector>

#include "tutti/input/dataset.hpp"

namespace tutti {

/// `parts`, at least one, which agree (open_datasets sees to that). The targets of all are in memory once:
/// the parts hand theirs over. The normalisation is the first part's.
std::unique_ptr<Dataset> concatenate(std::vector<std::unique_ptr<Dataset>> parts);

}  // namespace tutti
