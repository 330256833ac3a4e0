#include "tutti/train/evaluation_json.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

namespace tutti {
namespace {

using Row = nlohmann::ordered_json;

/// An object with a number value(i) for each key.
template <class Keys, class Value>
Row object_of(const Keys& keys, const Value& value) {
    Row object;
    for (std::size_t i = 0; i < keys.size(); ++i) object[fmt::format("{}", keys[i])] = value(i);
    return object;
}

void add_places(Row& row, const EvaluationResult& result) {
    row["heatmap_loss"] = result.heat_map_loss();
    row["presence_loss"] = result.presence_loss();
    row["distance"] = result.distance();
    row["median_distance"] = result.median_distance;
    row["within"] = object_of(location_radii, [&](std::size_t i) { return result.within(i); });
}

void add_kilometres(Row& row, const EvaluationResult& result) {
    row["km"] = result.km();
    row["median_km"] = result.earth->median;
    row["within_km"] = object_of(earth_radii, [&](std::size_t i) { return result.within_km(i); });
    row["km_samples"] = result.earth->samples;
}

void add_numbers(Row& row, const EvaluationResult& result) {
    row["mae"] = result.mae();
    row["rmse"] = result.rmse();
    row["distance"] = result.distance();
    if (!result.earth) return;
    row["median_distance"] = result.median_distance;
    add_kilometres(row, result);
}

void add_segments(Row& row, const EvaluationResult& result) {
    row["atiou"] = result.atiou();
    row["precision"] = object_of(segment_ious, [&](std::size_t i) { return result.segment_precision(i); });
    row["with_segments"] = result.segments->with_segments;
    row["predicted"] = result.segments->predicted;
}

/// Of samples, or of the seconds of sequences.
void add_recalls(Row& row, const EvaluationResult& result) {
    row["balanced_accuracy"] = result.balanced_accuracy();
    if (const auto detection = result.detection()) {
        row["pod"] = detection->probability;
        row["far"] = detection->false_alarm_ratio;
        row["f1"] = detection->f1;
    }
    if (result.scores) {
        row["auprc"] = result.scores->average_precision();
        row["roc_auc"] = result.scores->roc_auc();
    }
    if (!result.confusion.empty()) row["confusion"] = confusion_rows(result);
}

}  // namespace

void add_metrics(nlohmann::ordered_json& row, const EvaluationResult& result) {
    if (result.not_finite > 0) row["not_finite"] = result.not_finite;
    if (result.loss_only) return;
    if (result.targets > 0) return add_numbers(row, result);
    if (result.segments) {
        add_segments(row, result);
        return add_recalls(row, result);
    }
    if (result.location) add_places(row, result);
    if (result.earth) add_kilometres(row, result);
    row["accuracy"] = result.accuracy();
    if (result.topk > 0) row[fmt::format("top{}", result.topk)] = result.topk_accuracy();
    add_recalls(row, result);
    row["correct"] = result.correct;
}

}  // namespace tutti
