#pragma once
// Spreads in the reports of measurements (jobs/measurements.md).

#include <nlohmann/json.hpp>

#include "tutti/base/spread.hpp"

namespace tutti {

inline nlohmann::ordered_json spread_json(const Spread& spread) {
    return {{"min", spread.min}, {"median", spread.median}, {"max", spread.max}};
}

}  // namespace tutti
