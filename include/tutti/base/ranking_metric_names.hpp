#pragma once
// Metrics of two classes that early stopping and the best checkpoint may be given, beside
// `validation_metrics` (base/config.hpp).

#include <algorithm>
#include <array>
#include <string>

namespace tutti {

/// Of how well the scores of class 1 order the samples (train/ranking_metrics.hpp). Better when higher.
inline constexpr std::array<const char*, 2> ranking_metrics{"val/auprc", "val/roc_auc"};

inline bool is_ranking_metric(const std::string& name) {
    return std::ranges::find(ranking_metrics, name) != ranking_metrics.end();
}

}  // namespace tutti
