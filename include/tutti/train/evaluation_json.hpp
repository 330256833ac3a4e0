#pragma once
// Evaluations as JSON: in metrics.jsonl, and by eval --json (jobs/outputs.md, "Rows of type eval").

#include <nlohmann/json_fwd.hpp>

#include "tutti/train/evaluation_result.hpp"

namespace tutti {

/// Appends what the result says of the model: all but the loss and the numbers of samples. What is not finite
/// becomes null.
void add_metrics(nlohmann::ordered_json& row, const EvaluationResult& result);

}  // namespace tutti
