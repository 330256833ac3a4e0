// Batch normalisation, average pooling and transposed convolution as planned operators.

#include <optional>

#include "average_pool2d.hpp"
#include "batch_norm.hpp"
#include "bias.hpp"
#include "cuda_ops.hpp"
#include "gpu_error.hpp"

namespace tutti::cuda {
namespace {

class CudaBatchNorm final : public BatchNormOp {
  public:
    CudaBatchNorm(const BatchNormShape& shape, std::shared_ptr<CudaContext> context)
        : shape_(shape), context_(std::move(context)) {}

    void moments(const TensorView& x, const TensorView& shift, const TensorView& moments) override {
        batch_norm_moments(x, shift, workspace(x), moments, context_->stream());
    }
    void normalizer(const TensorView& moments, const TensorView& shift, const TensorView& normalizer,
                    const TensorView& statistics) override {
        batch_norm_normalizer(shape_, moments, shift, normalizer, statistics, context_->stream());
    }
    void normalizer_of_batch(const TensorView& x, const TensorView& shift, const TensorView& /*moments*/,
                             const TensorView& normalizer, const TensorView& statistics) override {
        batch_norm_normalizer_of_batch(shape_, x, shift, workspace(x), normalizer, statistics,
                                       context_->stream());
    }
    void running_normalizer(const TensorView& running_mean, const TensorView& running_var,
                            const TensorView& normalizer) override {
        batch_norm_running_normalizer(shape_, running_mean, running_var, normalizer, context_->stream());
    }
    void forward(const TensorView& x, const TensorView& normalizer, const TensorView& weight,
                 const TensorView& bias, const TensorView& y) override {
        batch_norm_forward(x, normalizer, weight, bias, {.residual = {}, .relu = shape_.relu}, y,
                           context_->stream());
    }
    void backward_sums(const TensorView& x, const TensorView& dy, const TensorView& normalizer,
                       const TensorView& sums, const TensorView& dweight, const TensorView& dbias) override {
        batch_norm_backward_sums(x, dy, {}, normalizer, {}, workspace(x), sums, dweight, dbias,
                                 context_->stream());
    }
    void backward(const TensorView& x, const TensorView& dy, const TensorView& normalizer,
                  const TensorView& weight, const TensorView& sums, const TensorView& dx) override {
        batch_norm_backward(x, dy, {}, normalizer, weight, sums, dx, context_->stream());
    }
    void relu_backward_sums(const TensorView& x, const TensorView& dy, const TensorView& normalizer,
                            const TensorView& weight, const TensorView& bias, const TensorView& sums,
                            const TensorView& dweight, const TensorView& dbias) override {
        batch_norm_backward_sums(x, dy, {.weight = weight, .bias = bias}, normalizer, {}, workspace(x), sums,
                                 dweight, dbias, context_->stream());
    }
    void relu_backward(const TensorView& x, const TensorView& dy, const TensorView& normalizer,
                       const TensorView& weight, const TensorView& bias, const TensorView& sums,
                       const TensorView& dx) override {
        batch_norm_backward(x, dy, {.weight = weight, .bias = bias}, normalizer, weight, sums, dx,
                            context_->stream());
    }

    void residual_forward(const TensorView& x, const TensorView& residual, const TensorView& normalizer,
                          const TensorView& weight, const TensorView& bias, const TensorView& y) override {
        batch_norm_forward(x, normalizer, weight, bias, {.residual = residual, .relu = shape_.relu}, y,
                           context_->stream());
    }
    void residual_backward_sums(const TensorView& x, const TensorView& y, const TensorView& dy,
                                const TensorView& normalizer, const TensorView& g, const TensorView& sums,
                                const TensorView& dweight, const TensorView& dbias) override {
        const BatchNormRelu seen_in_y{.y = shape_.relu ? y : TensorView{}, .weight = {}, .bias = {}};
        batch_norm_backward_sums(x, dy, seen_in_y, normalizer, g, workspace(x), sums, dweight, dbias,
                                 context_->stream());
    }

  private:
    TensorView workspace(const TensorView& x) const {
        return context_->scratch(DType::f64, {batch_norm_workspace(x, shape_.channels)});
    }
    const BatchNormShape shape_;
    const std::shared_ptr<CudaContext> context_;
};

class CudaAveragePool2d final : public AveragePool2dOp {
  public:
    CudaAveragePool2d(const AveragePool2dShape& shape, std::shared_ptr<CudaContext> context)
        : shape_(shape), context_(std::move(context)) {
        const std::vector<std::int64_t> table = average_pool2d_table(shape);
        const std::size_t bytes = table.size() * sizeof(std::int64_t);
        memory_.emplace(bytes, "windows of average_pool2d");
        table_ = {memory_->data(), DType::i64, {static_cast<std::int64_t>(table.size())}};
        check(cudaMemcpyAsync(table_.data, table.data(), bytes, cudaMemcpyHostToDevice, context_->stream()),
              "cudaMemcpyAsync of average_pool2d's windows");
        context_->compute().synchronize();  // until then CUDA may read the table here
    }
    void forward(const TensorView& x, const TensorView& y) override {
        average_pool2d_forward(shape_, table_, x, y, context_->stream());
    }
    void backward(const TensorView& dy, const TensorView& dx) override {
        average_pool2d_backward(shape_, table_, dy, dx, context_->stream());
    }

  private:
    const AveragePool2dShape shape_;
    const std::shared_ptr<CudaContext> context_;
    std::optional<DeviceMemory> memory_;
    TensorView table_;
};

/// The convolution from y's shape to x's, run the other way; it keeps the weights as [I, KH, KW, O], too.
class CudaConvTranspose2d final : public ConvTranspose2dOp {
  public:
    CudaConvTranspose2d(const ConvTranspose2dShape& shape, std::unique_ptr<Conv2dOp> convolution,
                        std::shared_ptr<CudaContext> context)
        : bias_(shape.bias),
          channels_(shape.out),
          convolution_(std::move(convolution)),
          context_(std::move(context)) {}

    void forward(const TensorView& x, const TensorView& weight, const TensorView& bias,
                 const TensorView& y) override {
        assert(bias.defined() == bias_);
        convolution_->backward_data(weight, x, y);
        if (bias_) bias_forward(BiasActivation::none, y, bias, y, context_->stream());
    }
    void backward(const TensorView& x, const TensorView& weight, const TensorView& dy, const TensorView& dx,
                  const TensorView& dweight, const TensorView& dbias) override {
        assert(dbias.defined() == bias_);
        if (bias_) {
            const TensorView workspace = context_->scratch(DType::f64, {bias_workspace(dy, channels_)});
            bias_backward(BiasActivation::none, {}, {}, dy, {}, dbias, workspace, context_->stream());
        }
        convolution_->backward(dy, weight, x, {}, dweight, {});
        if (dx.defined()) convolution_->forward(dy, weight, {}, dx);
    }

  private:
    const bool bias_;
    const std::int64_t channels_;
    const std::unique_ptr<Conv2dOp> convolution_;
    const std::shared_ptr<CudaContext> context_;
};

}  // namespace

std::unique_ptr<BatchNormOp> make_batch_norm(const BatchNormShape& shape,
                                             std::shared_ptr<CudaContext> context) {
    return std::make_unique<CudaBatchNorm>(shape, std::move(context));
}
std::unique_ptr<AveragePool2dOp> make_average_pool2d(const AveragePool2dShape& shape,
                                                     std::shared_ptr<CudaContext> context) {
    return std::make_unique<CudaAveragePool2d>(shape, std::move(context));
}
std::unique_ptr<ConvTranspose2dOp> make_conv_transpose2d(const ConvTranspose2dShape& shape,
                                                         std::unique_ptr<Conv2dOp> convolution,
                                                         std::shared_ptr<CudaContext> context) {
    return std::make_unique<CudaConvTranspose2d>(shape, std::move(convolution), std::move(context));
}

}  // namespace tutti::cuda
