#pragma once
// What `trainer eval` prints.

#include <string>
#include <vector>

#include "tutti/train/evaluation_result.hpp"

namespace tutti {

/// To standard output, for people: the metrics that the model has, in lines of which the last begins with
/// "test". class_names: of the data.
void print_evaluation(const EvaluationResult& sums, const std::vector<std::string>& class_names);

}  // namespace tutti
