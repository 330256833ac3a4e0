#include "tutti/train/class_weights.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "tutti/base/error.hpp"

namespace tutti {

void check_class_weights(const std::optional<ClassWeightsConfig>& config, std::int64_t classes) {
    if (!config || config->weights.empty() || std::ssize(config->weights) == classes) return;
    throw UsageError(fmt::format("train.class_weights has {} {}, but the model has {} {}",
                                 config->weights.size(), config->weights.size() == 1 ? "number" : "numbers",
                                 classes, classes == 1 ? "class" : "classes"),
                     "give one for each class, in the order of the labels, or balanced");
}

std::vector<double> class_weights(const std::optional<ClassWeightsConfig>& config,
                                  std::span<const std::int64_t> counts, std::int64_t classes) {
    check_class_weights(config, classes);
    if (!config) return {};
    std::vector<double> weights = config->weights, samples(counts.begin(), counts.end());
    samples.resize(static_cast<std::size_t>(classes));
    const bool balanced = weights.empty();
    if (balanced)
        for (const double count : samples) weights.push_back(count > 0 ? 1 / count : 0);
    const double sum = std::inner_product(weights.begin(), weights.end(), samples.begin(), 0.0);
    const double all = std::accumulate(samples.begin(), samples.end(), 0.0);
    if (!balanced && sum == 0 && all > 0)
        throw UsageError("train.class_weights is 0 for every class that has samples in data.train",
                         "give one of these a weight above 0");
    for (double& weight : weights) weight = all == 0 || (balanced && weight == 0) ? 1 : weight * all / sum;
    return weights;
}

std::vector<double> class_weights(const std::optional<ClassWeightsConfig>& config, const Dataset& data,
                                  std::int64_t classes) {
    check_class_weights(config, classes);
    if (!config) return {};
    return class_weights(config, count_labels(data), classes);
}

std::string describe_class_weights(std::span<const double> weights) {
    if (weights.size() <= 10) return fmt::format("class weights: {:.3g}", fmt::join(weights, ", "));
    const auto [least, most] = std::ranges::minmax(weights);
    return fmt::format("class weights: {:.3g} to {:.3g}", least, most);
}

}  // namespace tutti
