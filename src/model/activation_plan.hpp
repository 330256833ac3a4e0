#pragma once
// Where each activation, gradient and layer state lies, from the life times that a graph implies.

#include <cstddef>
#include <span>
#include <vector>

#include "sample_runs.hpp"

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

    /// With recomputation: where forward writes; value and state are then what is computed again and what
    /// backward reads. The same as value and state for nodes that are not computed again.
    std::vector<std::size_t> first_value, first_state;
    std::vector<std::size_t> segment;  ///< by node; the input has one of its own
    /// Not 0 for the last node of a segment that is computed again before its backward: the segment's first.
    std::vector<std::size_t> again_from;
    /// What backward of `node`, and its second forward, read of `input`: from another segment, the first
    /// copy.
    std::size_t input_value(std::size_t node, std::size_t input) const {
        return segment[input] == segment[node] ? value[input] : first_value[input];
    }
};

/// Time runs 0 (input), 1 … L (forward), L+1 (loss), then backward of layer L … 1; with recomputation, each
/// segment but the last first runs forward again. The layers of a run share its time: one may write for the
/// last samples what another has long read for the first. types: of the values, by node.
ActivationPlan plan_activations(const std::vector<GraphSpec::Node>& nodes, const std::vector<DType>& types,
                                std::int64_t max_batch, std::span<const SampleRun> runs = {});

/// The same with recomputation (T. Chen et al., "Training Deep Nets with Sublinear Memory Cost", 2016,
/// section 4): the layers are cut into segments where a single value crosses; only those values live from
/// forward to backward. Of all numbers of segments, of about equal size, the one with the smallest arena.
ActivationPlan plan_recomputation(const std::vector<GraphSpec::Node>& nodes, const std::vector<DType>& types,
                                  std::int64_t max_batch);

}  // namespace tutti
