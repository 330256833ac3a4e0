#pragma once
// Where each activation, gradient and layer state lies, from the life times that a graph implies.

#include <cstddef>
#include <vector>

#include "tutti/model/graph.hpp"

namespace tutti {

/// Byte offsets into one arena; `none` where there is nothing. Indexed by node. Values that share memory (in
/// place, views) have equal offsets.
struct ActivationPlan {
    static constexpr std::size_t none = static_cast<std::size_t>(-1);
    std::vector<std::size_t> value, gradient, state, batch_state;
    /// scratch[i][k]: where node i writes the gradient of its input k when another consumer has already
    /// written it, so that it must be added.
    std::vector<std::vector<std::size_t>> scratch;
    std::size_t bytes = 0;
};

/// Time runs 0 (input), 1 … L (forward), L+1 (loss), L+2 … 2L+1 (backward of layer L … 1).
ActivationPlan plan_activations(const std::vector<GraphSpec::Node>& nodes, std::size_t element_bytes,
                                std::int64_t max_batch);

}  // namespace tutti
