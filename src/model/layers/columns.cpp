// Columns of tokens side by side: taken from a value, and put together.

#include <algorithm>
#include <utility>
#include <vector>

#include "tutti/base/error.hpp"
#include "tutti/model/layers_transformer.hpp"

namespace tutti {
namespace {

class Columns final : public Layer {
  public:
    Columns(const Shape& input, std::int64_t first, std::int64_t count)
        : Layer({input[0], count}), first_(first) {}
    std::string kind() const override { return "columns"; }
    bool treats_samples_apart() const override { return true; }
    bool converts() const override { return true; }
    void forward(const LayerCall& call) override {
        ops().copy_columns(call.inputs[0], {first_, 0, output_shape()[1]}, call.output);
    }
    void backward(const LayerCall& call) override {
        const TensorView& gradient = call.input_gradients[0];
        if (!gradient.defined()) return;
        ops().fill(gradient, 0);
        ops().copy_columns(call.output_gradient, {0, first_, output_shape()[1]}, gradient);
    }

  private:
    std::int64_t first_;
};

class Concatenation final : public Layer {
  public:
    Concatenation(const Shape& output, std::vector<std::int64_t> widths)
        : Layer(output), widths_(std::move(widths)) {}
    std::string kind() const override { return "concatenation"; }
    bool treats_samples_apart() const override { return true; }
    void forward(const LayerCall& call) override {
        std::int64_t at = 0;
        for (std::size_t i = 0; i < widths_.size(); at += widths_[i++])
            ops().copy_columns(call.inputs[i], {0, at, widths_[i]}, call.output);
    }
    void backward(const LayerCall& call) override {
        std::int64_t at = 0;
        for (std::size_t i = 0; i < widths_.size(); at += widths_[i++])
            if (call.input_gradients[i].defined())
                ops().copy_columns(call.output_gradient, {at, 0, widths_[i]}, call.input_gradients[i]);
    }

  private:
    std::vector<std::int64_t> widths_;
};

}  // namespace

std::unique_ptr<Layer> make_columns(const Shape& input, std::int64_t first, std::int64_t count) {
    if (input.rank() != 2 || first < 0 || count < 1 || first + count > input[1])
        throw UsageError("columns: the input has shape " + to_string(input),
                         "tokens with the columns " + std::to_string(first) + " to " +
                             std::to_string(first + count - 1) + " are needed");
    return std::make_unique<Columns>(input, first, count);
}

std::unique_ptr<Layer> make_concatenation(std::span<const Shape> inputs) {
    std::vector<std::int64_t> widths;
    std::int64_t width = 0;
    for (const Shape& input : inputs) {
        if (input.rank() != 2 || input[0] != inputs[0][0])
            throw UsageError("concatenation: an input has shape " + to_string(input),
                             "as many tokens as in the first are needed");
        widths.push_back(input[1]);
        width += input[1];
    }
    return std::make_unique<Concatenation>(Shape{inputs[0][0], width}, std::move(widths));
}

}  // namespace tutti
