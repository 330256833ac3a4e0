// Linear as three matrix products on the plain layouts. Measured against inner_product with packed weights,
// which loses a third of its time at batch 64 to packing weights that every step changes.

#include <algorithm>
#include <map>

#include "eigen_ops.hpp"
#include "onednn_operators.hpp"
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
            OnednnPrimitive& product = forward_[batch];
            if (!product) product = plan_forward(batch);
            if (shape_.bias)
                execute(product, {x.as<float>(), weight.as<float>(), y.as<float>(), bias.as<float>()});
            else
                execute(product, {x.as<float>(), weight.as<float>(), y.as<float>()});
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
            OnednnPrimitive& product = backward_weight_[batch];
            if (!product)
                product =
                    plan({shape_.out, batch}, Tag::ba, {batch, shape_.in}, Tag::ab, {shape_.out, shape_.in});
            execute(product, {dy.as<float>(), x.as<float>(), dweight.as<float>()});
        });
        if (!dx.defined()) return;
        with_onednn_errors(name_, [&] {
            OnednnPrimitive& product = backward_data_[batch];
            if (!product)
                product =
                    plan({batch, shape_.out}, Tag::ab, {shape_.out, shape_.in}, Tag::ab, {batch, shape_.in});
            execute(product, {dy.as<float>(), weight.as<float>(), dx.as<float>()});
        });
    }

  private:
    static memory::desc matrix(const memory::dims& dims, Tag order) {
        return {dims, memory::data_type::f32, order};
    }

    OnednnPrimitive plan_forward(std::int64_t batch) const {
        const auto x = matrix({batch, shape_.in}, Tag::ab);
        const auto weight_t = matrix({shape_.in, shape_.out}, Tag::ba);
        const auto y = matrix({batch, shape_.out}, Tag::ab);
        if (!shape_.bias) return plan(x, weight_t, y);
        const auto bias = matrix({1, shape_.out}, Tag::ab);
        const dnnl::matmul::primitive_desc description({x, weight_t, bias, y}, context_->attributes(),
                                                       context_->engine);
        return {*context_,
                description,
                {{DNNL_ARG_SRC, x}, {DNNL_ARG_WEIGHTS, weight_t}, {DNNL_ARG_DST, y}, {DNNL_ARG_BIAS, bias}}};
    }

    /// c = a · b, with c row-major.
    OnednnPrimitive plan(const memory::dims& a, Tag a_order, const memory::dims& b, Tag b_order,
                         const memory::dims& c) const {
        return plan(matrix(a, a_order), matrix(b, b_order), matrix(c, Tag::ab));
    }
    OnednnPrimitive plan(const memory::desc& a, const memory::desc& b, const memory::desc& c) const {
        const dnnl::matmul::primitive_desc description({a, b, c}, context_->attributes(), context_->engine);
        return {*context_, description, {{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_DST, c}}};
    }

    void execute(OnednnPrimitive& product, std::initializer_list<const void*> addresses) {
        product.execute(*context_, addresses, context_->workspace.reserve(product.scratch_bytes()));
    }

    const LinearShape shape_;
    const std::string name_;
    const std::shared_ptr<OnednnContext> context_;
    // By batch size: a run has few (full, the epoch's last, evaluation).
    std::map<std::int64_t, OnednnPrimitive> forward_, backward_data_, backward_weight_;
};

}  // namespace

std::unique_ptr<LinearOp> make_onednn_linear(const LinearShape& shape,
                                             std::shared_ptr<OnednnContext> context) {
    check(shape);
    return std::make_unique<OnednnLinear>(shape, std::move(context));
}

}  // namespace tutti
