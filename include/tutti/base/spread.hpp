#pragma once
// What measured values are like.

#include <vector>

namespace tutti {

/// Of some values, in their unit.
struct Spread {
    double min = 0, median = 0, max = 0;
};

/// All 0 without values.
Spread spread_of(std::vector<double> values);

/// Middle value; of an even number the mean of the two. Not of nothing.
double median(std::vector<double> values);

}  // namespace tutti
