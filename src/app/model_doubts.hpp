#pragma once
// Whether measured steps bear out the model that plans and predictions are made with.

#include <string>

namespace tutti {

/// By how much, in percent, the prediction of the best plan may be off its measured step.
inline constexpr double most_error_percent = 15;

/// Of the best plan, in seconds of a step; attainable: what no schedule should be faster than. The reason why
/// the model is not to be believed; empty where it is borne out.
std::string doubt_of_model(double measured, double predicted, double attainable);

}  // namespace tutti
