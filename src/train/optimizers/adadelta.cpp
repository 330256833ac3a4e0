#include "segments.hpp"

namespace tutti {
namespace {

class Adadelta final : public Optimizer {
  public:
    Adadelta(const OptimConfig& config, const Graph& graph, Device& device)
        : ops_(device.ops(graph.compute())),
          parameters_(graph.parameter_arena()),
          gradients_(graph.gradient_arena()),
          segments_(
              decay_segments(graph.parameters(), config.weight_decay, config.decay_1d, config.layer_decay)),
          squares_memory_(device.allocate(parameters_.bytes(), "averages of squared gradients")),
          deltas_memory_(device.allocate(parameters_.bytes(), "averages of squared updates")),
          squares_(squares_memory_.view(0, parameters_.dtype, parameters_.shape)),
          deltas_(deltas_memory_.view(0, parameters_.dtype, parameters_.shape)) {
        step_.rho = config.rho;
        step_.eps = config.eps;
    }

    void step(double lr, std::int64_t, const Range& range) override {
        for_parts(segments_, range, [&](const DecaySegment& segment) {
            step_.lr = lr * segment.lr_scale;
            step_.weight_decay = segment.weight_decay;
            ops_.adadelta(step_, slice(gradients_, segment), slice(parameters_, segment),
                          slice(squares_, segment), slice(deltas_, segment));
        });
    }

    std::vector<State> state() const override { return {{"square_avg", squares_}, {"acc_delta", deltas_}}; }

  private:
    Ops& ops_;
    TensorView parameters_, gradients_;
    std::vector<DecaySegment> segments_;
    Buffer squares_memory_, deltas_memory_;
    TensorView squares_, deltas_;
    AdadeltaStep step_;
};

}  // namespace

std::unique_ptr<Optimizer> make_adadelta(const OptimConfig& config, const Graph& graph, Device& device) {
    return std::make_unique<Adadelta>(config, graph, device);
}

}  // namespace tutti
