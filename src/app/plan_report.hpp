#pragma once
// What `trainer plan` says: what it assumes, how far it is off where it was measured, and the other ranks.

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "measured_world.hpp"

namespace tutti {

/// A measured plan beside its prediction.
struct PlanCheck {
    MeasuredPlan measured;
    PlanForecast predicted;
    double error_percent() const { return 100 * (predicted.step / measured.step - 1); }
};

struct PlanReport {
    MeasuredFile file;
    std::vector<PlanCheck> checks;  ///< every measured plan
    std::vector<WorldForecast> worlds;

    /// The check of the plan with the least measured step, and the one that is furthest off.
    const PlanCheck& best_check() const;
    const PlanCheck& worst_check() const;
    /// Whether the best plan is predicted well enough for the other ranks to be believed.
    bool is_borne_out() const;
};

/// worlds: ascending or not, as they are to be shown. Each by ring and, where the measured all-reduces may
/// have gone by one, by tree; of one rank, or of as many as were measured, once. request: its first_bucket_mb
/// is the file's.
PlanReport make_plan_report(MeasuredFile file, const std::vector<int>& worlds, PlanRequest request);

std::string to_text(const PlanReport& report);
nlohmann::ordered_json to_json(const PlanReport& report);

}  // namespace tutti
