#include "segments.hpp"

namespace tutti {
namespace {

class Adadelta final : public Optimizer {
  public:
    Adadelta(const OptimConfig& config, const Graph& graph, Device& device, const OwnedRanges& owned)
        : ops_(device.ops(graph.compute())),
          parameters_(graph.parameter_arena()),
          gradients_(graph.gradient_arena()),
          segments_(owned_segments(update_segments(config, graph, ops_), ranges_of(graph, owned))),
          squares_(graph, device, owned, "averages of squared gradients"),
          deltas_(graph, device, owned, "averages of squared updates") {
        step_.rho = config.rho;
        step_.eps = config.eps;
    }

    void step(double lr, std::int64_t, const Range& range) override {
        for_parts(segments_, range, [&](const OwnedSegment& segment) {
            step_.lr = lr * segment.lr_scale;
            step_.weight_decay = segment.weight_decay;
            ops_.adadelta(step_, slice(gradients_, segment), slice(parameters_, segment),
                          segment.state(squares_.arena()), segment.state(deltas_.arena()));
        });
    }

    std::vector<State> state() const override {
        return {{"square_avg", squares_.arena()}, {"acc_delta", deltas_.arena()}};
    }

  private:
    Ops& ops_;
    TensorView parameters_, gradients_;
    std::vector<OwnedSegment> segments_;
    OwnedState squares_, deltas_;
    AdadeltaStep step_;
};

}  // namespace

std::unique_ptr<Optimizer> make_adadelta(const OptimConfig& config, const Graph& graph, Device& device,
                                         const OwnedRanges& owned) {
    return std::make_unique<Adadelta>(config, graph, device, owned);
}

}  // namespace tutti
