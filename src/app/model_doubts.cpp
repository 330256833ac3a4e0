#include "model_doubts.hpp"

#include <fmt/format.h>

#include <cmath>

namespace tutti {

std::string doubt_of_model(double measured, double predicted, double attainable) {
    if (measured < (1 - 0.01 * most_error_percent) * attainable)
        return "the best plan is faster than that, as its transfers take less beside a step than alone";
    const double off = 100 * (predicted / measured - 1);
    return std::abs(off) > most_error_percent ? fmt::format("the best plan is predicted {:+.1f} % off", off)
                                              : "";
}

}  // namespace tutti
