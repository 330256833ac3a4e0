#pragma once
// What the targets of a data set are like: for inspection.

#include <vector>

#include "tutti/input/dataset.hpp"

namespace tutti {

/// Of one target over all samples; the standard deviation divides by their number. NaN without samples.
struct TargetSummary {
    double minimum, mean, maximum, standard_deviation;
};

/// For each of info().targets, in order. In double, in two passes.
std::vector<TargetSummary> summarize_targets(const Dataset& dataset);

}  // namespace tutti
