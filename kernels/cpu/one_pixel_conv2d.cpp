#include "one_pixel_conv2d.hpp"

#include <cassert>
#include <cstring>
#include <utility>

#include "host_memory.hpp"
#include "parallel.hpp"

namespace tutti {
namespace {

/// Along one axis.
bool covers(std::int64_t kernel, std::int64_t padding, std::int64_t size) {
    return kernel - padding >= size;
}

class OnePixelConv2d final : public Conv2dOp {
  public:
    OnePixelConv2d(const Conv2dShape& shape, DType type, std::unique_ptr<LinearOp> linear,
                   std::function<std::unique_ptr<Conv2dOp>()> general)
        : shape_(shape),
          piece_(static_cast<std::size_t>(shape.width * shape.in) * size_of(type)),
          row_(static_cast<std::size_t>(shape.kernel_w * shape.in) * size_of(type)),
          linear_(std::move(linear)),
          make_general_(std::move(general)) {
        if (is_whole()) return;
        const std::size_t bytes = piece_ * static_cast<std::size_t>(shape.height * shape.out);
        weight_ = allocate_host(bytes, "taps of a convolution");
        dweight_ = allocate_host(bytes, "gradients of a convolution's taps");
    }

    void forward(const TensorView& x, const TensorView& weight, const TensorView& bias,
                 const TensorView& y) override {
        if (x.shape[0] == 0) return;
        linear_->forward(rows(x), taps_of(weight), bias, rows(y));
    }

    void backward(const TensorView& x, const TensorView& weight, const TensorView& dy, const TensorView& dx,
                  const TensorView& dweight, const TensorView& dbias,
                  const ParametersFinal* parameters_final) override {
        if (x.shape[0] == 0) return general().backward(x, weight, dy, dx, dweight, dbias, parameters_final);
        const TensorView to_x = dx.defined() ? rows(dx) : dx;
        if (is_whole())
            return linear_->backward(rows(x), matrix(weight.data, weight), rows(dy), to_x,
                                     matrix(dweight.data, weight), dbias, parameters_final);
        bool given = false;
        const ParametersFinal give = [&] {
            give_gradients(dweight);
            given = true;
            if (parameters_final) (*parameters_final)();
        };
        linear_->backward(rows(x), taps_of(weight), rows(dy), to_x, matrix(dweight_.data(), weight), dbias,
                          &give);
        if (!given) give_gradients(dweight);
    }

    void backward_data(const TensorView& weight, const TensorView& dy, const TensorView& dx) override {
        general().backward_data(weight, dy, dx);
    }

  private:
    bool is_whole() const { return shape_.kernel_h == shape_.height && shape_.kernel_w == shape_.width; }

    static TensorView rows(const TensorView& images) {
        return {images.data, images.dtype, {images.shape[0], images.count() / images.shape[0]}};
    }
    /// weight[O, H·W·I]
    TensorView matrix(std::byte* data, const TensorView& weight) const {
        return {data, weight.dtype, {shape_.out, shape_.height * shape_.width * shape_.in}};
    }

    TensorView taps_of(const TensorView& weight) {
        if (is_whole()) return matrix(weight.data, weight);
        for_pieces([&](std::int64_t window, std::int64_t row) {
            std::memcpy(piece(weight_.data(), window, row), tap(weight.data, window, row), piece_);
        });
        return matrix(weight_.data(), weight);
    }
    void give_gradients(const TensorView& dweight) {
        for_ranges(
            shape_.out,
            [&](std::int64_t begin, std::int64_t end) {
                const std::size_t window = row_ * static_cast<std::size_t>(shape_.kernel_h);
                std::memset(dweight.data + static_cast<std::size_t>(begin) * window, 0,
                            static_cast<std::size_t>(end - begin) * window);
            },
            shape_.kernel_h * shape_.kernel_w * shape_.in);
        for_pieces([&](std::int64_t window, std::int64_t row) {
            std::memcpy(tap(dweight.data, window, row), piece(dweight_.data(), window, row), piece_);
        });
    }

    /// copy(window, row) for each row of the image and each output channel.
    template <class Copy>
    void for_pieces(const Copy& copy) const {
        for_ranges(
            shape_.out,
            [&](std::int64_t begin, std::int64_t end) {
                for (std::int64_t window = begin; window < end; ++window)
                    for (std::int64_t row = 0; row < shape_.height; ++row) copy(window, row);
            },
            shape_.height * shape_.width * shape_.in);
    }
    std::byte* piece(std::byte* matrix, std::int64_t window, std::int64_t row) const {
        return matrix + static_cast<std::size_t>(window * shape_.height + row) * piece_;
    }
    /// Where the taps over a row of the image begin in weights[O, KH, KW, I].
    std::byte* tap(std::byte* weights, std::int64_t window, std::int64_t row) const {
        const std::size_t before =
            static_cast<std::size_t>(shape_.padding_w) * (row_ / static_cast<std::size_t>(shape_.kernel_w));
        return weights + static_cast<std::size_t>(window * shape_.kernel_h + shape_.padding_h + row) * row_ +
               before;
    }

    Conv2dOp& general() {
        if (!general_) general_ = make_general_();
        return *general_;
    }

    const Conv2dShape shape_;
    const std::size_t piece_, row_;  ///< bytes of a row of the image and of the window
    const std::unique_ptr<LinearOp> linear_;
    const std::function<std::unique_ptr<Conv2dOp>()> make_general_;
    std::unique_ptr<Conv2dOp> general_;
    Buffer weight_, dweight_;  ///< [O, H, W, I]
};

}  // namespace

bool is_one_window(const Conv2dShape& shape) {
    return shape.groups == 1 && !shape.adds_to_dx && shape.out_height() == 1 && shape.out_width() == 1 &&
           covers(shape.kernel_h, shape.padding_h, shape.height) &&
           covers(shape.kernel_w, shape.padding_w, shape.width);
}

std::unique_ptr<Conv2dOp> make_one_pixel_conv2d(
    const Conv2dShape& shape, DType type, const std::function<std::unique_ptr<LinearOp>(LinearShape)>& linear,
    std::function<std::unique_ptr<Conv2dOp>()> general) {
    return std::make_unique<OnePixelConv2d>(
        shape, type,
        linear({.in = shape.height * shape.width * shape.in, .out = shape.out, .bias = shape.bias}),
        std::move(general));
}

}  // namespace tutti
