#pragma once
// Updates the parameter arena from the gradient arena.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tutti/base/config.hpp"
#include "tutti/model/graph.hpp"

namespace tutti {

/// Works on the flat arenas of a graph, which (with the device) must outlive it. State lives in arenas of the
/// same layout. Formulas: SgdStep and AdamStep in device/ops.hpp. One thread.
class Optimizer {
  public:
    virtual ~Optimizer() = default;
    /// One update with the summed gradients. step counts from 1 over the whole run.
    virtual void step(double lr, std::int64_t step) = 0;

    /// State arenas by name ("momentum_buffer"): for checkpoints and broadcasts.
    struct State {
        std::string name;
        TensorView arena;
    };
    virtual std::vector<State> state() const = 0;
};

/// A part of the arena that gets one weight decay.
struct DecaySegment {
    std::int64_t offset = 0, count = 0;
    double weight_decay = 0;
};
/// Neighbouring parameters with the same decay as one segment; with decay_1d false, parameters of one
/// dimension are not decayed. Pure.
std::vector<DecaySegment> decay_segments(const std::vector<Parameter>& parameters, double weight_decay,
                                         bool decay_1d);

std::unique_ptr<Optimizer> make_sgd(const OptimConfig& config, const Graph& graph, Device& device);
std::unique_ptr<Optimizer> make_adamw(const OptimConfig& config, const Graph& graph, Device& device);
/// By config.name. Throws UsageError for a name that is not carried out.
std::unique_ptr<Optimizer> make_optimizer(const OptimConfig& config, const Graph& graph, Device& device);

}  // namespace tutti
