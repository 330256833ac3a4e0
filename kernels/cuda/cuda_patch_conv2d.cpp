// A convolution whose windows neither overlap nor leave anything out, as the patch embedding of a vision
// transformer: the patches are brought together, and the rest is a linear layer of them. cuDNN 9.19 has no
// engine that is fast at it: on an H200, 16x16 patches of 256 images of 224x224x3, bf16, took it 8.4 ms
// forward and back to the weights (2026-11-27), and patches and products take 0.4 ms.

#include "cuda_ops.hpp"
#include "patches.hpp"

namespace tutti::cuda {
namespace {

class CudaPatchConv2d final : public Conv2dOp {
  public:
    CudaPatchConv2d(const Conv2dShape& shape, std::unique_ptr<LinearOp> linear,
                    std::unique_ptr<Conv2dOp> transposed, std::shared_ptr<CudaContext> context)
        : shape_(shape),
          patches_{.height = shape.height,
                   .width = shape.width,
                   .channels = shape.in,
                   .patch_height = shape.kernel_h,
                   .patch_width = shape.kernel_w},
          linear_(std::move(linear)),
          transposed_(std::move(transposed)),
          context_(std::move(context)) {}

    void forward(const TensorView& x, const TensorView& weight, const TensorView& bias,
                 const TensorView& y) override {
        linear_->forward(patches_of(x), matrix(weight, shape_.out), bias, matrix(y, tokens(x)));
    }

    void backward(const TensorView& x, const TensorView& weight, const TensorView& dy, const TensorView& dx,
                  const TensorView& dweight, const TensorView& dbias,
                  const ParametersFinal* parameters_final) override {
        const TensorView patches = patches_of(x);
        // The patches are read before their gradient is written, into their place.
        linear_->backward(patches, matrix(weight, shape_.out), matrix(dy, tokens(x)),
                          dx.defined() ? patches : TensorView{}, matrix(dweight, shape_.out), dbias,
                          parameters_final);
        if (dx.defined()) join_patches(patches_, patches, dx, context_->stream());
    }

    void backward_data(const TensorView& weight, const TensorView& dy, const TensorView& dx) override {
        transposed_->backward_data(weight, dy, dx);
    }

  private:
    std::int64_t tokens(const TensorView& x) const { return x.shape[0] * patches_.tokens(); }
    static TensorView matrix(const TensorView& view, std::int64_t rows) {
        return view.reshaped({rows, rows == 0 ? 0 : view.count() / rows});
    }
    TensorView patches_of(const TensorView& x) const {
        const TensorView patches = context_->patches(x.dtype, {tokens(x), patches_.token_width()});
        extract_patches(patches_, x, patches, context_->stream());
        return patches;
    }

    const Conv2dShape shape_;
    const PatchShape patches_;
    const std::unique_ptr<LinearOp> linear_;
    const std::unique_ptr<Conv2dOp> transposed_;  // of the transposed convolution, which is not slow
    const std::shared_ptr<CudaContext> context_;
};

}  // namespace

bool is_of_patches(const Conv2dShape& s) {
    return s.groups == 1 && s.padding_h == 0 && s.padding_w == 0 && s.kernel_h == s.stride_h &&
           s.kernel_w == s.stride_w && s.kernel_h * s.kernel_w > 1 && s.height % s.kernel_h == 0 &&
           s.width % s.kernel_w == 0;
}

std::unique_ptr<Conv2dOp> make_patch_conv2d(const Conv2dShape& shape, std::unique_ptr<LinearOp> linear,
                                            std::unique_ptr<Conv2dOp> transposed,
                                            std::shared_ptr<CudaContext> context) {
    assert(is_of_patches(shape) && !shape.adds_to_dx);
    return std::make_unique<CudaPatchConv2d>(shape, std::move(linear), std::move(transposed),
                                             std::move(context));
}

}  // namespace tutti::cuda
