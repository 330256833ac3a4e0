#pragma once
// What the virtual shards of one update add up to.

#include <vector>

#include "step_sums.hpp"
#include "tutti/comm/communicator.hpp"
#include "tutti/model/graph.hpp"
#include "tutti/train/tree_sum.hpp"
#include "tutti/train/virtual_shards.hpp"

namespace tutti {

/// Gradients, batch statistics and losses, each along the tree of ShardLayout: first those of this rank's
/// shards, then over the ranks.
class ShardSums {
  public:
    ShardSums(const Graph& graph, Device& device, const ShardLayout& layout);

    const ShardLayout& layout() const { return layout_; }

    /// After forward and backward of the next shard of this rank, in the order of its layout.
    void take(const LossSums& loss);
    /// The losses that were taken: of this rank. The next take() begins another update.
    LossSums losses_of_rank();
    /// Collective, each after the last take(): the sum over all ranks, in place.
    void sum_statistics(Communicator& control) const;
    void sum_gradients(Communicator& gradients) const;

  private:
    ShardLayout layout_;
    TensorView gradient_arena_, batch_statistics_;
    TreeSum gradients_, statistics_;
    std::vector<LossSums> losses_;
};

}  // namespace tutti
