#pragma once
// Who wants to know when the layers of a graph run.

#include <cstddef>

namespace tutti {

/// Called by the graph on its own thread, in order, between the calls of the layers: what it does here is
/// time of the step. Layers by their number in Graph::report().
class GraphObserver {
  public:
    virtual ~GraphObserver() = default;
    virtual void forward_begins(std::size_t layer) = 0;
    virtual void forward_ends(std::size_t layer) = 0;
    /// Layers `first` to `last` have just run forward several times each, one after the other for some
    /// samples at a time; each time was told as above.
    virtual void forward_took_turns(std::size_t /*first*/, std::size_t /*last*/) {}
    /// With recomputation, computing activations again belongs to the backward that needs them.
    virtual void backward_begins(std::size_t layer) = 0;
    /// Before the gradients of the layer's parameters are announced, or after, where the layer does so before
    /// it computes its inputs' gradients.
    virtual void backward_ends(std::size_t layer) = 0;
};

}  // namespace tutti
