#pragma once
// The middle of measured values.

#include <vector>

namespace tutti {

/// Middle value; of an even number the mean of the two. Not of nothing.
double median(std::vector<double> values);

}  // namespace tutti
