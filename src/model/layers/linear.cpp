#include <cassert>
#include <cmath>
#include <optional>

#include "tutti/base/error.hpp"
#include "tutti/model/layers.hpp"

namespace tutti {
namespace {

class Linear final : public Layer {
  public:
    Linear(const Shape& image, const Shape& output, const LinearShape& shape, const LinearInitial& initial)
        : Layer(output), shape_(shape) {
        const std::int64_t in = shape.in, out = shape.out;
        const Initializer usual = Initializer::uniform(1.0 / std::sqrt(static_cast<double>(in)));
        ParameterSpec weight{"weight", {out, in}, {out, in}, {}, initial.weight.value_or(usual)};
        if (image.rank() == 3) {
            weight.view = {out, image[2], image[0], image[1]};
            weight.permutation = {0, 2, 3, 1};
        }
        add_parameter(weight);
        if (shape.bias) add_parameter({"bias", {out}, {out}, {}, initial.bias.value_or(usual)});
    }

    Linear(const Shape& output, const LinearShape& shape, const ParameterSpec& weight,
           const ParameterSpec& bias)
        : Layer(output), shape_(shape) {
        add_parameter(weight);
        add_parameter(bias);
    }

    std::string kind() const override { return "linear"; }
    bool converts() const override { return true; }
    bool reads_images() const override { return !relu_op_ && !gelu_behind_ && !gelu_before_ && !adds_; }
    bool writes_images() const override { return false; }
    bool treats_samples_apart() const override { return true; }
    bool backward_reads_input() const override { return true; }
    bool backward_reads_output() const override { return relu_op_ != nullptr; }
    bool overwrites_output_gradient() const override { return relu_op_ || all_of_gelu_; }
    /// Asked first of all.
    bool fuse_sum_behind() override { return adds_ = true; }
    bool passes_gradient_on(std::size_t input) const override { return adds_ && input == 1; }
    bool fuse_relu_behind(Ops& ops) override {
        if (adds_) return false;
        relu_op_ = ops.relu_linear(shape_);
        return relu_op_ != nullptr;
    }
    bool fuse_gelu_behind(GeluForm form) override {
        if (adds_) return false;
        gelu_behind_ = form;
        return true;
    }
    bool fuse_all_of_gelu_behind(GeluForm form) override {
        // An operator has one form of GELU.
        if (relu_op_ || gelu_before_ || adds_) return false;
        gelu_behind_ = form;
        all_of_gelu_ = true;
        return true;
    }
    bool fuse_gelu_before(GeluForm form) override {
        if (relu_op_ || all_of_gelu_) return false;
        gelu_before_ = form;
        return true;
    }
    void choose_what_is_kept(const Ops&, DType output) override { output_size_ = size_of(output); }
    std::int64_t state_bytes_per_sample() const override {
        return gelu_behind_ ? output_shape().count() * static_cast<std::int64_t>(output_size_) : 0;
    }
    double forward_flops() const override {
        return product_flops() + (adds_ ? static_cast<double>(output_shape().count()) : 0.0);
    }
    double backward_flops(bool input_gradient) const override {
        return product_flops() * (input_gradient ? 2 : 1);
    }

    void prepare(Ops& ops) override {
        Layer::prepare(ops);
        if (relu_op_) return;
        if (!gelu_behind_ && !gelu_before_) {
            op_ = ops.linear(shape_);
            return;
        }
        // A layer between two GELUs has them both of one form: a model has one.
        auto op = ops.gelu_linear(shape_, gelu_behind_ ? *gelu_behind_ : *gelu_before_);
        gelu_op_ = op.get();
        op_ = std::move(op);
    }
    void forward(const LayerCall& call) override {
        if (gelu_behind_) return forward_gelu(call);
        if (adds_)
            return op_->residual_forward(rows(call.inputs[0], shape_.in), call.product_parameters[0],
                                         bias_of(call), rows(call.inputs[1], shape_.out),
                                         rows(call.output, shape_.out));
        if (relu_op_)
            return relu_op_->forward(rows(call.inputs[0], shape_.in), call.product_parameters[0],
                                     bias_of(call), rows(call.output, shape_.out));
        op_->forward(rows(call.inputs[0], shape_.in), call.product_parameters[0], bias_of(call),
                     rows(call.output, shape_.out));
    }
    void backward(const LayerCall& call) override {
        if (adds_ && call.input_gradients[1].defined() &&
            call.input_gradients[1].data != call.output_gradient.data)
            ops().copy(call.output_gradient, call.input_gradients[1]);
        if (gelu_before_) return backward_gelu(call);
        const TensorView x = rows(call.inputs[0], shape_.in), dy = rows(call.output_gradient, shape_.out);
        const TensorView &weight = call.product_parameters[0], &dweight = call.parameter_gradients[0];
        const TensorView dbias = bias_gradient_of(call);
        TensorView dx = call.input_gradients[0];
        if (dx.defined()) dx = rows(dx, shape_.in);
        if (relu_op_)
            relu_op_->backward(x, weight, rows(call.output, shape_.out), dy, dx, dweight, dbias,
                               call.parameter_gradients_final);
        else if (all_of_gelu_)
            gelu_op_->backward_through_gelu(x, before_gelu(call, dy), weight, dy, dx, dweight, dbias,
                                            call.parameter_gradients_final);
        else
            op_->backward(x, weight, dy, dx, dweight, dbias, call.parameter_gradients_final);
    }

  private:
    void forward_gelu(const LayerCall& call) {
        const TensorView y = rows(call.output, shape_.out);
        const bool kept = !call.step || call.step->phase == Phase::train;
        gelu_op_->forward_gelu(rows(call.inputs[0], shape_.in), call.product_parameters[0], bias_of(call),
                               kept ? before_gelu(call, y) : TensorView{}, y);
    }
    void backward_gelu(const LayerCall& call) {
        gelu_op_->backward_gelu(rows(call.inputs[0], shape_.in), rows(call.gelu_input, shape_.in),
                                call.product_parameters[0], rows(call.output_gradient, shape_.out),
                                rows(call.input_gradients[0], shape_.in), call.parameter_gradients[0],
                                bias_gradient_of(call), call.parameter_gradients_final);
    }
    /// What is kept in the layer's state, like the output.
    static TensorView before_gelu(const LayerCall& call, const TensorView& output) {
        const TensorView h{call.state.data, output.dtype, output.shape};
        assert(h.bytes() <= call.state.bytes());
        return h;
    }
    double product_flops() const {
        return 2.0 * static_cast<double>(shape_.in) * static_cast<double>(output_shape().count());
    }
    static TensorView rows(const TensorView& x, std::int64_t width) {
        return x.reshaped({x.count() / width, width});
    }
    /// The product adds it in the type of its result.
    TensorView bias_of(const LayerCall& call) const {
        return shape_.bias ? call.parameters_like(call.output)[1].reshaped({shape_.out}) : TensorView{};
    }
    TensorView bias_gradient_of(const LayerCall& call) const {
        return shape_.bias ? call.parameter_gradients[1].reshaped({shape_.out}) : TensorView{};
    }

    LinearShape shape_;
    std::unique_ptr<LinearOp> op_;
    std::unique_ptr<ReluLinearOp> relu_op_;  // in its place
    GeluLinearOp* gelu_op_ = nullptr;        // op_, where a GELU is fused
    std::optional<GeluForm> gelu_behind_, gelu_before_;
    bool all_of_gelu_ = false;     // of gelu_behind_, backward as well
    bool adds_ = false;            // the second input, a residual
    std::size_t output_size_ = 0;  // of an element
};

}  // namespace

std::unique_ptr<Layer> make_linear(const Shape& input, std::int64_t out, bool bias,
                                   const Shape& flattened_from, const LinearInitial& initial) {
    if (out < 1) throw UsageError("linear: out is " + std::to_string(out), "it must be at least 1");
    const Shape& image = flattened_from.rank() == 3 ? flattened_from : input;
    const bool tokens = input.rank() == 2;
    return std::make_unique<Linear>(image, tokens ? Shape{input[0], out} : Shape{out},
                                    LinearShape{tokens ? input[1] : input.count(), out, bias}, initial);
}

std::unique_ptr<Layer> make_linear(const Shape& tokens, const ParameterSpec& weight,
                                   const ParameterSpec& bias) {
    const std::int64_t out = bias.file_shape.count();
    if (tokens.rank() != 2 || weight.file_shape.count() != out * tokens[1])
        throw UsageError("linear: the input has shape " + to_string(tokens) + ", the weight " +
                             to_string(weight.file_shape) + ", the bias " + to_string(bias.file_shape),
                         "tokens [T, C], a weight of out times C elements and a bias of out are needed");
    return std::make_unique<Linear>(Shape{tokens[0], out}, LinearShape{tokens[1], out, true}, weight, bias);
}

}  // namespace tutti
