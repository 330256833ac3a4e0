#include "onednn_convolution_plans.hpp"

#include <optional>
#include <string_view>

#include "parallel.hpp"

namespace tutti {
namespace {

using dnnl::memory;
using Tag = memory::format_tag;

/// oneDNN's plain loops ("ref:any") are a hundred times slower than a matrix product.
bool is_fast(const dnnl::primitive_desc& description) {
    return description && !std::string_view(description.impl_info_str()).starts_with("ref");
}

/// What is described for calls on one thread, if there are several callers.
template <class Describe>
auto described(int callers, const Describe& describe) {
    std::optional<OneThread> alone;
    if (callers > 1) alone.emplace();
    return describe();
}

/// As which a result that is kept as `stored` leaves the products: what was computed in fp32 is rounded
/// after.
memory::data_type left_as(memory::data_type stored, const ConvolutionWay& way) {
    return way.products == stored ? stored : memory::data_type::f32;
}

}  // namespace

OnednnProduct& OnednnConvolutionPlans::find(const OnednnContext& context, ConvolutionPass pass,
                                            std::int64_t batch, const Types& types, int callers) {
    const auto [found, absent] = plans_.try_emplace({pass, batch, types, callers});
    if (!absent) return found->second;
    for (const ConvolutionWay& way : convolution_ways(shape_, pass, context.products))
        if (!found->second) found->second = plan(context, pass, batch, types, way, callers);
    return found->second;
}

bool OnednnConvolutionPlans::has_winograd(const OnednnContext& context) {
    // A shape that suits the method: which others the library takes is not the question.
    constexpr std::int64_t channels = 64, size = 28;
    const OnednnConvolutionPlans plans({.height = size,
                                        .width = size,
                                        .in = channels,
                                        .out = channels,
                                        .kernel_h = 3,
                                        .kernel_w = 3,
                                        .padding_h = 1,
                                        .padding_w = 1});
    return is_fast(plans.describe_forward(context, 1, Type::f32,
                                          {dnnl::algorithm::convolution_winograd, Tag::any, Type::f32}));
}

OnednnProduct OnednnConvolutionPlans::plan(const OnednnContext& context, ConvolutionPass pass,
                                           std::int64_t batch, const Types& types, const ConvolutionWay& way,
                                           int callers) const {
    switch (pass) {
        case ConvolutionPass::forward:
            return plan_forward(context, batch, types, way, callers);
        case ConvolutionPass::backward_data:
            return plan_backward_data(context, batch, types, way, callers);
        case ConvolutionPass::backward_weight:
            return plan_backward_weight(context, batch, types, way, callers);
    }
    return {};
}

dnnl::convolution_forward::primitive_desc OnednnConvolutionPlans::describe_forward(
    const OnednnContext& context, std::int64_t batch, Type y, const ConvolutionWay& way) const {
    return {{dnnl::prop_kind::forward_training,
             way.algorithm,
             {x_dims(batch), way.products, way.activations},
             weight_layout(way.products),
             bias_layout(),
             {y_dims(batch), left_as(y, way), way.activations},
             strides(),
             padding(),
             padding()},
            context.attributes(),
            context.engine,
            /*allow_empty=*/true};
}

OnednnProduct OnednnConvolutionPlans::plan_forward(const OnednnContext& context, std::int64_t batch,
                                                   const Types& types, const ConvolutionWay& way,
                                                   int callers) const {
    const auto description =
        described(callers, [&] { return describe_forward(context, batch, types.y, way); });
    if (!is_fast(description)) return {};
    return {context,
            description,
            {DNNL_ARG_SRC, plain_x(batch, types.x), description.src_desc()},
            {DNNL_ARG_WEIGHTS, plain_weight(), description.weights_desc(), /*common=*/true},
            {DNNL_ARG_DST, plain_y(batch, types.y), description.dst_desc()},
            bias(DNNL_ARG_BIAS),
            callers};
}

OnednnProduct OnednnConvolutionPlans::plan_backward_data(const OnednnContext& context, std::int64_t batch,
                                                         const Types& types, const ConvolutionWay& way,
                                                         int callers) const {
    const auto description = described(callers, [&] {
        const auto hint = describe_forward(context, batch, Type::f32, way);
        if (!hint) return dnnl::convolution_backward_data::primitive_desc();
        return dnnl::convolution_backward_data::primitive_desc(
            {way.algorithm,
             {x_dims(batch), left_as(types.x, way), way.activations},
             weight_layout(way.products),
             {y_dims(batch), way.products, way.activations},
             strides(),
             padding(),
             padding()},
            context.attributes(), context.engine, hint, /*allow_empty=*/true);
    });
    if (!is_fast(description)) return {};
    return {context,
            description,
            {DNNL_ARG_DIFF_DST, plain_y(batch, types.y), description.diff_dst_desc()},
            {DNNL_ARG_WEIGHTS, plain_weight(), description.weights_desc(), /*common=*/true},
            {DNNL_ARG_DIFF_SRC, plain_x(batch, types.x), description.diff_src_desc()},
            {},
            callers};
}

OnednnProduct OnednnConvolutionPlans::plan_backward_weight(const OnednnContext& context, std::int64_t batch,
                                                           const Types& types, const ConvolutionWay& way,
                                                           int callers) const {
    const auto description = described(callers, [&] {
        const auto hint = describe_forward(context, batch, Type::f32, way);
        if (!hint) return dnnl::convolution_backward_weights::primitive_desc();
        return dnnl::convolution_backward_weights::primitive_desc(
            {way.algorithm,
             {x_dims(batch), way.products, way.activations},
             weight_layout(Type::f32),
             bias_layout(),
             {y_dims(batch), way.products, way.activations},
             strides(),
             padding(),
             padding()},
            context.attributes(), context.engine, hint, /*allow_empty=*/true);
    });
    if (!is_fast(description)) return {};
    return {context,
            description,
            {DNNL_ARG_SRC, plain_x(batch, types.x), description.src_desc()},
            {DNNL_ARG_DIFF_DST, plain_y(batch, types.y), description.diff_dst_desc()},
            {DNNL_ARG_DIFF_WEIGHTS, plain_weight(), description.diff_weights_desc()},
            bias(DNNL_ARG_DIFF_BIAS),
            callers};
}

memory::dims OnednnConvolutionPlans::x_dims(std::int64_t batch) const {
    return {batch, shape_.in, shape_.height, shape_.width};
}
memory::dims OnednnConvolutionPlans::y_dims(std::int64_t batch) const {
    return {batch, shape_.out, shape_.out_height(), shape_.out_width()};
}
memory::dims OnednnConvolutionPlans::weight_dims() const {
    if (shape_.groups == 1) return {shape_.out, shape_.in, shape_.kernel_h, shape_.kernel_w};
    return {shape_.groups, shape_.out / shape_.groups, shape_.in / shape_.groups, shape_.kernel_h,
            shape_.kernel_w};
}

memory::desc OnednnConvolutionPlans::plain_x(std::int64_t batch, Type type) const {
    return {x_dims(batch), type, Tag::nhwc};
}
memory::desc OnednnConvolutionPlans::plain_y(std::int64_t batch, Type type) const {
    return {y_dims(batch), type, Tag::nhwc};
}
memory::desc OnednnConvolutionPlans::plain_weight() const {
    return {weight_dims(), Type::f32, shape_.groups == 1 ? Tag::ohwi : Tag::gohwi};
}
/// Leaves the order to oneDNN.
memory::desc OnednnConvolutionPlans::weight_layout(Type type) const {
    return {weight_dims(), type, Tag::any};
}
memory::desc OnednnConvolutionPlans::bias_layout() const {
    return shape_.bias ? memory::desc({shape_.out}, Type::f32, Tag::a) : memory::desc();
}
OnednnConvolutionPlans::Bias OnednnConvolutionPlans::bias(int argument) const {
    if (!shape_.bias) return std::nullopt;
    return OnednnProduct::Bias{argument, bias_layout()};
}

}  // namespace tutti
