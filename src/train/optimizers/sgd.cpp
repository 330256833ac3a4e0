#include "segments.hpp"

namespace tutti {
namespace {

class Sgd final : public Optimizer {
  public:
    Sgd(const OptimConfig& config, const Graph& graph, Device& device)
        : ops_(device.ops(graph.compute())),
          parameters_(graph.parameter_arena()),
          gradients_(graph.gradient_arena()),
          segments_(
              decay_segments(graph.parameters(), config.weight_decay, config.decay_1d, config.layer_decay)) {
        step_.momentum = config.momentum;
        step_.dampening = config.dampening;
        step_.nesterov = config.nesterov;
        if (config.momentum != 0) {
            memory_ = device.allocate(parameters_.bytes(), "momentum");
            momentum_ = memory_.view(0, parameters_.dtype, parameters_.shape);
        }
    }

    void step(double lr, std::int64_t step, const Range& range) override {
        step_.first_step = step == 1;
        for_parts(segments_, range, [&](const DecaySegment& segment) {
            step_.lr = lr * segment.lr_scale;
            step_.weight_decay = segment.weight_decay;
            ops_.sgd(step_, slice(gradients_, segment), slice(parameters_, segment),
                     momentum_.defined() ? slice(momentum_, segment) : TensorView{});
        });
    }

    std::vector<State> state() const override {
        if (!momentum_.defined()) return {};
        return {{"momentum_buffer", momentum_}};
    }

  private:
    Ops& ops_;
    TensorView parameters_, gradients_, momentum_;
    std::vector<DecaySegment> segments_;
    Buffer memory_;
    SgdStep step_;
};

}  // namespace

std::unique_ptr<Optimizer> make_sgd(const OptimConfig& config, const Graph& graph, Device& device) {
    return std::make_unique<Sgd>(config, graph, device);
}

}  // namespace tutti
