#include "segments.hpp"

namespace tutti {
namespace {

class Lamb final : public Optimizer {
  public:
    Lamb(const OptimConfig& config, const Graph& graph, Device& device)
        : ops_(device.ops(graph.compute())),
          parameters_(graph.parameter_arena()),
          gradients_(graph.gradient_arena()),
          segments_(parameter_segments(graph.parameters(), config.weight_decay, config.decay_1d,
                                       config.layer_decay, graph.frozen_parameters())),
          first_memory_(device.allocate(parameters_.bytes(), "first moments")),
          second_memory_(device.allocate(parameters_.bytes(), "second moments")),
          squares_memory_(device.allocate(2 * sizeof(double), "norms")),
          first_(first_memory_.view(0, parameters_.dtype, parameters_.shape)),
          second_(second_memory_.view(0, parameters_.dtype, parameters_.shape)) {
        step_.beta1 = config.betas[0];
        step_.beta2 = config.betas[1];
        step_.eps = config.eps;
    }

    void step(double lr, std::int64_t step, const Range& range) override {
        step_.step = step;
        const TensorView squares = squares_memory_.view(0, DType::f64, {2});
        const TensorView of_weights = squares_memory_.view(0, DType::f64, {1});
        const TensorView of_update = squares_memory_.view(sizeof(double), DType::f64, {1});
        for_parts(segments_, range, [&](const DecaySegment& segment) {
            step_.weight_decay = segment.weight_decay;
            const TensorView weights = slice(parameters_, segment);
            // The gradient is not needed any more: its memory takes the update.
            const TensorView update = slice(gradients_, segment);
            ops_.lamb_direction(step_, update, weights, slice(first_, segment), slice(second_, segment),
                                update);
            ops_.sum_of_squares(weights, of_weights);
            ops_.sum_of_squares(update, of_update);
            ops_.lamb_apply(lr * segment.lr_scale, squares, update, weights);
        });
    }

    std::vector<State> state() const override { return {{"exp_avg", first_}, {"exp_avg_sq", second_}}; }

  private:
    Ops& ops_;
    TensorView parameters_, gradients_;
    std::vector<DecaySegment> segments_;
    Buffer first_memory_, second_memory_, squares_memory_;
    TensorView first_, second_;
    LambStep step_;
};

}  // namespace

std::unique_ptr<Optimizer> make_lamb(const OptimConfig& config, const Graph& graph, Device& device) {
    return std::make_unique<Lamb>(config, graph, device);
}

}  // namespace tutti
