// Convolution on NHWC activations. oneDNN chooses the order of the weights; the plain weights [O, KH, KW,
// I/groups] are brought into it before, and weight gradients back after, each call.

#include <algorithm>
#include <map>
#include <string_view>

#include "onednn_operators.hpp"
#include "shape_checks.hpp"

namespace tutti {
namespace {

using dnnl::memory;
using Tag = memory::format_tag;

/// One direction for one batch size.
struct Plan {
    OnednnPrimitive convolution;  // stays empty where oneDNN has only plain loops: the fallback computes
    OnednnPrimitive reorder;      // stays empty where the chosen order is the plain one
    std::size_t packed_bytes = 0;
};

class OnednnConv2d final : public Conv2dOp {
  public:
    OnednnConv2d(const Conv2dShape& shape, std::shared_ptr<OnednnContext> context,
                 std::unique_ptr<Conv2dOp> fallback)
        : shape_(shape),
          name_(describe(shape)),
          context_(std::move(context)),
          fallback_(std::move(fallback)) {}

    void forward(const TensorView& x, const TensorView& weight, const TensorView& bias,
                 const TensorView& y) override {
        const std::int64_t batch = x.shape[0];
        assert(bias.defined() == shape_.bias);
        if (batch == 0) return;
        with_onednn_errors(name_, [&] {
            Plan& plan = find_or_make(forward_, batch, &OnednnConv2d::plan_forward);
            if (!plan.convolution) return fallback_->forward(x, weight, bias, y);
            const Scratch scratch = reserve(plan);
            const void* packed = pack(plan, weight, scratch);
            if (shape_.bias)
                plan.convolution.execute(*context_, {x.data, packed, y.data, bias.data}, scratch.library);
            else
                plan.convolution.execute(*context_, {x.data, packed, y.data}, scratch.library);
        });
    }

    void backward(const TensorView& x, const TensorView& weight, const TensorView& dy, const TensorView& dx,
                  const TensorView& dweight, const TensorView& dbias) override {
        const std::int64_t batch = x.shape[0];
        assert(dbias.defined() == shape_.bias);
        if (batch == 0) return fallback_->backward(x, weight, dy, dx, dweight, dbias);
        with_onednn_errors(name_, [&] {
            Plan& for_weight = find_or_make(backward_weight_, batch, &OnednnConv2d::plan_backward_weight);
            if (!dx.defined() && for_weight.convolution)
                return backward_weight(for_weight, x, dy, dweight, dbias);
            Plan& for_data = find_or_make(backward_data_, batch, &OnednnConv2d::plan_backward_data);
            if (!for_weight.convolution || !for_data.convolution)
                return fallback_->backward(x, weight, dy, dx, dweight, dbias);
            backward_weight(for_weight, x, dy, dweight, dbias);
            compute_data(for_data, weight, dy, dx);
        });
    }

    void backward_data(const TensorView& weight, const TensorView& dy, const TensorView& dx) override {
        const std::int64_t batch = dy.shape[0];
        if (batch == 0) return;
        with_onednn_errors(name_, [&] {
            Plan& plan = find_or_make(backward_data_, batch, &OnednnConv2d::plan_backward_data);
            if (!plan.convolution) return fallback_->backward_data(weight, dy, dx);
            compute_data(plan, weight, dy, dx);
        });
    }

  private:
    using Plans = std::map<std::int64_t, Plan>;  // by batch size: full, the epoch's last, evaluation

    Plan& find_or_make(Plans& plans, std::int64_t batch, Plan (OnednnConv2d::*make)(std::int64_t) const) {
        auto found = plans.find(batch);
        if (found == plans.end()) found = plans.emplace(batch, (this->*make)(batch)).first;
        return found->second;
    }

    struct Scratch {
        std::byte* packed;
        std::byte* library;
    };

    /// The layouts of one batch size; `weight` leaves the order to oneDNN.
    struct Layouts {
        memory::desc x, weight, bias, y;
    };

    Layouts layouts(std::int64_t batch) const {
        constexpr auto f32 = memory::data_type::f32;
        return {{{batch, shape_.in, shape_.height, shape_.width}, f32, Tag::nhwc},
                {weight_dims(), f32, Tag::any},
                shape_.bias ? memory::desc({shape_.out}, f32, Tag::a) : memory::desc(),
                {{batch, shape_.out, shape_.out_height(), shape_.out_width()}, f32, Tag::nhwc}};
    }
    memory::dims weight_dims() const {
        if (shape_.groups == 1) return {shape_.out, shape_.in, shape_.kernel_h, shape_.kernel_w};
        return {shape_.groups, shape_.out / shape_.groups, shape_.in / shape_.groups, shape_.kernel_h,
                shape_.kernel_w};
    }
    memory::desc plain_weight() const {
        return {weight_dims(), memory::data_type::f32, shape_.groups == 1 ? Tag::ohwi : Tag::gohwi};
    }
    memory::dims strides() const { return {shape_.stride_h, shape_.stride_w}; }
    memory::dims padding() const { return {shape_.padding_h, shape_.padding_w}; }

    dnnl::convolution_forward::primitive_desc describe_forward(const Layouts& layouts) const {
        return {{dnnl::prop_kind::forward_training, dnnl::algorithm::convolution_direct, layouts.x,
                 layouts.weight, layouts.bias, layouts.y, strides(), padding(), padding()},
                context_->attributes(),
                context_->engine,
                /*allow_empty=*/true};
    }

    Plan plan_forward(std::int64_t batch) const {
        const Layouts layout = layouts(batch);
        const auto description = describe_forward(layout);
        if (!is_fast(description)) return {};
        Arguments arguments = {{DNNL_ARG_SRC, layout.x},
                               {DNNL_ARG_WEIGHTS, description.weights_desc()},
                               {DNNL_ARG_DST, layout.y}};
        if (shape_.bias) arguments.emplace_back(DNNL_ARG_BIAS, layout.bias);
        return finish(description, arguments, description.weights_desc(), /*gradient=*/false);
    }

    Plan plan_backward_data(std::int64_t batch) const {
        const Layouts layout = layouts(batch);
        const auto hint = describe_forward(layout);
        if (!hint) return {};
        const dnnl::convolution_backward_data::primitive_desc description(
            {dnnl::algorithm::convolution_direct, layout.x, layout.weight, layout.y, strides(), padding(),
             padding()},
            context_->attributes(), context_->engine, hint, /*allow_empty=*/true);
        if (!is_fast(description)) return {};
        return finish(description,
                      {{DNNL_ARG_DIFF_DST, layout.y},
                       {DNNL_ARG_WEIGHTS, description.weights_desc()},
                       {DNNL_ARG_DIFF_SRC, layout.x}},
                      description.weights_desc(), /*gradient=*/false);
    }

    Plan plan_backward_weight(std::int64_t batch) const {
        const Layouts layout = layouts(batch);
        const auto hint = describe_forward(layout);
        if (!hint) return {};
        const dnnl::convolution_backward_weights::primitive_desc description(
            {dnnl::algorithm::convolution_direct, layout.x, layout.weight, layout.bias, layout.y, strides(),
             padding(), padding()},
            context_->attributes(), context_->engine, hint, /*allow_empty=*/true);
        if (!is_fast(description)) return {};
        Arguments arguments = {{DNNL_ARG_SRC, layout.x},
                               {DNNL_ARG_DIFF_DST, layout.y},
                               {DNNL_ARG_DIFF_WEIGHTS, description.diff_weights_desc()}};
        if (shape_.bias) arguments.emplace_back(DNNL_ARG_DIFF_BIAS, layout.bias);
        return finish(description, arguments, description.diff_weights_desc(), /*gradient=*/true);
    }

    using Arguments = std::vector<std::pair<int, memory::desc>>;

    /// oneDNN's plain loops ("ref:any") are a hundred times slower than a matrix product.
    static bool is_fast(const dnnl::primitive_desc& description) {
        return description && !std::string_view(description.impl_info_str()).starts_with("ref");
    }

    Plan finish(const dnnl::primitive_desc& description, const Arguments& arguments,
                const memory::desc& packed, bool gradient) const {
        Plan plan;
        plan.convolution = OnednnPrimitive(*context_, description, arguments);
        if (packed == plain_weight()) return plan;
        plan.packed_bytes = packed.get_size();
        const memory::desc from = gradient ? packed : plain_weight(), to = gradient ? plain_weight() : packed;
        const dnnl::reorder::primitive_desc reorder(context_->engine, from, context_->engine, to,
                                                    context_->attributes());
        plan.reorder = OnednnPrimitive(*context_, reorder, {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
        return plan;
    }

    Scratch reserve(const Plan& plan) {
        const std::size_t packed = (plan.packed_bytes + 63) / 64 * 64;
        const std::size_t library = std::max(plan.convolution.scratch_bytes(), plan.reorder.scratch_bytes());
        std::byte* memory = context_->workspace.reserve(packed + library);
        return {memory, memory + packed};
    }

    const void* pack(Plan& plan, const TensorView& weight, const Scratch& scratch) {
        if (!plan.reorder) return weight.data;
        plan.reorder.execute(*context_, {weight.data, scratch.packed}, scratch.library);
        return scratch.packed;
    }

    void compute_data(Plan& plan, const TensorView& weight, const TensorView& dy, const TensorView& dx) {
        const Scratch scratch = reserve(plan);
        const void* packed = pack(plan, weight, scratch);
        plan.convolution.execute(*context_, {dy.data, packed, dx.data}, scratch.library);
    }

    void backward_weight(Plan& plan, const TensorView& x, const TensorView& dy, const TensorView& dweight,
                         const TensorView& dbias) {
        const Scratch scratch = reserve(plan);
        std::byte* packed = plan.reorder ? scratch.packed : dweight.data;
        if (shape_.bias)
            plan.convolution.execute(*context_, {x.data, dy.data, packed, dbias.data}, scratch.library);
        else
            plan.convolution.execute(*context_, {x.data, dy.data, packed}, scratch.library);
        if (plan.reorder) plan.reorder.execute(*context_, {packed, dweight.data}, scratch.library);
    }

    const Conv2dShape shape_;
    const std::string name_;
    const std::shared_ptr<OnednnContext> context_;
    const std::unique_ptr<Conv2dOp> fallback_;
    Plans forward_, backward_data_, backward_weight_;
};

}  // namespace

std::unique_ptr<Conv2dOp> make_onednn_conv2d(const Conv2dShape& shape, std::shared_ptr<OnednnContext> context,
                                             std::unique_ptr<Conv2dOp> fallback) {
    check(shape);
    return std::make_unique<OnednnConv2d>(shape, std::move(context), std::move(fallback));
}

}  // namespace tutti
