#pragma once
// Weights of a file, of which some begin anew: the head of a classifier for other classes.

#include <span>
#include <string>
#include <vector>

#include "tutti/base/config.hpp"
#include "tutti/base/named_tensor.hpp"
#include "tutti/model/parameter.hpp"

namespace tutti {

/// `read` without all that one of `parts` names, and in place of these what `initial`, the model's own
/// values, has under such names. Throws UsageError for a part that names nothing in either, with a near name
/// if there is one.
std::vector<NamedTensor> with_new_weights(std::vector<NamedTensor> read, std::vector<NamedTensor> initial,
                                          std::span<const std::string> parts);

/// The layers of which `read` does not have every tensor of the model's own with its shape, in the model's
/// order, then those of which it has tensors that the model lacks (another network's head); each once. What
/// is to begin anew, or be left out, where the rest fits.
std::vector<std::string> parts_that_do_not_fit(std::span<const NamedTensor> read,
                                               std::span<const NamedTensor> own);

/// Where some of `parts`, which begin anew, name a weight that is `frozen`: a warning with the remedy, else
/// nothing. Pure.
std::string doubt_about_frozen(std::span<const std::string> parts, std::span<const Parameter> frozen,
                               const ModelConfig& model);

/// Throws DataError "FILE: NAME has N of M values that are not finite" for the first tensor of floats that
/// has some: the first step would end the run for them.
void require_finite(std::span<const NamedTensor> tensors, const std::string& file);

}  // namespace tutti
