#pragma once
// Files that commands are told to write with -o.

#include <string>

namespace tutti {

/// UsageError where the file `output` is there and is a run's checkpoint or a data set.
void refuse_to_overwrite(const std::string& output);

/// For packers, which may make a data set anew: UsageError where `output` is there and is a run's checkpoint,
/// or neither a data set nor empty.
void refuse_other_than_dataset(const std::string& output);

}  // namespace tutti
