#pragma once
// Gradients of several micro-batches on their way to one update.

#include <cstddef>
#include <vector>

#include "tutti/model/graph.hpp"

namespace tutti {

/// Backward overwrites the gradient arena; so the gradients of all micro-batches but the last are summed in
/// an arena of the same layout, and added to those of the last one parameter by parameter, as backward
/// finishes them. Allocates nothing after construction. The graph and the device must outlive it. One thread.
class GradientAccumulator {
  public:
    /// Without `needed` (one micro-batch per update) it has no memory, and take() must not be called.
    GradientAccumulator(const Graph& graph, Device& device, bool needed);

    /// After a backward that is not the last of an update: adds the gradients to the sum. The gradient arena
    /// then holds no defined values.
    void take();
    /// In the last backward of an update, when the gradient of this parameter (arena order) is final: adds
    /// the sum to it, if something was taken.
    void add_to(std::size_t parameter);
    /// The update is over: the next take() begins a new sum.
    void finish() { taken_ = false; }

    std::size_t bytes() const { return memory_.size(); }

  private:
    Ops& ops_;
    Buffer memory_;
    TensorView gradients_, sums_;
    std::vector<TensorView> gradient_of_, sum_of_;  // by parameter
    bool taken_ = false;
};

}  // namespace tutti
