// A transposed convolution is the convolution from y's shape to x's, run the other way: its forward is that
// convolution's gradient with respect to the input, its gradient with respect to x that convolution itself.
// Both keep the weights as [I, KH, KW, O].

#include "eigen_ops.hpp"

namespace tutti {
namespace {

template <class T>
class CpuConvTranspose2d final : public ConvTranspose2dOp {
  public:
    CpuConvTranspose2d(const ConvTranspose2dShape& shape, std::unique_ptr<Conv2dOp> convolution)
        : shape_(shape), convolution_(std::move(convolution)) {}

    void forward(const TensorView& x, const TensorView& weight, const TensorView& bias,
                 const TensorView& y) override {
        assert(bias.defined() == shape_.bias);
        convolution_->backward_data(weight, x, y);
        if (shape_.bias) add_to_rows(bias.as<T>(), y.as<T>(), rows_of(y), shape_.out);
    }

    void backward(const TensorView& x, const TensorView& weight, const TensorView& dy, const TensorView& dx,
                  const TensorView& dweight, const TensorView& dbias) override {
        assert(dbias.defined() == shape_.bias);
        if (shape_.bias) sum_rows(dy.as<T>(), rows_of(dy), shape_.out, dbias.as<T>());
        convolution_->backward(dy, weight, x, {}, dweight, {});
        if (dx.defined()) convolution_->forward(dy, weight, {}, dx);
    }

  private:
    std::int64_t rows_of(const TensorView& y) const { return y.count() / shape_.out; }

    const ConvTranspose2dShape shape_;
    const std::unique_ptr<Conv2dOp> convolution_;
};

}  // namespace

template <class T>
std::unique_ptr<ConvTranspose2dOp> make_conv_transpose2d(const ConvTranspose2dShape& shape,
                                                         std::unique_ptr<Conv2dOp> convolution) {
    return std::make_unique<CpuConvTranspose2d<T>>(shape, std::move(convolution));
}
template std::unique_ptr<ConvTranspose2dOp> make_conv_transpose2d<float>(const ConvTranspose2dShape&,
                                                                         std::unique_ptr<Conv2dOp>);
template std::unique_ptr<ConvTranspose2dOp> make_conv_transpose2d<double>(const ConvTranspose2dShape&,
                                                                          std::unique_ptr<Conv2dOp>);

}  // namespace tutti
