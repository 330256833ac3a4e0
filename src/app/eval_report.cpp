#include "eval_report.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

#include "tutti/base/units.hpp"
#include "tutti/train/location.hpp"
#include "tutti/train/segments.hpp"

namespace tutti {
namespace {

std::string sample_count(const EvaluationResult& result) {
    return counted(std::llround(result.weight), "sample");
}

void print_confusion(const EvaluationResult& result, const std::vector<std::string>& class_names) {
    fmt::print("confusion, a row per label, a column per prediction\n");
    const auto rows = confusion_rows(result);
    for (std::size_t label = 0; label < rows.size(); ++label)
        fmt::print("  {} | {:>6}\n", label < class_names.size() ? class_names[label] : std::to_string(label),
                   fmt::join(rows[label], " "));
}

void print_metrics_on_earth(const EvaluationResult& sums) {
    if (!sums.earth) return;
    if (sums.earth->samples == 0) {
        fmt::print("\nno place is on the earth");
        return;
    }
    fmt::print("\n{:.1f} km on average over {}, median {:.1f}", sums.km(), sums.earth->samples,
               sums.earth->median);
    for (std::size_t i = 0; i < earth_radii.size(); ++i)
        fmt::print(", {:.4f} within {}", sums.within_km(i), earth_radii[i]);
}

std::string detection_text(const EvaluationResult::Detection& detection) {
    return fmt::format("POD {:.4f}, FAR {:.4f}, F1 {:.4f}", detection.probability,
                       detection.false_alarm_ratio, detection.f1);
}

void print_metrics_of_segments(const EvaluationResult& sums) {
    fmt::print("{}, loss {}", score_text(sums), format_number(sums.mean_loss()));
    if (sums.unreadable > 0) fmt::print(", {} could not be read", counted(sums.unreadable, "sample"));
    fmt::print("\n{} predicted", counted(sums.segments->predicted, "segment"));
    if (sums.segments->with_segments == 0) fmt::print(", but no sample has any");
    for (std::size_t i = 0; sums.segments->with_segments > 0 && i < segment_ious.size(); ++i)
        fmt::print(", {:.4f} right from IoU {} on", sums.segment_precision(i), segment_ious[i]);
    fmt::print("\nseconds: balanced accuracy {:.4f}, {}\n", sums.balanced_accuracy(),
               detection_text(*sums.detection()));
    print_confusion(sums, {"outside", "inside"});
    if (sums.segments->with_segments > 0)
        fmt::print("test AtIoU {:.4f} ({})\n", sums.atiou(), sample_count(sums));
    else
        fmt::print("test loss {} ({})\n", format_number(sums.mean_loss()), sample_count(sums));
}

std::string ranking_text(const RankedScores& scores) {
    if (!scores.defined()) return "AUPRC and ROC AUC undefined";
    return fmt::format("AUPRC {:.4f}, ROC AUC {:.4f}", scores.average_precision(), scores.roc_auc());
}

void print_metrics_of_targets(const EvaluationResult& sums) {
    fmt::print("{}, loss {}", score_text(sums), format_number(sums.mean_loss()));
    if (sums.unreadable > 0) fmt::print(", {} could not be read", counted(sums.unreadable, "sample"));
    print_metrics_on_earth(sums);
    fmt::print("\ntest rmse {} ({})\n", format_number(sums.rmse()), sample_count(sums));
}

void print_distances(const EvaluationResult& sums) {
    if (sums.of_label[1] == 0) {
        fmt::print("\nno sample is present");
        return;
    }
    fmt::print("\ndistance {:.2f} pixels over {} present, median {:.2f}", sums.distance(), sums.of_label[1],
               sums.median_distance);
    for (std::size_t i = 0; i < location_radii.size(); ++i)
        fmt::print(", {:.4f} within {}", sums.within(i), location_radii[i]);
    print_metrics_on_earth(sums);
}

/// Also of the locator, for which presence is a class.
void print_metrics_of_classes(const EvaluationResult& sums, const std::vector<std::string>& class_names) {
    fmt::print("accuracy {}, loss {}, balanced accuracy {:.4f}", accuracy_text(sums),
               format_number(sums.mean_loss()), sums.balanced_accuracy());
    if (sums.topk > 0) fmt::print(", top-{} accuracy {:.4f}", sums.topk, sums.topk_accuracy());
    if (const auto detection = sums.detection())
        fmt::print(", {}{}", detection_text(*detection), sums.of_label.size() > 2 ? " (class 1)" : "");
    if (sums.scores) fmt::print(", {}", ranking_text(*sums.scores));
    if (sums.unreadable > 0) fmt::print(", {} could not be read", counted(sums.unreadable, "sample"));
    if (sums.location) print_distances(sums);
    fmt::print("\n");
    if (!sums.confusion.empty())
        print_confusion(sums, sums.location ? std::vector<std::string>{"absent", "present"} : class_names);
    fmt::print("test accuracy {}\n", accuracy_text(sums));
}

}  // namespace

void print_evaluation(const EvaluationResult& sums, const std::vector<std::string>& class_names) {
    if (sums.segments) {
        print_metrics_of_segments(sums);
    } else if (sums.loss_only) {
        if (sums.unreadable > 0) fmt::print("{} could not be read\n", counted(sums.unreadable, "sample"));
        fmt::print("test loss {} ({})\n", format_number(sums.mean_loss()), score_text(sums));
    } else if (sums.targets > 0) {
        print_metrics_of_targets(sums);
    } else {
        print_metrics_of_classes(sums, class_names);
    }
}

}  // namespace tutti
