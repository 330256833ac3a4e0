// Linear as three matrix products on the plain layouts. Measured against inner_product with packed weights,
// which loses a third of its time at batch 64 to packing weights that every step changes. With products in
// bf16 each call rounds its inputs.

#include <algorithm>
#include <map>
#include <optional>

#include "eigen_ops.hpp"
#include "onednn_operators.hpp"
#include "onednn_product.hpp"
#include "parallel.hpp"
#include "shape_checks.hpp"

namespace tutti {
namespace {

using dnnl::memory;
using Tag = memory::format_tag;

class OnednnLinear final : public LinearOp {
  public:
    OnednnLinear(const LinearShape& shape, std::shared_ptr<OnednnContext> context)
        : shape_(shape), name_(describe(shape)), context_(std::move(context)) {}

    void forward(const TensorView& x, const TensorView& weight, const TensorView& bias,
                 const TensorView& y) override {
        const std::int64_t batch = x.shape[0];
        assert(x.count() == batch * shape_.in && y.count() == batch * shape_.out);
        assert(weight.count() == shape_.out * shape_.in && bias.defined() == shape_.bias);
        if (batch == 0) return;
        with_onednn_errors(name_, [&] {
            const std::int64_t parts = parts_of(batch, shape_.in * shape_.out, least_rows),
                               rows = batch / parts;
            OnednnProduct& product = forward_[rows];
            if (!product) product = plan_forward(rows);
            product.execute(*context_, x.data, weight.data, y.data, bias.data,
                            {parts, bytes(rows * shape_.in), bytes(rows * shape_.out)});
        });
    }

    void backward(const TensorView& x, const TensorView& weight, const TensorView& dy, const TensorView& dx,
                  const TensorView& dweight, const TensorView& dbias) override {
        const std::int64_t batch = x.shape[0];
        assert(dy.count() == batch * shape_.out && dweight.count() == weight.count());
        assert(dbias.defined() == shape_.bias);
        if (shape_.bias) sum_rows(dy.as<float>(), batch, shape_.out, dbias.as<float>());
        if (batch == 0) {
            std::fill_n(dweight.as<float>(), dweight.count(), 0.0f);
            return;
        }
        with_onednn_errors(name_, [&] {
            // Some columns of dy make as many rows of the gradient.
            const std::int64_t parts = parts_of(shape_.out, batch * shape_.in, least_rows),
                               rows = shape_.out / parts;
            OnednnProduct& product = backward_weight_[batch];
            if (!product) product = plan_backward_weight(batch, rows);
            product.execute(*context_, dy.data, x.data, dweight.data, nullptr,
                            {parts, bytes(rows), bytes(rows * shape_.in)});
        });
        if (dx.defined()) backward_data(weight, dy, dx);
    }

    void backward_data(const TensorView& weight, const TensorView& dy, const TensorView& dx) override {
        const std::int64_t batch = dy.shape[0];
        assert(dy.count() == batch * shape_.out && dx.count() == batch * shape_.in);
        if (batch == 0) return;
        with_onednn_errors(name_, [&] {
            const std::int64_t parts = parts_of(batch, shape_.in * shape_.out, least_rows),
                               rows = batch / parts;
            OnednnProduct& product = backward_data_[rows];
            if (!product)
                product =
                    plan({rows, shape_.out}, Tag::ab, {shape_.out, shape_.in}, Tag::ab, {rows, shape_.in});
            product.execute(*context_, dy.data, weight.data, dx.data, nullptr,
                            {parts, bytes(rows * shape_.out), bytes(rows * shape_.in)});
        });
    }

  private:
    /// Of rows × columns: where the arena holds it, and where the product takes it.
    struct Matrix {
        memory::dims dims;
        Tag order;
        memory::desc given() const { return {dims, memory::data_type::f32, order}; }
        memory::desc taken(memory::data_type products) const { return {dims, products, order}; }
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

    /// Some columns of dy, transposed: its rows are shape_.out apart.
    OnednnProduct plan_backward_weight(std::int64_t batch, std::int64_t rows) const {
        const memory::dims dims{rows, batch}, strides{1, shape_.out};
        const Matrix x{{batch, shape_.in}, Tag::ab};
        const memory::desc c({rows, shape_.in}, memory::data_type::f32, Tag::ab);
        const auto type = context_->products;
        const memory::desc dy(dims, memory::data_type::f32, strides);
        const memory::desc dy_taken = type == memory::data_type::f32 ? dy : memory::desc(dims, type, Tag::ba);
        return {*context_,
                dnnl::matmul::primitive_desc({dy_taken, x.taken(type), c}, context_->attributes(),
                                             context_->engine),
                {DNNL_ARG_SRC, dy, dy_taken},
                {DNNL_ARG_WEIGHTS, x.given(), x.taken(type)},
                {DNNL_ARG_DST, c, c}};
    }

    static std::size_t bytes(std::int64_t elements) {
        return static_cast<std::size_t>(elements) * sizeof(float);
    }

    /// c = a · b, with c row-major.
    OnednnProduct plan(const memory::dims& a, Tag a_order, const memory::dims& b, Tag b_order,
                       const memory::dims& c) const {
        return plan(Matrix{a, a_order}, Matrix{b, b_order}, {c, memory::data_type::f32, Tag::ab});
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
    // By batch size: a run has few (full, the epoch's last, evaluation).
    std::map<std::int64_t, OnednnProduct> forward_, backward_data_, backward_weight_;
};

}  // namespace

std::unique_ptr<LinearOp> make_onednn_linear(const LinearShape& shape,
                                             std::shared_ptr<OnednnContext> context) {
    check(shape);
    return std::make_unique<OnednnLinear>(shape, std::move(context));
}

}  // namespace tutti
