#pragma once
// A linear layer of few rows, dealt among the threads by features.

#include <array>
#include <cstdint>
#include <map>
#include <memory>

#include "onednn_primitive.hpp"
#include "tile_linear.hpp"
#include "tutti/device/ops.hpp"

namespace tutti {

/// With few rows the weights are most of what is read and written. Each thread takes a run of output
/// features: it multiplies with their weights, makes these weights' gradients and their part of the input's
/// gradient. An optimizer that cuts each parameter among the threads updates them on the same one, so weights
/// and gradients stay in one core's caches from step to step, and only activations go between cores. (Two
/// cores need not share a cache, and then a line costs some hundred nanoseconds, also one that is only
/// written where the other had read it.) The input's gradient is summed from the threads' parts in their
/// order. fp32; one call at a time.
class OnednnDealtLinear {
  public:
    OnednnDealtLinear(const LinearShape& shape, std::shared_ptr<OnednnContext> context)
        : shape_(shape), tiles_(takes_tile_linear(shape)), context_(std::move(context)) {}

    /// Whether the threads of now have enough to do with `batch` rows, and their parts of the input's
    /// gradient are no more than the weights.
    bool takes(std::int64_t batch) const;

    /// `with_relu`: y is max(·, 0).
    void forward(const TensorView& x, const TensorView& weight, const TensorView& bias, const TensorView& y,
                 bool with_relu);
    /// `relu_of`: the y of a forward with ReLU, of which dy is the gradient; undefined: of one without.
    void backward(const TensorView& x, const TensorView& weight, const TensorView& relu_of,
                  const TensorView& dy, const TensorView& dx, const TensorView& dweight,
                  const TensorView& dbias, const ParametersFinal* parameters_final);

  private:
    /// Some neighbouring features of one side of the layer.
    struct Run {
        std::int64_t begin = 0, count = 0;
    };
    /// The products of one run, made for callers with a thread each.
    struct Products {
        OnednnPrimitive forward, backward_weight, backward_data;
        std::size_t scratch_bytes() const;
    };

    /// One for each caller.
    static Run run_of(std::int64_t features, int callers, std::int64_t part);
    Products plan(std::int64_t batch, std::int64_t count, int callers) const;
    /// Of the copy of a run of the output or its gradient; and of the input, or of the run's weights, where
    /// a product takes their rows further apart.
    static std::size_t gradient_bytes(std::int64_t batch, std::int64_t count);
    std::size_t copy_bytes(std::int64_t batch, std::int64_t count) const;
    /// Plans what is not planned yet. Bytes of workspace that each caller has from then on: for both copies
    /// with a product's scratch behind them, or for the sums of tiles.
    std::size_t ready(std::int64_t batch, int callers);
    void forward_by_tiles(const TensorView& x, const TensorView& weight, const TensorView& bias,
                          const TensorView& y, bool with_relu, int callers, std::size_t bytes);

    const LinearShape shape_;
    const bool tiles_;
    const std::shared_ptr<OnednnContext> context_;
    /// By batch, number of features and callers.
    std::map<std::array<std::int64_t, 3>, Products> products_;
};

}  // namespace tutti
