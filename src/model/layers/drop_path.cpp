#include <fmt/format.h>
#include <cassert>

#include "tutti/base/error.hpp"
#include "tutti/base/random.hpp"
#include "tutti/model/layers_transformer.hpp"

namespace tutti {
namespace {

class DropPath final : public Layer {
  public:
    DropPath(const Shape& input, double probability, std::uint64_t number)
        : Layer(input), probability_(probability), number_(number) {}

    std::string kind() const override { return "drop_path"; }
    bool treats_samples_apart() const override { return true; }
    bool works_in_place() const override { return true; }
    void forward(const LayerCall& call) override {
        if (call.step->phase == Phase::train)
            drop(*call.step, call.inputs[0], call.output);
        else if (call.output.data != call.inputs[0].data)
            ops().copy(call.inputs[0], call.output);
    }
    void backward(const LayerCall& call) override {
        const TensorView& dx = call.input_gradients[0];
        if (dx.defined()) drop(*call.step, call.output_gradient, dx);
    }

  private:
    void drop(const StepContext& step, const TensorView& x, const TensorView& y) {
        if (!ops().drop_path({step.seed, step.epoch, step.positions, number_}, probability_, x, y))
            ops().scale_samples(x, factors(step, x.shape[0]), y);
    }
    /// Computed again in backward: the numbers are addressed, so they are the same.
    std::span<const double> factors(const StepContext& step, std::int64_t samples) {
        assert(static_cast<std::int64_t>(step.positions.size()) == samples);
        factors_.resize(static_cast<std::size_t>(samples));
        for (std::size_t n = 0; n < factors_.size(); ++n) {
            const RandomStream random(step.seed, RandomPlace::drop_path,
                                      static_cast<std::uint64_t>(step.epoch),
                                      static_cast<std::uint64_t>(step.positions[n]));
            factors_[n] = random.uniform(number_) < probability_ ? 0.0 : 1.0 / (1.0 - probability_);
        }
        return factors_;
    }

    double probability_;
    std::uint64_t number_;
    std::vector<double> factors_;  // grows to the largest batch once
};

}  // namespace

std::unique_ptr<Layer> make_drop_path(const Shape& input, double probability, std::uint64_t number) {
    if (!(probability >= 0 && probability < 1))
        throw UsageError(fmt::format("drop_path: the probability is {}", probability),
                         "it must be at least 0 and below 1");
    return std::make_unique<DropPath>(input, probability, number);
}

}  // namespace tutti
