#include "tutti/train/objective.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "tutti/base/error.hpp"

namespace tutti {
namespace {

RegressionLoss kind_of(LossChoice choice) {
    if (choice == LossChoice::l1) return RegressionLoss::absolute;
    return choice == LossChoice::huber ? RegressionLoss::huber : RegressionLoss::squared;
}

[[noreturn]] void refuse(const std::string& setting, const std::string& name, bool regression,
                         const char* remedy = "leave it out") {
    throw UsageError(fmt::format("{} is for {}, but {} has {}", setting, regression ? "classes" : "targets",
                                 name, regression ? "targets" : "classes"),
                     remedy);
}

bool is_metric_of(const std::string& metric, bool regression) {
    if (metric.empty() || metric == "val/loss") return true;
    return std::ranges::find(regression_metrics, metric) != regression_metrics.end() ? regression
                                                                                     : !regression;
}

}  // namespace

bool is_regression(const TrainConfig& config, const DatasetInfo& data) {
    return is_regression(loss_of_run(config, data));
}

LossChoice loss_of_run(const TrainConfig& config, const DatasetInfo& data) {
    return config.loss == LossChoice::automatic && data.targets > 0 ? LossChoice::mse : config.loss;
}

Config config_with_objective(Config config, const DatasetInfo& data) {
    config.train.loss = loss_of_run(config.train, data);
    if (data.targets > 0 && config.model.layers.empty()) config.model.classes = data.targets;
    return config;
}

ModelInput model_input(const DatasetInfo& data) {
    if (data.targets > 0) return {data.sample_shape, data.targets, true};
    return {data.sample_shape, data.classes};
}

void check_objective(const TrainConfig& config, const DatasetInfo& data, const std::string& name) {
    const bool regression = is_regression(config, data);
    if (regression != (data.targets > 0))
        throw UsageError(
            fmt::format("train.loss is for {}, but {} has {}", regression ? "targets" : "classes", name,
                        regression ? "labels" : "targets"),
            regression
                ? "set train.loss to auto or cross_entropy, or give data with /targets (data/README.md)"
                : "set train.loss to auto, mse, l1 or huber");
    const char* const metrics = regression ? "give val/loss, val/mae, val/rmse or val/distance"
                                           : "give val/loss, val/accuracy, val/top5 or val/balanced_accuracy";
    if (!is_metric_of(config.checkpoint.best, regression))
        refuse("train.checkpoint.best " + config.checkpoint.best, name, regression, metrics);
    if (config.early_stopping && !is_metric_of(config.early_stopping->metric, regression))
        refuse("train.early_stopping.metric " + config.early_stopping->metric, name, regression, metrics);
    if (!regression) return;
    if (config.label_smoothing > 0) refuse("train.label_smoothing", name, true);
    if (config.class_weights) refuse("train.class_weights", name, true);
    if (config.topk && *config.topk > 0) refuse("train.topk", name, true);
    if (config.confusion) refuse("train.confusion", name, true);
}

std::unique_ptr<Loss> make_training_loss(Device& device, DType compute, const TrainConfig& config,
                                         const DatasetInfo& data, std::span<const double> class_weights) {
    if (is_regression(config, data)) return make_regression_loss(device, compute, kind_of(config.loss));
    return make_softmax_cross_entropy(device, compute, config.label_smoothing, class_weights);
}

std::unique_ptr<Loss> make_evaluation_loss(Device& device, DType compute, const TrainConfig& config,
                                           const DatasetInfo& data) {
    TrainConfig plain = config;
    plain.label_smoothing = 0;
    return make_training_loss(device, compute, plain, data, {});
}

}  // namespace tutti
