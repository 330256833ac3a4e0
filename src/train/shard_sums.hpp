#pragma once
// What the virtual shards of one update add up to.

#include <vector>

#include "step_sums.hpp"
#include "tutti/comm/communicator.hpp"
#include "tutti/model/graph.hpp"
#include "tutti/train/gradient_tree.hpp"
#include "tutti/train/virtual_shards.hpp"

namespace tutti {

/// Gradients, batch statistics and losses, each along the tree of ShardLayout: first those of this rank's
/// shards, which several threads may compute, then over the ranks. Shards are numbered as the layout orders
/// them. Losses and batch statistics are few and are added on the host; gradients where they are. The graph
/// must outlive it.
class ShardSums {
  public:
    ShardSums(const Graph& graph, Device& device, const ShardLayout& layout, int threads);

    const ShardLayout& layout() const { return layout_; }
    /// Of this rank's gradients.
    GradientTree& gradients() { return gradients_; }

    /// Another update begins.
    void begin() { gradients_.begin(); }
    /// The gradient of a parameter of a shard is there, or will be before what `add` issues next. Any thread.
    void take_gradient(std::int64_t shard, std::size_t parameter, Ops& add) {
        if (!on_gpu_) gradients_.take(shard, parameter, add);
    }
    /// They all are.
    void take_gradients(std::int64_t shard, Ops& add) {
        if (on_gpu_) gradients_.take(shard, add);
    }
    /// After the forward of a shard and its loss; a GPU was waited for if it has samples. Any thread, each
    /// shard once.
    void take(std::int64_t shard, const LossSums& loss, const TensorView& batch_statistics);
    /// The losses that were taken: of this rank, when all were.
    LossSums losses_of_rank() const;
    /// Collective, each after the last take(): the sum over all ranks, in the graph's memory.
    void sum_statistics(Communicator& control);
    void sum_gradients(Communicator& gradients);

  private:
    Device& device_;
    const bool on_gpu_;
    ShardLayout layout_;
    TensorView gradient_arena_, batch_statistics_;
    GradientTree gradients_;
    Buffer received_;                 // on a GPU: pieces of gradients from other ranks
    std::vector<double> statistics_;  // of all shards, one behind the other
    std::vector<LossSums> losses_;
};

}  // namespace tutti
