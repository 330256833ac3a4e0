#pragma once
// What the settings of a resume make of a run that other settings began. Pure.

#include <cstdint>
#include <string>
#include <vector>

#include "tutti/base/config.hpp"

namespace tutti {

/// Throws UsageError, which names the checkpoint `path` and lists them, where settings of the model or the
/// optimizer are others: what was trained before is of no use then. Where one of both leaves model.classes to
/// the data, it has the `classes` that these have (0: they do not say).
void refuse_other_training(const Config& before, const Config& now, const std::string& path,
                           std::int64_t classes = 0);

/// Whether the training data are those of before, by their fingerprints.
enum class SameData { yes, no, unknown };
/// unknown where one of both is empty, as in checkpoints of earlier versions.
SameData compare_data(const std::string& before, const std::string& now);

/// For a checkpoint `path` that no update is left for: throws UsageError where `now` names other training
/// data, or another normalisation of them, than its weights have learned from. to_go_on: a setting with which
/// it would.
void refuse_untrained_data(const Config& before, const Config& now, SameData same, const std::string& path,
                           const std::string& to_go_on);

/// What else changes the course of the training, for people, each "SETTING: BEFORE -> NOW". On so many ranks.
std::vector<std::string> course_changes(const Config& before, int world_before, const Config& now, int world,
                                        SameData same);

/// What of the evaluations before means something else now.
class MetricChanges {
  public:
    /// other_samples: whether evaluations see other numbers for a reason that the configs do not show.
    MetricChanges(const Config& before, const Config& now, bool other_samples = false);
    /// Whether numbers of an evaluation are others than it would give now.
    bool evaluation() const { return data_ || ema_ || selection_ || places_ || presence_ || earth_; }
    /// Whether values of that metric ("val/loss") can no longer be compared with new ones.
    bool metric(const std::string& name) const;

  private:
    bool data_, ema_, loss_, selection_, places_, presence_, earth_;
};

}  // namespace tutti
