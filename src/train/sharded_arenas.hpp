#pragma once
// How the ranks' parts of parameters and optimizer state come together.

#include "tutti/comm/communicator.hpp"
#include "tutti/model/graph.hpp"
#include "tutti/train/optimizer.hpp"
#include "tutti/train/shard_plan.hpp"

namespace tutti {

/// Every rank calls the same methods in the same order; each is a collective. Graph, device and communicator
/// must outlive it. One thread.
class ShardedArenas {
  public:
    ShardedArenas(const Graph& graph, Device& device, Communicator& communicator, ShardPlan plan);

    const ShardPlan& plan() const { return plan_; }

    /// After an update of the own parts: every rank then has all parameters.
    void gather_parameters();
    /// The whole of a state of the optimizer, in the gradient arena, which holds nothing else between two
    /// updates: so no rank needs memory for it. Its layout is the graph's.
    TensorView gather(const Optimizer::State& state);
    /// From rank 0's gradient arena, which holds the whole state, every rank takes its parts. The gradient
    /// arena holds no defined values afterwards.
    void scatter(const Optimizer::State& state);
    /// Sum over all ranks of the squares of the own parts of the gradients: the same bits everywhere.
    double sum_of_squares(Communicator& control);
    /// Multiplies the own parts of the gradients.
    void scale_gradients(double factor);

  private:
    void gather(const TensorView& arena);
    /// Calls copy(part of the arena, part of the state) for each own block.
    template <class Copy>
    void for_parts(const TensorView& state, const Copy& copy);

    Device& device_;
    Ops& ops_;
    Communicator& communicator_;
    ShardPlan plan_;
    TensorView parameters_, gradients_;
    Buffer sums_;  // f64, one per bucket
};

}  // namespace tutti
