#pragma once
// Files that commands are told to write with -o. A name may be a slip of the hand: a file that is there is
// replaced only where it is what the command writes.

#include <string>

namespace tutti {

/// Each throws UsageError where the file `output` is there, not empty, and anything else than a data set, the
/// predictions of an earlier call, or weights. What is no file the writer judges.
void refuse_other_than_dataset(const std::string& output);
void refuse_other_than_predictions(const std::string& output);
void refuse_other_than_weights(const std::string& output);

}  // namespace tutti
