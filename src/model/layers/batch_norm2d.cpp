#include "image_order.hpp"
#include "tutti/base/error.hpp"
#include "tutti/model/layers.hpp"

namespace tutti {
namespace {

// Doubles that live from forward to backward: the moments, in whose place backward puts its sums, and the
// normalizer (device/batch_norm_op.hpp).
std::int64_t moments_size(std::int64_t channels) {
    return 1 + 2 * channels;
}

class BatchNorm2d final : public Layer {
  public:
    BatchNorm2d(const Shape& input, const BatchNormOptions& options, const Shape& image)
        : Layer(input), shape_{input[input.rank() - 1], options.eps, options.momentum} {
        const Shape per_channel{shape_.channels};
        ParameterSpec weight{"weight", per_channel, per_channel, {}, Initializer::constant(1)};
        BufferSpec mean{"running_mean", per_channel, 0};
        keep_pytorchs_order(weight, image);
        keep_pytorchs_order(mean, image);
        ParameterSpec bias = weight;
        bias.name = "bias";
        bias.initial = Initializer::constant(0);
        add_parameter(weight);
        add_parameter(bias);
        BufferSpec variance = mean;
        variance.name = "running_var";
        variance.initial = 1;
        add_buffer(mean);
        add_buffer(variance);
        add_buffer({"num_batches_tracked", {}, 0, true, true});
    }

    std::string kind() const override { return "batch_norm2d"; }
    bool reads_images() const override { return true; }
    bool backward_reads_input() const override { return true; }
    /// What the ReLU behind a sum let pass cannot be computed again from the normalisation alone.
    bool backward_reads_output() const override { return adds_ && shape_.relu; }
    /// With what passed the ReLU, where the residual has no gradient of its own to write that to.
    bool overwrites_output_gradient() const override { return adds_ && shape_.relu; }
    bool fuse_relu_behind(Ops&) override { return shape_.relu = true; }
    bool fuse_sum_behind() override { return adds_ = true; }
    std::int64_t batch_state_bytes() const override {
        return 2 * moments_size(shape_.channels) * static_cast<std::int64_t>(sizeof(double));
    }
    std::int64_t statistics_count() const override { return keeps_statistics_ ? 0 : 2 + 2 * shape_.channels; }
    bool freeze_statistics() override { return keeps_statistics_ = true; }
    /// Mean 1, variance 3, scale and shift 2.
    double forward_flops() const override {
        return ((keeps_statistics_ ? 2.0 : 6.0) + (adds_ ? 1 : 0)) *
               static_cast<double>(output_shape().count());
    }
    /// x̂ 2, dβ 1, dγ 2, whose means serve dx, too: γr·(dy − a − b·x̂) 4, of kept statistics γr·dy 1.
    double backward_flops(bool input_gradient) const override {
        return (5.0 + (input_gradient ? keeps_statistics_ ? 1 : 4 : 0)) *
               static_cast<double>(output_shape().count());
    }

    void prepare(Ops& ops) override {
        Layer::prepare(ops);
        op_ = ops.batch_norm(shape_);
    }

    void forward(const LayerCall& call) override {
        const TensorView &x = call.inputs[0], &mean = call.buffers[0], &variance = call.buffers[1];
        if (call.step->phase == Phase::evaluate || keeps_statistics_) {
            op_->running_normalizer(mean, variance, normalizer(call));
        } else if (!call.step->recomputing) {  // else the normalizer of the first time is still there
            // The running mean, equal on all ranks, is the shift that makes their moments add up.
            const TensorView moments = doubles(call, 0, moments_size(shape_.channels));
            if (synchronized(call)) {
                op_->moments(x, mean, moments);
                call.step->statistics->sum(moments);
                op_->normalizer(moments, mean, normalizer(call), call.statistics);
            } else {
                op_->normalizer_of_batch(x, mean, moments, normalizer(call), call.statistics);
            }
        }
        const TensorView &weight = call.parameters[0], &bias = call.parameters[1];
        if (adds_)
            op_->residual_forward(x, call.inputs[1], normalizer(call), weight, bias, call.output);
        else
            op_->forward(x, normalizer(call), weight, bias, call.output);
    }

    BatchNormTracking tracking(const LayerCall& call) const override {
        return {call.statistics, call.buffers[0], call.buffers[1], call.buffers[2], shape_.momentum};
    }

    void backward(const LayerCall& call) override {
        const TensorView &x = call.inputs[0], &dy = call.output_gradient, &dx = call.input_gradients[0];
        // The gradient of the sum with a residual is that of the residual, too; without one it takes dy's
        // place.
        const TensorView& g = adds_ && call.input_gradients[1].defined() ? call.input_gradients[1] : dy;
        const TensorView &weight = call.parameters[0], &bias = call.parameters[1];
        const TensorView &dweight = call.parameter_gradients[0], &dbias = call.parameter_gradients[1];
        const TensorView sums = doubles(call, 0, 2 * shape_.channels);
        // The gradients of the parameters are of this rank's samples: like all gradients, they are summed
        // later.
        if (adds_)
            op_->residual_backward_sums(x, call.output, dy, normalizer(call), g, sums, dweight, dbias);
        else if (shape_.relu)
            op_->relu_backward_sums(x, dy, normalizer(call), weight, bias, sums, dweight, dbias);
        else
            op_->backward_sums(x, dy, normalizer(call), sums, dweight, dbias);
        if (synchronized(call)) call.step->statistics->sum(sums);
        if (!dx.defined()) return;
        if (shape_.relu && !adds_)
            op_->relu_backward(x, dy, normalizer(call), weight, bias, sums, dx);
        else
            op_->backward(x, g, normalizer(call), weight, sums, dx);
    }

  private:
    bool synchronized(const LayerCall& call) const {
        return call.step->statistics && call.step->sync_batch_statistics && !keeps_statistics_;
    }
    static TensorView doubles(const LayerCall& call, std::int64_t first, std::int64_t count) {
        return {
            call.batch_state.data + static_cast<std::size_t>(first) * sizeof(double), DType::f64, {count}};
    }
    TensorView normalizer(const LayerCall& call) const {
        const std::int64_t size = moments_size(shape_.channels);
        return doubles(call, size, size);
    }

    BatchNormShape shape_;
    bool adds_ = false;              ///< the second input, a residual
    bool keeps_statistics_ = false;  ///< and normalises by them
    std::unique_ptr<BatchNormOp> op_;
};

}  // namespace

std::unique_ptr<Layer> make_batch_norm2d(const Shape& input, const BatchNormOptions& options,
                                         const Shape& image) {
    if (input.rank() != 3 && input.rank() != 1)
        throw UsageError("batch_norm2d: the input has shape " + to_string(input),
                         "[height, width, channels] or [features] is needed");
    if (!(options.eps > 0))
        throw UsageError("batch_norm2d: eps is " + std::to_string(options.eps), "it must be above 0");
    if (!(options.momentum >= 0 && options.momentum <= 1))
        throw UsageError("batch_norm2d: momentum is " + std::to_string(options.momentum),
                         "it must be between 0 and 1");
    return std::make_unique<BatchNorm2d>(input, options, image);
}

}  // namespace tutti
