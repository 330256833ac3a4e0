#include "segments.hpp"

namespace tutti {
namespace {

class Adam final : public Optimizer {
  public:
    Adam(const OptimConfig& config, const Graph& graph, Device& device, bool decoupled)
        : ops_(device.ops(graph.compute())),
          parameters_(graph.parameter_arena()),
          gradients_(graph.gradient_arena()),
          segments_(
              decay_segments(graph.parameters(), config.weight_decay, config.decay_1d, config.layer_decay)),
          first_memory_(device.allocate(parameters_.bytes(), "first moments")),
          second_memory_(device.allocate(parameters_.bytes(), "second moments")),
          first_(first_memory_.view(0, parameters_.dtype, parameters_.shape)),
          second_(second_memory_.view(0, parameters_.dtype, parameters_.shape)) {
        step_.beta1 = config.betas[0];
        step_.beta2 = config.betas[1];
        step_.eps = config.eps;
        step_.decoupled = decoupled;
    }

    void step(double lr, std::int64_t step, const Range& range) override {
        step_.step = step;
        for_parts(segments_, range, [&](const DecaySegment& segment) {
            step_.lr = lr * segment.lr_scale;
            step_.weight_decay = segment.weight_decay;
            ops_.adam(step_, slice(gradients_, segment), slice(parameters_, segment), slice(first_, segment),
                      slice(second_, segment));
        });
    }

    std::vector<State> state() const override { return {{"exp_avg", first_}, {"exp_avg_sq", second_}}; }

  private:
    Ops& ops_;
    TensorView parameters_, gradients_;
    std::vector<DecaySegment> segments_;
    Buffer first_memory_, second_memory_;
    TensorView first_, second_;
    AdamStep step_;
};

}  // namespace

std::unique_ptr<Optimizer> make_adam(const OptimConfig& config, const Graph& graph, Device& device) {
    return std::make_unique<Adam>(config, graph, device, false);
}

std::unique_ptr<Optimizer> make_adamw(const OptimConfig& config, const Graph& graph, Device& device) {
    return std::make_unique<Adam>(config, graph, device, true);
}

}  // namespace tutti
