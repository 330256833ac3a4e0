#include <optional>

#include "segments.hpp"

namespace tutti {
namespace {

class Sgd final : public Optimizer {
  public:
    Sgd(const OptimConfig& config, const Graph& graph, Device& device, const OwnedRanges& owned)
        : ops_(device.ops(graph.compute())),
          parameters_(graph.parameter_arena()),
          gradients_(graph.gradient_arena()),
          segments_(owned_segments(update_segments(config, graph, ops_), ranges_of(graph, owned))) {
        step_.momentum = config.momentum;
        step_.dampening = config.dampening;
        step_.nesterov = config.nesterov;
        if (config.momentum != 0) momentum_.emplace(graph, device, owned, "momentum");
    }

    void step(double lr, std::int64_t step, const Range& range) override {
        step_.first_step = step == 1;
        for_parts(segments_, range, [&](const OwnedSegment& segment) {
            step_.lr = lr * segment.lr_scale;
            step_.weight_decay = segment.weight_decay;
            ops_.sgd(step_, slice(gradients_, segment), slice(parameters_, segment),
                     momentum_ ? segment.state(momentum_->arena()) : TensorView{});
        });
    }

    std::vector<State> state() const override {
        if (!momentum_) return {};
        return {{"momentum_buffer", momentum_->arena()}};
    }

  private:
    Ops& ops_;
    TensorView parameters_, gradients_;
    std::vector<OwnedSegment> segments_;
    std::optional<OwnedState> momentum_;
    SgdStep step_;
};

}  // namespace

std::unique_ptr<Optimizer> make_sgd(const OptimConfig& config, const Graph& graph, Device& device,
                                    const OwnedRanges& owned) {
    return std::make_unique<Sgd>(config, graph, device, owned);
}

}  // namespace tutti
