// Convolution on NHWC activations, each pass in the way that onednn_convolution_ways.hpp chooses. oneDNN
// chooses the order of the weights; the plain weights [O, KH, KW, I/groups] are brought into it before, and
// weight gradients back after, each call. With products in bf16 each call rounds its inputs. What
// both products of backward take alike of dy is brought once. Weight gradients in bf16 are our own where
// bf16_weight_gradient.hpp takes them, and dx is then a convolution forward where that is the faster.

#include <map>
#include <optional>
#include <string_view>

#include "bf16_weight_gradient.hpp"
#include "onednn_convolution_ways.hpp"
#include "onednn_operators.hpp"
#include "onednn_product.hpp"
#include "onednn_turned_conv2d.hpp"
#include "parallel.hpp"
#include "shape_checks.hpp"

namespace tutti {
namespace {

using dnnl::memory;
using Tag = memory::format_tag;
using Type = memory::data_type;

class OnednnConv2d final : public Conv2dOp {
  public:
    OnednnConv2d(const Conv2dShape& shape, std::shared_ptr<OnednnContext> context,
                 std::unique_ptr<Conv2dOp> fallback)
        : shape_(shape),
          name_(describe(shape)),
          context_(std::move(context)),
          fallback_(std::move(fallback)),
          own_weight_gradient_(context_->products == Type::bf16 && takes_bf16_weight_gradient(shape)),
          turned_(shape, context_) {}

    void forward(const TensorView& x, const TensorView& weight, const TensorView& bias,
                 const TensorView& y) override {
        const std::int64_t batch = x.shape[0];
        assert(bias.defined() == shape_.bias);
        if (batch == 0) return;
        with_onednn_errors(name_, [&] {
            const std::int64_t parts = parts_over_batch(batch);
            OnednnProduct& plan = forward_plan(batch / parts);
            if (!plan) return fallback_->forward(x, weight, bias, y);
            plan.execute(*context_, x.data, weight.data, y.data, bias.data,
                         {parts, x.bytes() / static_cast<std::size_t>(parts),
                          y.bytes() / static_cast<std::size_t>(parts)});
        });
    }

    void backward(const TensorView& x, const TensorView& weight, const TensorView& dy, const TensorView& dx,
                  const TensorView& dweight, const TensorView& dbias,
                  const ParametersFinal* parameters_final) override {
        const std::int64_t batch = x.shape[0];
        assert(dbias.defined() == shape_.bias);
        if (batch == 0) return fallback_->backward(x, weight, dy, dx, dweight, dbias, parameters_final);
        with_onednn_errors(name_, [&] {
            const std::int64_t part = batch / parts_over_batch(batch);
            if (own_weight_gradient_ && (!dx.defined() || turned_.takes(part) || data_plan(part)))
                return backward_in_pairs(x, weight, dy, dx, dweight, dbias, parameters_final);
            OnednnProduct* const alone = dx.defined() ? nullptr : &weight_plan(batch);
            if (alone && *alone) return alone->execute(*context_, x.data, dy.data, dweight.data, dbias.data);
            const std::int64_t largest = largest_slice(batch);
            if (alone || !weight_plan(largest) || !data_plan(largest / parts_over_batch(largest)))
                return fallback_->backward(x, weight, dy, dx, dweight, dbias, parameters_final);
            const std::int64_t slices = slices_over_batch(batch);
            for (std::int64_t i = 0; i < slices; ++i) {
                const std::int64_t begin = share_begin(batch, slices, i);
                const std::int64_t end = share_begin(batch, slices, i + 1);
                const bool last = i + 1 == slices;
                backward_slice(images(x, begin, end), weight, images(dy, begin, end), images(dx, begin, end),
                               dweight, dbias, i > 0, last ? parameters_final : nullptr);
            }
        });
    }

    void backward_data(const TensorView& weight, const TensorView& dy, const TensorView& dx) override {
        const std::int64_t batch = dy.shape[0];
        if (batch == 0) return;
        with_onednn_errors(name_, [&] {
            const std::int64_t parts = parts_over_batch(batch);
            OnednnProduct& plan = data_plan(batch / parts);
            if (!plan) return fallback_->backward_data(weight, dy, dx);
            execute_backward_data(plan, weight, dy.data, dy, dx, parts);
        });
    }

  private:
    /// Images [begin, end) of a tensor.
    static TensorView images(const TensorView& all, std::int64_t begin, std::int64_t end) {
        TensorView some = all;
        some.data += all.bytes() / static_cast<std::size_t>(all.shape[0]) * static_cast<std::size_t>(begin);
        some.shape[0] = end - begin;
        return some;
    }

    void backward_in_pairs(const TensorView& x, const TensorView& weight, const TensorView& dy,
                           const TensorView& dx, const TensorView& dweight, const TensorView& dbias,
                           const ParametersFinal* parameters_final) {
        const std::int64_t batch = x.shape[0], parts = parts_over_batch(batch);
        GradientOfOutput also;
        if (shape_.bias) also.bias = dbias.as<float>();
        const bool turned = dx.defined() && turned_.takes(batch / parts);
        const bool data_takes_rounded =
            turned || (dx.defined() && data_plan(batch / parts).first_taken() ==
                                           memory::desc(y_dims(batch / parts), Type::bf16, Tag::nhwc));
        if (data_takes_rounded)
            also.rounded =
                context_->shared.reserve_elements<std::uint16_t>(static_cast<std::size_t>(dy.count()));
        bf16_weight_gradient(shape_, batch, x.as<float>(), dy.as<float>(), dweight.as<float>(), also, false,
                             context_->workspace);
        if (!dx.defined()) return;
        if (parameters_final) (*parameters_final)();
        if (turned) return turned_.execute(also.rounded, weight, dx, parts);
        const OnednnProduct::Source gradient =
            data_takes_rounded ? OnednnProduct::Source(also.rounded, true) : OnednnProduct::Source(dy.data);
        execute_backward_data(data_plan(batch / parts), weight, gradient, dy, dx, parts);
    }

    /// backward of some images, whose part of dweight and dbias is added to what is there if `adds`.
    void backward_slice(const TensorView& x, const TensorView& weight, const TensorView& dy,
                        const TensorView& dx, const TensorView& dweight, const TensorView& dbias, bool adds,
                        const ParametersFinal* parameters_final) {
        const std::int64_t batch = x.shape[0], parts = parts_over_batch(batch);
        OnednnProduct& for_weight = weight_plan(batch);
        OnednnProduct& for_data = data_plan(batch / parts);
        const auto gradient = for_weight.bring_shared(*context_, for_data, dy.data);
        if (adds) {
            auto* const part =
                slice_.reserve_elements<float>(static_cast<std::size_t>(dweight.count() + shape_.out));
            float* const bias_part = part + dweight.count();
            for_weight.execute(*context_, x.data, gradient, part, shape_.bias ? bias_part : nullptr);
            add(part, dweight);
            if (shape_.bias) add(bias_part, dbias);
        } else {
            for_weight.execute(*context_, x.data, gradient, dweight.data, dbias.data);
        }
        if (parameters_final) (*parameters_final)();
        execute_backward_data(for_data, weight, gradient, dy, dx, parts);
    }
    static void add(const float* part, const TensorView& sum) {
        for_ranges(sum.count(), [part, to = sum.as<float>()](std::int64_t begin, std::int64_t end) {
            for (std::int64_t i = begin; i < end; ++i) to[i] += part[i];
        });
    }

    /// Into how many, of nearly equal size, the images are dealt for backward.
    std::int64_t slices_over_batch(std::int64_t batch) const {
        const std::int64_t most =
            images_at_once(shape_, ConvolutionPass::backward_weight, context_->products);
        return batch / most + (batch % most != 0);
    }
    std::int64_t largest_slice(std::int64_t batch) const {
        return share_begin(batch, slices_over_batch(batch), 1);
    }

    // By batch size: full, the epoch's last, evaluation. Empty where oneDNN has only plain loops: the
    // fallback computes, in fp32.
    using Plans = std::map<std::int64_t, OnednnProduct>;
    /// Equal parts of the batch. Winograd transforms the weights anew for each part, so that a part of few
    /// pixels would take longer.
    std::int64_t parts_over_batch(std::int64_t batch) const {
        const std::int64_t pixels = shape_.out_height() * shape_.out_width();
        constexpr std::int64_t least_pixels = 2048;
        return parts_of(batch,
                        pixels * shape_.kernel_h * shape_.kernel_w * shape_.in / shape_.groups * shape_.out,
                        (least_pixels + pixels - 1) / pixels);
    }
    void execute_backward_data(OnednnProduct& plan, const TensorView& weight,
                               const OnednnProduct::Source& gradient, const TensorView& dy,
                               const TensorView& dx, std::int64_t parts) {
        const auto count = static_cast<std::size_t>(parts);
        plan.execute(*context_, gradient, weight.data, dx.data, nullptr,
                     {parts, dy.bytes() / count, dx.bytes() / count});
    }

    OnednnProduct& forward_plan(std::int64_t batch) {
        return find_or_make(forward_, batch, ConvolutionPass::forward, &OnednnConv2d::plan_forward);
    }
    OnednnProduct& data_plan(std::int64_t batch) {
        return find_or_make(backward_data_, batch, ConvolutionPass::backward_data,
                            &OnednnConv2d::plan_backward_data);
    }
    OnednnProduct& weight_plan(std::int64_t batch) {
        return find_or_make(backward_weight_, batch, ConvolutionPass::backward_weight,
                            &OnednnConv2d::plan_backward_weight);
    }
    OnednnProduct& find_or_make(Plans& plans, std::int64_t batch, ConvolutionPass pass,
                                OnednnProduct (OnednnConv2d::*make)(std::int64_t, const ConvolutionWay&)
                                    const) {
        auto found = plans.find(batch);
        if (found == plans.end()) found = plans.emplace(batch, plan(pass, batch, make)).first;
        return found->second;
    }

    memory::dims x_dims(std::int64_t batch) const { return {batch, shape_.in, shape_.height, shape_.width}; }
    memory::dims y_dims(std::int64_t batch) const {
        return {batch, shape_.out, shape_.out_height(), shape_.out_width()};
    }
    memory::desc plain_x(std::int64_t batch) const { return {x_dims(batch), Type::f32, Tag::nhwc}; }
    memory::desc plain_y(std::int64_t batch) const { return {y_dims(batch), Type::f32, Tag::nhwc}; }
    memory::desc plain_weight() const {
        return {weight_dims(), Type::f32, shape_.groups == 1 ? Tag::ohwi : Tag::gohwi};
    }
    /// Leaves the order to oneDNN.
    memory::desc weight_layout(Type type) const { return {weight_dims(), type, Tag::any}; }
    memory::desc bias_layout() const {
        return shape_.bias ? memory::desc({shape_.out}, Type::f32, Tag::a) : memory::desc();
    }
    std::optional<OnednnProduct::Bias> bias(int argument) const {
        if (!shape_.bias) return std::nullopt;
        return OnednnProduct::Bias{argument, bias_layout()};
    }
    memory::dims weight_dims() const {
        if (shape_.groups == 1) return {shape_.out, shape_.in, shape_.kernel_h, shape_.kernel_w};
        return {shape_.groups, shape_.out / shape_.groups, shape_.in / shape_.groups, shape_.kernel_h,
                shape_.kernel_w};
    }
    memory::dims strides() const { return {shape_.stride_h, shape_.stride_w}; }
    memory::dims padding() const { return {shape_.padding_h, shape_.padding_w}; }

    /// The first of the ways that oneDNN has for this CPU.
    OnednnProduct plan(ConvolutionPass pass, std::int64_t batch,
                       OnednnProduct (OnednnConv2d::*make)(std::int64_t, const ConvolutionWay&) const) const {
        OnednnProduct product;
        for (const ConvolutionWay& way : convolution_ways(shape_, pass, context_->products))
            if (!product) product = (this->*make)(batch, way);
        return product;
    }

    dnnl::convolution_forward::primitive_desc describe_forward(std::int64_t batch,
                                                               const ConvolutionWay& way) const {
        return {{dnnl::prop_kind::forward_training,
                 way.algorithm,
                 {x_dims(batch), way.products, way.activations},
                 weight_layout(way.products),
                 bias_layout(),
                 {y_dims(batch), Type::f32, way.activations},
                 strides(),
                 padding(),
                 padding()},
                context_->attributes(),
                context_->engine,
                /*allow_empty=*/true};
    }

    OnednnProduct plan_forward(std::int64_t batch, const ConvolutionWay& way) const {
        const auto description = describe_forward(batch, way);
        if (!is_fast(description)) return {};
        return {*context_,
                description,
                {DNNL_ARG_SRC, plain_x(batch), description.src_desc()},
                {DNNL_ARG_WEIGHTS, plain_weight(), description.weights_desc()},
                {DNNL_ARG_DST, plain_y(batch), description.dst_desc()},
                bias(DNNL_ARG_BIAS)};
    }

    OnednnProduct plan_backward_data(std::int64_t batch, const ConvolutionWay& way) const {
        const auto hint = describe_forward(batch, way);
        if (!hint) return {};
        const dnnl::convolution_backward_data::primitive_desc description(
            {way.algorithm,
             {x_dims(batch), Type::f32, way.activations},
             weight_layout(way.products),
             {y_dims(batch), way.products, way.activations},
             strides(),
             padding(),
             padding()},
            context_->attributes(), context_->engine, hint, /*allow_empty=*/true);
        if (!is_fast(description)) return {};
        return {*context_,
                description,
                {DNNL_ARG_DIFF_DST, plain_y(batch), description.diff_dst_desc()},
                {DNNL_ARG_WEIGHTS, plain_weight(), description.weights_desc()},
                {DNNL_ARG_DIFF_SRC, plain_x(batch), description.diff_src_desc()}};
    }

    OnednnProduct plan_backward_weight(std::int64_t batch, const ConvolutionWay& way) const {
        const auto hint = describe_forward(batch, way);
        if (!hint) return {};
        const dnnl::convolution_backward_weights::primitive_desc description(
            {way.algorithm,
             {x_dims(batch), way.products, way.activations},
             weight_layout(Type::f32),
             bias_layout(),
             {y_dims(batch), way.products, way.activations},
             strides(),
             padding(),
             padding()},
            context_->attributes(), context_->engine, hint, /*allow_empty=*/true);
        if (!is_fast(description)) return {};
        return {*context_,
                description,
                {DNNL_ARG_SRC, plain_x(batch), description.src_desc()},
                {DNNL_ARG_DIFF_DST, plain_y(batch), description.diff_dst_desc()},
                {DNNL_ARG_DIFF_WEIGHTS, plain_weight(), description.diff_weights_desc()},
                bias(DNNL_ARG_DIFF_BIAS)};
    }

    /// oneDNN's plain loops ("ref:any") are a hundred times slower than a matrix product.
    static bool is_fast(const dnnl::primitive_desc& description) {
        return description && !std::string_view(description.impl_info_str()).starts_with("ref");
    }

    const Conv2dShape shape_;
    const std::string name_;
    const std::shared_ptr<OnednnContext> context_;
    const std::unique_ptr<Conv2dOp> fallback_;
    const bool own_weight_gradient_;
    OnednnTurnedConv2d turned_;
    Workspace slice_;  // dweight and dbias of one slice
    Plans forward_, backward_data_, backward_weight_;
};

}  // namespace

std::unique_ptr<Conv2dOp> make_onednn_conv2d(const Conv2dShape& shape, std::shared_ptr<OnednnContext> context,
                                             std::unique_ptr<Conv2dOp> fallback) {
    check(shape);
    return std::make_unique<OnednnConv2d>(shape, std::move(context), std::move(fallback));
}

}  // namespace tutti
