// Average pooling and adaptive average pooling: two rules for the windows of one operator.

#include <algorithm>

#include "tutti/base/error.hpp"
#include "tutti/model/layers.hpp"
#include "window_options.hpp"

namespace tutti {
namespace {

class AveragePool2d final : public Layer {
  public:
    AveragePool2d(std::string kind, const AveragePool2dShape& shape)
        : Layer({static_cast<std::int64_t>(shape.rows.size()),
                 static_cast<std::int64_t>(shape.columns.size()), shape.channels}),
          kind_(std::move(kind)),
          shape_(shape) {}

    std::string kind() const override { return kind_; }
    bool reads_images() const override { return true; }
    double forward_flops() const override {
        const auto span = [](const std::vector<PoolWindow>& windows) {
            std::int64_t sum = 0;
            for (const PoolWindow& window : windows) sum += window.end - window.begin;
            return static_cast<double>(sum);
        };
        return span(shape_.rows) * span(shape_.columns) * static_cast<double>(shape_.channels);
    }
    void prepare(Ops& ops) override {
        Layer::prepare(ops);
        op_ = ops.average_pool2d(shape_);
    }
    void forward(const LayerCall& call) override { op_->forward(call.inputs[0], call.output); }
    void backward(const LayerCall& call) override {
        if (call.input_gradients[0].defined()) op_->backward(call.output_gradient, call.input_gradients[0]);
    }

  private:
    std::string kind_;
    AveragePool2dShape shape_;
    std::unique_ptr<AveragePool2dOp> op_;
};

// ATen/native/cpu/AvgPoolKernel.cpp: the divisor counts the padding that lies inside [−padding, size +
// padding).
std::vector<PoolWindow> strided_windows(std::int64_t size, std::int64_t kernel, std::int64_t stride,
                                        std::int64_t padding, bool count_padding) {
    std::vector<PoolWindow> windows;
    for (std::int64_t i = 0; i <= (size + 2 * padding - kernel) / stride; ++i) {
        const std::int64_t begin = i * stride - padding;
        const std::int64_t end = std::min(begin + kernel, size + padding);
        PoolWindow window{std::max<std::int64_t>(begin, 0), std::min(end, size), 0};
        window.divisor = count_padding ? end - begin : window.end - window.begin;
        windows.push_back(window);
    }
    return windows;
}

// ATen/native/AdaptivePooling.h, start_index and end_index.
std::vector<PoolWindow> adaptive_windows(std::int64_t size, std::int64_t out) {
    std::vector<PoolWindow> windows;
    for (std::int64_t i = 0; i < out; ++i) {
        PoolWindow window{i * size / out, ((i + 1) * size + out - 1) / out, 0};
        window.divisor = window.end - window.begin;
        windows.push_back(window);
    }
    return windows;
}

}  // namespace

std::unique_ptr<Layer> make_avg_pool2d(const Shape& input, const Pool2dOptions& o, bool count_include_pad) {
    require_image("avg_pool2d", input);
    require_pool("avg_pool2d", input, o);
    return std::make_unique<AveragePool2d>(
        "avg_pool2d", AveragePool2dShape{
                          input[0], input[1], input[2],
                          strided_windows(input[0], o.kernel_h, o.stride_h, o.padding_h, count_include_pad),
                          strided_windows(input[1], o.kernel_w, o.stride_w, o.padding_w, count_include_pad)});
}

std::unique_ptr<Layer> make_adaptive_avg_pool2d(const Shape& input, std::int64_t out_h, std::int64_t out_w) {
    require_image("adaptive_avg_pool2d", input);
    // Each row and column of the output has a window in memory.
    constexpr std::int64_t longest = 1 << 16;
    if (std::min(out_h, out_w) < 1 || std::max(out_h, out_w) > longest)
        throw UsageError("adaptive_avg_pool2d: out is " + to_string(Shape{out_h, out_w}),
                         "its sides must be at least 1 and at most " + std::to_string(longest));
    return std::make_unique<AveragePool2d>(
        "adaptive_avg_pool2d",
        AveragePool2dShape{input[0], input[1], input[2], adaptive_windows(input[0], out_h),
                           adaptive_windows(input[1], out_w)});
}

}  // namespace tutti
