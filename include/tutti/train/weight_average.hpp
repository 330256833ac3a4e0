#pragma once
// Exponential moving average of the weights.

#include <cstdint>
#include <string>

#include "tutti/base/config.hpp"
#include "tutti/model/graph.hpp"

namespace tutti {

/// The decay of the update after step t, counted from 1: 0 for t = 1, so that the average begins with the
/// weights after the first step (torch.optim.swa_utils.AveragedModel; timm's ModelEmaV3 too), then `decay`;
/// with warmup min(decay, 1 − (1 + (t − 1))^(−2/3)) (timm's ModelEmaV3, gamma 1, power 2/3). Pure.
double ema_decay(const EmaConfig& config, std::int64_t step);

/// Where the average of a run of so many updates is for more than a tenth the weights after the first one, as
/// `decay` is too near to 1: a warning that says so, with the remedy; else nothing. Pure.
std::string doubt_about_average(const EmaConfig& config, double updates);

/// average = lerp(average, weights, 1 − ema_decay(t)), the formula of torch.optim.swa_utils.get_ema_avg_fn,
/// on a shadow of the parameter arena. Buffers are not averaged: as in AveragedModel by default, the model's
/// own are used. The graph and the device must outlive it. One thread.
class WeightAverage {
  public:
    WeightAverage(const EmaConfig& config, const Graph& graph, Device& device);

    /// The average becomes the weights as they are.
    void restart();
    /// After the update `step`.
    void update(std::int64_t step);

    /// The shadow, in the layout of the parameter arena.
    TensorView arena() const { return average_; }

    /// While it lives, the graph computes with the averaged weights (and arena() holds the others).
    class InUse {
      public:
        explicit InUse(WeightAverage& average) : average_(average) { average_.exchange(); }
        ~InUse() { average_.exchange(); }
        InUse(const InUse&) = delete;
        InUse& operator=(const InUse&) = delete;

      private:
        WeightAverage& average_;
    };

  private:
    void exchange();

    EmaConfig config_;
    const Graph& graph_;
    Ops& ops_;
    Buffer memory_;
    TensorView weights_, average_;
};

}  // namespace tutti
