#include "segments.hpp"

namespace tutti {
namespace {

class Adam final : public Optimizer {
  public:
    Adam(const OptimConfig& config, const Graph& graph, Device& device, const OwnedRanges& owned,
         bool decoupled)
        : ops_(device.ops(graph.compute())),
          parameters_(graph.parameter_arena()),
          gradients_(graph.gradient_arena()),
          segments_(owned_segments(update_segments(config, graph, ops_), ranges_of(graph, owned))),
          first_(graph, device, owned, "first moments"),
          second_(graph, device, owned, "second moments") {
        step_.beta1 = config.betas[0];
        step_.beta2 = config.betas[1];
        step_.eps = config.eps;
        step_.decoupled = decoupled;
    }

    void step(double lr, std::int64_t step, const Range& range) override {
        step_.step = step;
        for_parts(segments_, range, [&](const OwnedSegment& segment) {
            step_.lr = lr * segment.lr_scale;
            step_.weight_decay = segment.weight_decay;
            ops_.adam(step_, slice(gradients_, segment), slice(parameters_, segment),
                      segment.state(first_.arena()), segment.state(second_.arena()));
        });
    }

    std::vector<State> state() const override {
        return {{"exp_avg", first_.arena()}, {"exp_avg_sq", second_.arena()}};
    }

  private:
    Ops& ops_;
    TensorView parameters_, gradients_;
    std::vector<OwnedSegment> segments_;
    OwnedState first_, second_;
    AdamStep step_;
};

}  // namespace

std::unique_ptr<Optimizer> make_adam(const OptimConfig& config, const Graph& graph, Device& device,
                                     const OwnedRanges& owned) {
    return std::make_unique<Adam>(config, graph, device, owned, false);
}

std::unique_ptr<Optimizer> make_adamw(const OptimConfig& config, const Graph& graph, Device& device,
                                      const OwnedRanges& owned) {
    return std::make_unique<Adam>(config, graph, device, owned, true);
}

}  // namespace tutti
