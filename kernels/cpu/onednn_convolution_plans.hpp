#pragma once
// The convolutions of one layer as oneDNN computes them, made when first asked for.

#include <map>
#include <tuple>

#include "onednn_convolution_ways.hpp"
#include "onednn_product.hpp"

namespace tutti {

class OnednnConvolutionPlans {
  public:
    /// Types of x and dx, and of y and dy, in memory.
    struct Types {
        dnnl::memory::data_type x = dnnl::memory::data_type::f32, y = dnnl::memory::data_type::f32;
        auto operator<=>(const Types&) const = default;
    };

    explicit OnednnConvolutionPlans(const Conv2dShape& shape) : shape_(shape) {}

    /// The pass of a batch of this size, in the first of its ways that oneDNN has for this CPU; empty (false)
    /// where it has only plain loops. First and second operand: x and the weights, dy and the weights (which
    /// are common), or x and dy. `callers`: as OnednnProduct's. Stays where it is.
    OnednnProduct& find(const OnednnContext& context, ConvolutionPass pass, std::int64_t batch,
                        const Types& types, int callers = 1);

    /// Whether oneDNN has Winograd's method in fp32 for this CPU.
    static bool has_winograd(const OnednnContext& context);

  private:
    using Type = dnnl::memory::data_type;
    using Bias = std::optional<OnednnProduct::Bias>;

    OnednnProduct plan(const OnednnContext& context, ConvolutionPass pass, std::int64_t batch,
                       const Types& types, const ConvolutionWay& way, int callers) const;
    dnnl::convolution_forward::primitive_desc describe_forward(const OnednnContext& context,
                                                               std::int64_t batch, Type y,
                                                               const ConvolutionWay& way) const;
    OnednnProduct plan_forward(const OnednnContext& context, std::int64_t batch, const Types& types,
                               const ConvolutionWay& way, int callers) const;
    OnednnProduct plan_backward_data(const OnednnContext& context, std::int64_t batch, const Types& types,
                                     const ConvolutionWay& way, int callers) const;
    OnednnProduct plan_backward_weight(const OnednnContext& context, std::int64_t batch, const Types& types,
                                       const ConvolutionWay& way, int callers) const;

    dnnl::memory::dims x_dims(std::int64_t batch) const;
    dnnl::memory::dims y_dims(std::int64_t batch) const;
    dnnl::memory::dims weight_dims() const;
    dnnl::memory::dims strides() const { return {shape_.stride_h, shape_.stride_w}; }
    dnnl::memory::dims padding() const { return {shape_.padding_h, shape_.padding_w}; }
    dnnl::memory::desc plain_x(std::int64_t batch, Type type) const;
    dnnl::memory::desc plain_y(std::int64_t batch, Type type) const;
    dnnl::memory::desc plain_weight() const;
    dnnl::memory::desc weight_layout(Type type) const;
    dnnl::memory::desc bias_layout() const;
    Bias bias(int argument) const;

    const Conv2dShape shape_;
    // By batch size: full, the epoch's last, evaluation, and parts of them.
    std::map<std::tuple<ConvolutionPass, std::int64_t, Types, int>, OnednnProduct> plans_;
};

}  // namespace tutti
