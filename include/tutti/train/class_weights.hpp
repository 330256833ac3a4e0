#pragma once
// What a sample counts in the training loss, by its class.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tutti/base/config.hpp"
#include "tutti/input/dataset.hpp"

namespace tutti {

/// A factor for each of `classes`, whose mean over the data's samples is 1; empty where `config` is. counts:
/// samples by class, of as many classes or fewer. Balanced: in proportion to 1/count, N/(C n[c]) with the C
/// classes that have samples (King and Zeng 2001, "Logistic regression in rare events data"); one without
/// samples gets 1. Of a list 0 stays 0.
///
/// The loss is then the sum of the weighted terms over the number of samples.
/// torch.nn.CrossEntropyLoss(weight) divides by the weights of the labels that one rank happens to have in a
/// batch: of a batch of one sample nothing is left of them, and what ranks agree on depends on their number.
/// Here each sample counts the same in every batch; a batch of samples that count 0 has loss and gradient 0.
///
/// Throws UsageError where a list has another length than `classes`, or is 0 for every class that has
/// samples. Pure.
std::vector<double> class_weights(const std::optional<ClassWeightsConfig>& config,
                                  std::span<const std::int64_t> counts, std::int64_t classes);
/// The same of data, whose labels are read where they are needed: throws what that throws.
std::vector<double> class_weights(const std::optional<ClassWeightsConfig>& config, const Dataset& data,
                                  std::int64_t classes);
/// Throws UsageError where a list has another length than `classes`, before anything is read.
void check_class_weights(const std::optional<ClassWeightsConfig>& config, std::int64_t classes);

/// "class weights: 0.556, 5" or, of more than ten classes, "class weights: 0.2 to 14".
std::string describe_class_weights(std::span<const double> weights);

}  // namespace tutti
