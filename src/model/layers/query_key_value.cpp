#include <cmath>

#include "tutti/base/error.hpp"
#include "tutti/model/layers_transformer.hpp"

namespace tutti {
namespace {

/// One product with the bias {q_bias, 0, v_bias}, which is put together in the layer's memory at each
/// forward: three small copies beside a product of T rows.
class QueryKeyValue final : public Layer {
  public:
    QueryKeyValue(const Shape& input, const Initializer& weight)
        : Layer({input[0], 3 * input[1]}), shape_{input[1], 3 * input[1], true} {
        const Shape bias{shape_.in}, product{shape_.out, shape_.in};
        add_parameter({"q_bias", bias, bias, {}, Initializer::constant(0)});
        add_parameter({"v_bias", bias, bias, {}, Initializer::constant(0)});
        add_parameter({"qkv.weight", product, product, {}, weight});
    }

    std::string kind() const override { return "query_key_value"; }
    bool converts() const override { return true; }
    bool treats_samples_apart() const override { return true; }
    bool backward_reads_input() const override { return true; }
    std::int64_t batch_state_bytes() const override { return 2 * part_bytes(); }
    double forward_flops() const override {
        return 2.0 * static_cast<double>(shape_.in) * static_cast<double>(output_shape().count());
    }

    void prepare(Ops& ops) override {
        Layer::prepare(ops);
        op_ = ops.linear(shape_);
    }
    void forward(const LayerCall& call) override {
        const auto parameters = call.parameters_like(call.output);
        const TensorView bias = whole(call, 0, parameters[0].dtype);
        ops().copy(parameters[0], third(bias, 0));
        ops().fill(third(bias, 1), 0);
        ops().copy(parameters[1], third(bias, 2));
        op_->forward(rows(call.inputs[0], shape_.in), call.product_parameters[2], bias,
                     rows(call.output, shape_.out));
    }
    void backward(const LayerCall& call) override {
        const TensorView dbias = whole(call, 1, call.parameter_gradients[0].dtype);
        bool taken = false;
        const std::function<void()> take = [&] {
            ops().copy(third(dbias, 0), call.parameter_gradients[0]);
            ops().copy(third(dbias, 2), call.parameter_gradients[1]);
            taken = true;
            call.announce_parameter_gradients();
        };
        const TensorView& dx = call.input_gradients[0];
        op_->backward(rows(call.inputs[0], shape_.in), call.product_parameters[2],
                      rows(call.output_gradient, shape_.out), dx.defined() ? rows(dx, shape_.in) : dx,
                      call.parameter_gradients[2], dbias, &take);
        if (!taken) take();
    }

  private:
    static TensorView rows(const TensorView& x, std::int64_t width) {
        return x.reshaped({x.count() / width, width});
    }
    std::int64_t part_bytes() const { return shape_.out * static_cast<std::int64_t>(sizeof(double)); }
    /// The bias (0) or its gradient (1).
    TensorView whole(const LayerCall& call, std::int64_t part, DType type) const {
        return {call.batch_state.data + part * part_bytes(), type, {shape_.out}};
    }
    TensorView third(const TensorView& bias, std::int64_t number) const {
        return {bias.data + number * shape_.in * static_cast<std::int64_t>(size_of(bias.dtype)),
                bias.dtype,
                {shape_.in}};
    }

    LinearShape shape_;
    std::unique_ptr<LinearOp> op_;
};

}  // namespace

std::unique_ptr<Layer> make_query_key_value(const Shape& input, const std::optional<Initializer>& weight) {
    if (input.rank() != 2 || input.count() == 0)
        throw UsageError("query_key_value: the input has shape " + to_string(input),
                         "tokens [T, C] are needed");
    const double bound = 1.0 / std::sqrt(static_cast<double>(input[1]));
    return std::make_unique<QueryKeyValue>(input, weight.value_or(Initializer::uniform(bound)));
}

}  // namespace tutti
