// Linear as three matrix products on the plain layouts. Measured against inner_product with packed weights,
// which loses a third of its time at batch 64 to packing weights that every step changes. With products in
// bf16 each call rounds its inputs, and backward of many rows dy once for both of its products. Weight
// gradients in bf16, products forward, and the inputs' gradients of many rows are our own where the processor
// has the instructions; in fp32, products forward of wide layers and all of narrow ones.

#include <algorithm>
#include <map>
#include <optional>

#include "bf16_linear.hpp"
#include "bf16_weight_gradient.hpp"
#include "eigen_ops.hpp"
#include "narrow_linear.hpp"
#include "onednn_dealt_linear.hpp"
#include "onednn_operators.hpp"
#include "onednn_product.hpp"
#include "onednn_row_linear.hpp"
#include "operand_rows.hpp"
#include "parallel.hpp"
#include "relu.hpp"
#include "shape_checks.hpp"
#include "tile_linear.hpp"

namespace tutti {
namespace {

using dnnl::memory;
using Tag = memory::format_tag;

class OnednnLinear final : public LinearOp {
  public:
    OnednnLinear(const LinearShape& shape, std::shared_ptr<OnednnContext> context)
        : shape_(shape),
          name_(describe(shape)),
          context_(std::move(context)),
          own_weight_gradient_(context_->products == memory::data_type::bf16 &&
                               takes_bf16_weight_gradient(shape)),
          own_forward_(context_->products == memory::data_type::bf16 && takes_bf16_linear(shape)),
          tiles_(context_->products == memory::data_type::f32 && takes_tile_linear(shape)),
          narrow_(context_->products == memory::data_type::f32 && takes_narrow_linear(shape)),
          dealt_(shape, context_),
          by_rows_(shape, context_) {}

    void forward(const TensorView& x, const TensorView& weight, const TensorView& bias,
                 const TensorView& y) override {
        forward(x, weight, bias, y, false);
    }
    void backward(const TensorView& x, const TensorView& weight, const TensorView& dy, const TensorView& dx,
                  const TensorView& dweight, const TensorView& dbias,
                  const ParametersFinal* parameters_final) override {
        backward(x, weight, {}, dy, dx, dweight, dbias, parameters_final);
    }

    /// `with_relu`: y is max(·, 0).
    void forward(const TensorView& x, const TensorView& weight, const TensorView& bias, const TensorView& y,
                 bool with_relu) {
        const std::int64_t batch = x.shape[0];
        assert(x.count() == batch * shape_.in && y.count() == batch * shape_.out);
        assert(weight.count() == shape_.out * shape_.in && bias.defined() == shape_.bias);
        if (batch == 0) return;
        if (deals(batch))
            return with_onednn_errors(name_, [&] { dealt_.forward(x, weight, bias, y, with_relu); });
        if (tiles_)
            return tile_linear_forward(shape_, batch, x.as<float>(), weight.as<float>(),
                                       shape_.bias ? bias.as<float>() : nullptr, with_relu, y.as<float>(),
                                       context_->workspace);
        if (own_forward_) {
            assert(!with_relu);
            return bf16_linear_forward(shape_, batch, x.as<float>(), weight.as<float>(),
                                       shape_.bias ? bias.as<float>() : nullptr, y.as<float>(),
                                       context_->workspace);
        }
        if (narrow_)
            narrow_linear_forward(shape_, batch, x.as<float>(), weight.as<float>(),
                                  shape_.bias ? bias.as<float>() : nullptr, y.as<float>(),
                                  context_->workspace);
        else if (in_fp32() && by_rows_.takes_forward(batch))
            with_onednn_errors(name_, [&] { by_rows_.forward(x, weight, bias, y); });
        else
            forward_by_library(x, weight, bias, y);
        if (with_relu) relu_forward(y.as<float>(), y.count(), y.as<float>());
    }

    /// `relu_of`: the y of a forward with ReLU, of which dy is the gradient, which is overwritten; undefined:
    /// of one without.
    void backward(const TensorView& x, const TensorView& weight, const TensorView& relu_of,
                  const TensorView& dy, const TensorView& dx, const TensorView& dweight,
                  const TensorView& dbias, const ParametersFinal* parameters_final) {
        const std::int64_t batch = x.shape[0];
        assert(dy.count() == batch * shape_.out && dweight.count() == weight.count());
        assert(dbias.defined() == shape_.bias);
        if (own_weight_gradient_ && batch > 0)
            return backward_in_pairs(x, weight, dy, dx, dweight, dbias, parameters_final);
        if (deals(batch))
            return with_onednn_errors(name_, [&] {
                dealt_.backward(x, weight, relu_of, dy, dx, dweight, dbias, parameters_final);
            });
        if (relu_of.defined()) relu_backward(relu_of.as<float>(), dy.as<float>(), dy.count(), dy.as<float>());
        if (narrow_)
            return narrow_linear_backward(shape_, batch, x.as<float>(), weight.as<float>(), dy.as<float>(),
                                          dx.defined() ? dx.as<float>() : nullptr, dweight.as<float>(),
                                          shape_.bias ? dbias.as<float>() : nullptr, parameters_final);
        if (in_fp32() && by_rows_.takes(batch))
            return with_onednn_errors(
                name_, [&] { by_rows_.backward(x, weight, dy, dx, dweight, dbias, parameters_final); });
        if (shape_.bias) sum_rows(dy.as<float>(), batch, shape_.out, dbias.as<float>());
        if (batch == 0) {
            std::fill_n(dweight.as<float>(), dweight.count(), 0.0f);
            return;
        }
        with_onednn_errors(name_, [&] {
            if (batch < many_rows) {
                // Some columns of dy make as many rows of the gradient.
                const std::int64_t parts = parts_of(shape_.out, batch * shape_.in, least_rows),
                                   rows = shape_.out / parts;
                OnednnProduct& product = backward_weight_part_[{batch, rows}];
                if (!product) product = plan_backward_weight(batch, rows);
                product.execute(*context_, dy.data, x.data, dweight.data, nullptr,
                                {parts, bytes(rows), bytes(rows * shape_.in)});
                if (!dx.defined()) return;
                if (parameters_final) (*parameters_final)();
                return execute_backward_data(batch, dy.data, weight, dx);
            }
            OnednnProduct& for_weight = backward_weight_[batch];
            if (!for_weight) for_weight = plan_backward_weight(batch);
            if (!dx.defined()) return for_weight.execute(*context_, x.data, dy.data, dweight.data);
            const auto gradient =
                for_weight.bring_shared(*context_, data_plan(batch / row_parts(batch)), dy.data);
            for_weight.execute(*context_, x.data, gradient, dweight.data);
            if (parameters_final) (*parameters_final)();
            execute_backward_data(batch, gradient, weight, dx);
        });
    }

  private:
    void forward_by_library(const TensorView& x, const TensorView& weight, const TensorView& bias,
                            const TensorView& y) {
        const std::int64_t batch = x.shape[0];
        with_onednn_errors(name_, [&] {
            const std::int64_t parts = row_parts(batch), rows = batch / parts;
            OnednnProduct& product = forward_[rows];
            if (!product) product = plan_forward(rows);
            product.execute(*context_, x.data, weight.data, y.data, bias.data,
                            {parts, bytes(rows * shape_.in), bytes(rows * shape_.out)});
        });
    }

    void backward_in_pairs(const TensorView& x, const TensorView& weight, const TensorView& dy,
                           const TensorView& dx, const TensorView& dweight, const TensorView& dbias,
                           const ParametersFinal* parameters_final) {
        const std::int64_t batch = x.shape[0];
        GradientOfOutput also;
        if (shape_.bias) also.bias = dbias.as<float>();
        if (dx.defined())
            also.rounded =
                context_->shared.reserve_elements<std::uint16_t>(static_cast<std::size_t>(dy.count()));
        bf16_weight_gradient(shape_, batch, x.as<float>(), dy.as<float>(), dweight.as<float>(), also,
                             context_->workspace);
        if (!dx.defined()) return;
        if (parameters_final) (*parameters_final)();
        if (takes_bf16_linear_backward(shape_, batch))
            return bf16_linear_backward_data(shape_, batch, also.rounded, weight.as<float>(), dx.as<float>(),
                                             context_->workspace);
        with_onednn_errors(name_, [&] { execute_backward_data(batch, {also.rounded, true}, weight, dx); });
    }

    /// Of rows × columns: where the arena holds it, and where the product takes it.
    struct Matrix {
        memory::dims dims;
        Tag order;
        std::int64_t row = 0;  // of fp32, not transposed: from one row as taken to the next; 0: as given
        memory::desc given() const { return {dims, memory::data_type::f32, order}; }
        memory::desc taken(memory::data_type products) const {
            if (row == 0 || products != memory::data_type::f32) return {dims, products, order};
            return {dims, products, memory::dims{row, 1}};
        }
    };

    OnednnProduct plan_forward(std::int64_t batch) const {
        const Matrix x{{batch, shape_.in}, Tag::ab}, weight_t{{shape_.in, shape_.out}, Tag::ba};
        const memory::desc y({batch, shape_.out}, memory::data_type::f32, Tag::ab);
        if (!shape_.bias) return plan(x, weight_t, y);
        const memory::desc bias({1, shape_.out}, memory::data_type::f32, Tag::ab);
        const auto type = context_->products;
        return plan(
            {{x.taken(type), weight_t.taken(type), bias, y}, context_->attributes(), context_->engine}, x,
            weight_t, y, OnednnProduct::Bias{DNNL_ARG_BIAS, bias});
    }

    /// From so many on an inner product's gradient is the faster way to dweight; see plan_backward_weight.
    static constexpr std::int64_t many_rows = 1024;

    /// Few rows are dealt by features; many rows, as many activations, are cut by rows.
    bool in_fp32() const { return context_->products == memory::data_type::f32; }
    bool deals(std::int64_t batch) const { return in_fp32() && batch < many_rows && dealt_.takes(batch); }

    std::int64_t row_parts(std::int64_t batch) const {
        return parts_of(batch, shape_.in * shape_.out, least_rows);
    }
    OnednnProduct& data_plan(std::int64_t rows) {
        OnednnProduct& product = backward_data_[rows];
        if (!product) {
            const Matrix dy{{rows, shape_.out}, Tag::ab},
                weight{{shape_.out, shape_.in}, Tag::ab, weight_row(shape_.in, rows)};
            product = plan(dy, weight, {{rows, shape_.in}, memory::data_type::f32, Tag::ab});
        }
        return product;
    }
    void execute_backward_data(std::int64_t batch, const OnednnProduct::Source& gradient,
                               const TensorView& weight, const TensorView& dx) {
        const std::int64_t parts = row_parts(batch), rows = batch / parts;
        data_plan(rows).execute(*context_, gradient, weight.data, dx.data, nullptr,
                                {parts, bytes(rows * shape_.out), bytes(rows * shape_.in)});
    }

    static std::size_t bytes(std::int64_t elements) {
        return static_cast<std::size_t>(elements) * sizeof(float);
    }

    /// Of less than many_rows. Some columns of dy, transposed: its rows are shape_.out apart.
    OnednnProduct plan_backward_weight(std::int64_t batch, std::int64_t rows) const {
        const memory::dims dims{rows, batch}, strides{1, shape_.out}, apart{1, activation_row(shape_.out)};
        const Matrix x{{batch, shape_.in}, Tag::ab, activation_row(shape_.in)};
        const memory::desc c({rows, shape_.in}, memory::data_type::f32, Tag::ab);
        const auto type = context_->products;
        const memory::desc dy(dims, memory::data_type::f32, strides);
        const memory::desc dy_taken = type == memory::data_type::f32 ? memory::desc(dims, type, apart)
                                                                     : memory::desc(dims, type, Tag::ba);
        return {*context_,
                dnnl::matmul::primitive_desc({dy_taken, x.taken(type), c}, context_->attributes(),
                                             context_->engine),
                {DNNL_ARG_SRC, dy, dy_taken},
                {DNNL_ARG_WEIGHTS, x.given(), x.taken(type)},
                {DNNL_ARG_DST, c, c}};
    }

    /// dweight = dyᵀ·x, of many rows as an inner product's gradient. Measured on AVX-512 (Zen 5) with 3,200
    /// rows, matmul against that, in ms:
    ///                 128→384         128→128         128→512         512→128
    ///     fp32   2.17 / 1.79    0.55 / 0.56    3.01 / 2.52    3.11 / 2.22
    ///     bf16   0.94 / 0.92    0.29 / 0.30    1.58 / 1.32    1.26 / 1.15
    /// With 64 rows (784→512, 512→512) matmul is faster by 5 to 15 %.
    OnednnProduct plan_backward_weight(std::int64_t batch) const {
        const auto type = context_->products;
        const Matrix x{{batch, shape_.in}, Tag::ab}, dy{{batch, shape_.out}, Tag::ab};
        const memory::desc dweight({shape_.out, shape_.in}, memory::data_type::f32, Tag::ab);
        const dnnl::inner_product_forward::primitive_desc hint(
            {dnnl::prop_kind::forward_training,
             x.taken(type),
             {{shape_.out, shape_.in}, type, Tag::ab},
             {{batch, shape_.out}, memory::data_type::f32, Tag::ab}},
            context_->attributes(), context_->engine);
        const dnnl::inner_product_backward_weights::primitive_desc description(
            {x.taken(type), dweight, dy.taken(type)}, context_->attributes(), context_->engine, hint);
        return {*context_,
                description,
                {DNNL_ARG_SRC, x.given(), x.taken(type)},
                {DNNL_ARG_DIFF_DST, dy.given(), dy.taken(type)},
                {DNNL_ARG_DIFF_WEIGHTS, dweight, dweight}};
    }

    OnednnProduct plan(const Matrix& a, const Matrix& b, const memory::desc& c) const {
        const auto type = context_->products;
        return plan({{a.taken(type), b.taken(type), c}, context_->attributes(), context_->engine}, a, b, c);
    }
    OnednnProduct plan(const dnnl::matmul::primitive_desc& description, const Matrix& a, const Matrix& b,
                       const memory::desc& c, const std::optional<OnednnProduct::Bias>& bias = {}) const {
        const auto type = context_->products;
        return {*context_,
                description,
                {DNNL_ARG_SRC, a.given(), a.taken(type)},
                {DNNL_ARG_WEIGHTS, b.given(), b.taken(type)},
                {DNNL_ARG_DST, c, c},
                bias};
    }

    /// Of a part: the library packs the other operand anew for each.
    static constexpr std::int64_t least_rows = 128;

    const LinearShape shape_;
    const std::string name_;
    const std::shared_ptr<OnednnContext> context_;
    const bool own_weight_gradient_, own_forward_;  // in bf16
    const bool tiles_, narrow_;                     // in fp32
    OnednnDealtLinear dealt_;
    OnednnRowLinear by_rows_;
    // By batch size: a run has few (full, the epoch's last, evaluation).
    std::map<std::int64_t, OnednnProduct> forward_, backward_data_, backward_weight_;
    std::map<std::pair<std::int64_t, std::int64_t>, OnednnProduct> backward_weight_part_;  // by batch, rows
};

class OnednnReluLinear final : public ReluLinearOp {
  public:
    OnednnReluLinear(const LinearShape& shape, std::shared_ptr<OnednnContext> context)
        : linear_(shape, std::move(context)) {}
    void forward(const TensorView& x, const TensorView& weight, const TensorView& bias,
                 const TensorView& y) override {
        linear_.forward(x, weight, bias, y, true);
    }
    void backward(const TensorView& x, const TensorView& weight, const TensorView& y, const TensorView& dy,
                  const TensorView& dx, const TensorView& dweight, const TensorView& dbias,
                  const ParametersFinal* parameters_final) override {
        linear_.backward(x, weight, y, dy, dx, dweight, dbias, parameters_final);
    }

  private:
    OnednnLinear linear_;
};

}  // namespace

std::unique_ptr<LinearOp> make_onednn_linear(const LinearShape& shape,
                                             std::shared_ptr<OnednnContext> context) {
    check(shape);
    return std::make_unique<OnednnLinear>(shape, std::move(context));
}

std::unique_ptr<ReluLinearOp> make_onednn_relu_linear(const LinearShape& shape,
                                                      std::shared_ptr<OnednnContext> context) {
    if (context->products != memory::data_type::f32) return nullptr;
    check(shape);
    return std::make_unique<OnednnReluLinear>(shape, std::move(context));
}

}  // namespace tutti
