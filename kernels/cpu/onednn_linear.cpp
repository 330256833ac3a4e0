// Linear as three matrix products on the plain layouts. Measured against inner_product with packed weights,
// which loses a third of its time at batch 64 to packing weights that every step changes. With products in
// bf16 each call rounds its inputs.

#include <algorithm>
#include <map>
#include <optional>

#include "eigen_ops.hpp"
#include "onednn_operators.hpp"
#include "onednn_product.hpp"
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
            OnednnProduct& product = forward_[batch];
            if (!product) product = plan_forward(batch);
            product.execute(*context_, x.data, weight.data, y.data, bias.data);
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
            OnednnProduct& product = backward_weight_[batch];
            if (!product)
                product =
                    plan({shape_.out, batch}, Tag::ba, {batch, shape_.in}, Tag::ab, {shape_.out, shape_.in});
            product.execute(*context_, dy.data, x.data, dweight.data);
        });
        if (!dx.defined()) return;
        with_onednn_errors(name_, [&] {
            OnednnProduct& product = backward_data_[batch];
            if (!product)
                product =
                    plan({batch, shape_.out}, Tag::ab, {shape_.out, shape_.in}, Tag::ab, {batch, shape_.in});
            product.execute(*context_, dy.data, weight.data, dx.data);
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
