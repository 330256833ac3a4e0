#pragma once
// Which parameters of a model keep their values (requires_grad = False in PyTorch).

#include <span>
#include <string>
#include <vector>

#include "tutti/model/graph.hpp"

namespace tutti {

/// Freezes the parameters of `spec` that one of `parts` names (their whole names or the beginnings of these
/// up to a dot), or, with all_but, all others. Called before a Graph is made of it. Buffers are none: running
/// statistics go on. No parts: nothing is done. Throws UsageError, which begins with `key` (the setting), for
/// a part that names no parameter, with a near name if there is one, and where no parameter is left to be
/// trained.
void freeze(GraphSpec& spec, std::span<const std::string> parts, bool all_but, const std::string& key);

/// Called then: batch norms whose weight and bias are frozen keep their running statistics, too, and
/// normalise by them (as with trainable = False in Keras, or FrozenBatchNorm2d in torchvision). Throws
/// UsageError, which begins with `key`, where there is none.
void freeze_statistics(GraphSpec& spec, const std::string& key);

/// By node: whether the value depends on a parameter that is trained, and so needs a gradient and backward.
/// Pure.
std::vector<bool> depends_on_trained(const std::vector<GraphSpec::Node>& nodes);

}  // namespace tutti
