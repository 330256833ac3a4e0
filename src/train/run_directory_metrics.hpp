#pragma once
// Which rows of metrics.jsonl belong to a run that goes on from a checkpoint.

#include <string>
#include <string_view>

#include "tutti/train/run_directory.hpp"

namespace tutti {

/// `rows` without those that come after `end`, and without a last line that a dying process left incomplete
/// (no newline, or no JSON). Other lines stay as they are, byte for byte.
std::string keep_rows_up_to(std::string_view rows, const MetricsEnd& end);

}  // namespace tutti
