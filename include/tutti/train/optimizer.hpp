#pragma once
// Updates the parameter arena from the gradient arena.

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "tutti/base/config.hpp"
#include "tutti/model/graph.hpp"
#include "tutti/train/shard_plan.hpp"

namespace tutti {

/// Works on the flat arenas of a graph, which (with the device) must outlive it. State lives in arenas of the
/// same layout; or, where a rank owns only ranges of the arena, in arenas of these ranges, one behind the
/// other. Formulas: SgdStep, AdamStep, AdadeltaStep and LambStep in device/ops.hpp. One thread.
class Optimizer {
  public:
    virtual ~Optimizer() = default;
    /// One update with the summed gradients, of what is owned; afterwards the gradient arena holds no defined
    /// values. step counts from 1 over the whole run.
    void step(double lr, std::int64_t step) { this->step(lr, step, {}); }
    /// Part of an update: what is owned of the elements [offset, offset + count) of the arenas; with lamb,
    /// whole parameters with the gaps behind them. Parts that make up the arena, in any order, are an update,
    /// to the bit.
    struct Range {
        std::int64_t offset = 0, count = std::numeric_limits<std::int64_t>::max();
    };
    virtual void step(double lr, std::int64_t step, const Range& range) = 0;

    /// State arenas by name ("momentum_buffer"): for checkpoints and broadcasts.
    struct State {
        std::string name;
        TensorView arena;
    };
    virtual std::vector<State> state() const = 0;
};

/// A part of the arena whose parameters are updated alike.
struct DecaySegment {
    std::int64_t offset = 0, count = 0;
    double weight_decay = 0;
    double lr_scale = 1;  ///< factor of the learning rate
};
/// Neighbouring parameters with the same decay and rate as one segment; with decay_1d false, parameters of
/// one dimension are not decayed. layer_decay d: with the layers 0 … L in the order of the network, the
/// parameters of layer i get the rate lr·d^(L−i). A layer is a block of a transformer (names that hold
/// "blocks.N."; what stands before and behind the blocks is one layer each, as in BEiT, MAE and timm), else a
/// module with parameters. `frozen` are no segments, but count as layers. Pure.
std::vector<DecaySegment> decay_segments(const std::vector<Parameter>& parameters, double weight_decay,
                                         bool decay_1d, double layer_decay = 1,
                                         const std::vector<Parameter>& frozen = {});
/// The same with a segment for each parameter.
std::vector<DecaySegment> parameter_segments(const std::vector<Parameter>& parameters, double weight_decay,
                                             bool decay_1d, double layer_decay = 1,
                                             const std::vector<Parameter>& frozen = {});

/// What an optimizer updates: ascending ranges of the arena; empty: all of it.
using OwnedRanges = std::vector<ArenaRange>;

std::unique_ptr<Optimizer> make_sgd(const OptimConfig& config, const Graph& graph, Device& device,
                                    const OwnedRanges& owned = {});
/// Weight decay as part of the gradient (adam), or decoupled from it (adamw).
std::unique_ptr<Optimizer> make_adam(const OptimConfig& config, const Graph& graph, Device& device,
                                     const OwnedRanges& owned = {});
std::unique_ptr<Optimizer> make_adamw(const OptimConfig& config, const Graph& graph, Device& device,
                                      const OwnedRanges& owned = {});
std::unique_ptr<Optimizer> make_adadelta(const OptimConfig& config, const Graph& graph, Device& device,
                                         const OwnedRanges& owned = {});
/// With a trust ratio for every parameter, also those that are not decayed; no clipping of its own. Always
/// of the whole arena: a ratio needs the whole parameter.
std::unique_ptr<Optimizer> make_lamb(const OptimConfig& config, const Graph& graph, Device& device);
/// By config.name. Throws UsageError for a name that is not carried out, and for lamb where not all is owned.
std::unique_ptr<Optimizer> make_optimizer(const OptimConfig& config, const Graph& graph, Device& device,
                                          const OwnedRanges& owned = {});

}  // namespace tutti
