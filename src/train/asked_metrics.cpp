#include "tutti/train/asked_metrics.hpp"

#include <fmt/format.h>

#include <string>

#include "tutti/base/error.hpp"
#include "tutti/base/ranking_metric_names.hpp"
#include "tutti/train/objective.hpp"

namespace tutti {
namespace {

void check_ranking_metric(const char* setting, const std::string& metric, std::int64_t classes) {
    if (!is_ranking_metric(metric) || classes == 2) return;
    throw UsageError(
        fmt::format("{} is {}, which is of two classes, but the model has {}", setting, metric, classes),
        "choose val/accuracy, val/balanced_accuracy or val/loss");
}

}  // namespace

AskedMetrics asked_metrics(const TrainConfig& config, std::int64_t outputs) {
    return {.topk = topk_of(config, outputs),
            .confusion = config.confusion,
            .ranking = ranking_of(config, outputs),
            .loss_only = config.loss == LossChoice::reconstruction,
            .location = location_of_run(config),
            .segments = segments_of_run(config)};
}

std::int64_t topk_of(const TrainConfig& config, std::int64_t classes) {
    constexpr std::int64_t classes_worth_top5 = 10;
    if (config.topk) return *config.topk;
    const auto& early = config.early_stopping;
    const bool asked = config.checkpoint.best == "val/top5" || (early && early->metric == "val/top5");
    return asked || classes >= classes_worth_top5 ? 5 : 0;
}

bool ranking_of(const TrainConfig& config, std::int64_t classes) {
    const auto& early = config.early_stopping;
    if (config.loss == LossChoice::location) return true;
    return classes == 2 && (config.confusion || is_ranking_metric(config.checkpoint.best) ||
                            (early && is_ranking_metric(early->metric)));
}

void check_metrics(const TrainConfig& config, std::int64_t classes) {
    constexpr std::int64_t most_of_a_matrix = 2048;
    if (config.confusion && classes > most_of_a_matrix)
        throw UsageError(
            fmt::format("train.confusion is true, but the model has {} classes, and a matrix is "
                        "for at most {}",
                        classes, most_of_a_matrix),
            "set train.confusion to false; trainer predict writes what each sample was taken for");
    if (config.topk && *config.topk > classes)
        throw UsageError(fmt::format("train.topk is {}, but the model has {} {}, so that every sample would "
                                     "count as correct",
                                     *config.topk, classes, classes == 1 ? "class" : "classes"),
                         fmt::format("set train.topk to at most {}, to 0 (none) or to auto", classes));
    const bool decides = config.checkpoint.best == "val/top5" ||
                         (config.early_stopping && config.early_stopping->metric == "val/top5");
    if (const std::int64_t k = topk_of(config, classes); decides && k >= classes)
        throw UsageError(
            fmt::format("{} is val/top5, but the model has {} {}, so that every sample would count "
                        "as correct",
                        config.checkpoint.best == "val/top5" ? "train.checkpoint.best"
                                                             : "train.early_stopping.metric",
                        classes, classes == 1 ? "class" : "classes"),
            "choose val/accuracy or val/loss");
    check_ranking_metric("train.checkpoint.best", config.checkpoint.best, classes);
    if (config.early_stopping)
        check_ranking_metric("train.early_stopping.metric", config.early_stopping->metric, classes);
}

}  // namespace tutti
