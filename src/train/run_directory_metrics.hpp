#pragma once
// Which rows of metrics.jsonl belong to a run that goes on from a checkpoint.

#include <cstdint>
#include <string>
#include <string_view>

namespace tutti {

/// `rows` without the rows whose "step" is greater than `step`, without rows of type "eval" of that step
/// unless it is `evaluated`, for then the evaluation is made again, and without a last line that a dying
/// process left incomplete (no newline, or no JSON). Other lines stay as they are, byte for byte.
std::string keep_rows_up_to(std::string_view rows, std::int64_t step, bool evaluated);

}  // namespace tutti
