#include "cuda_ops.hpp"

#include "../cpu/shape_checks.hpp"
#include "activations.hpp"
#include "batch_norm_track.hpp"
#include "cudnn_convolution.hpp"
#include "dropout.hpp"
#include "location_loss.hpp"
#include "max_pool2d.hpp"
#include "normalize.hpp"
#include "rank_labels.hpp"
#include "regression_loss.hpp"
#include "softmax_cross_entropy.hpp"

namespace tutti::cuda {

CudaOps::CudaOps(std::shared_ptr<CudaContext> context, ProductType products)
    : context_(std::move(context)), products_(std::make_shared<CublasProducts>(context_)), type_(products) {
    if (type_ == ProductType::bf16) fused_attention_ = std::make_unique<FusedAttention>(context_);
}

std::unique_ptr<LinearOp> CudaOps::linear(const LinearShape& shape) {
    check(shape);
    return make_linear(shape, type_, context_, products_);
}
std::unique_ptr<GeluLinearOp> CudaOps::gelu_linear(const LinearShape& shape, GeluForm form) {
    check(shape);
    return make_linear(shape, type_, context_, products_, form);
}
std::unique_ptr<Conv2dOp> CudaOps::conv2d(const Conv2dShape& shape) {
    check(shape);
    auto convolution = make_conv2d(shape, type_, context_, convolution_plans_);
    if (!is_of_patches(shape)) return convolution;
    const LinearShape linear{
        .in = shape.kernel_h * shape.kernel_w * shape.in, .out = shape.out, .bias = shape.bias};
    return make_patch_conv2d(shape, make_linear(linear, type_, context_, products_), std::move(convolution),
                             context_);
}
bool CudaOps::adds_conv2d_gradient(const Conv2dShape& shape, DType type) const {
    // What is padded or rounded has its gradient in scratch memory first.
    return type == activations() && padded(shape, type_).in == shape.in && !is_of_patches(shape);
}
std::unique_ptr<ConvTranspose2dOp> CudaOps::conv_transpose2d(const ConvTranspose2dShape& shape) {
    return make_conv_transpose2d(shape, conv2d(convolution_of(shape)), context_);
}
std::unique_ptr<BatchNormOp> CudaOps::batch_norm(const BatchNormShape& shape) {
    return make_batch_norm(shape, context_);
}
void CudaOps::track_batch_norms(std::span<const BatchNormTracking> layers) {
    batch_norm_track(layers, stream());
}
std::unique_ptr<AveragePool2dOp> CudaOps::average_pool2d(const AveragePool2dShape& shape) {
    check(shape);
    return make_average_pool2d(shape, context_);
}

void CudaOps::relu_forward(const TensorView& x, const TensorView& y) {
    cuda::relu_forward(x, y, stream());
}
void CudaOps::relu_backward(const TensorView& y, const TensorView& dy, const TensorView& dx) {
    cuda::relu_backward(y, dy, dx, stream());
}

void CudaOps::sum_relu(const TensorView& a, const TensorView& b, const TensorView& y) {
    cuda::sum_relu(a, b, y, stream());
}
void CudaOps::sum_relu_backward(const TensorView& y, const TensorView& dy, const TensorView& da,
                                const TensorView& db) {
    cuda::sum_relu_backward(y, dy, da, db, stream());
}

void CudaOps::max_pool2d_forward(const Pool2dShape& shape, const TensorView& x, const TensorView& y,
                                 const TensorView& winner) {
    cuda::max_pool2d_forward(shape, x, y, winner, stream());
}
void CudaOps::max_pool2d_backward(const Pool2dShape& shape, const TensorView& dy, const TensorView& winner,
                                  const TensorView& dx) {
    cuda::max_pool2d_backward(shape, dy, winner, dx, stream());
}

void CudaOps::dropout_forward(const DropoutAddress& address, double probability, const TensorView& x,
                              const TensorView& y, const TensorView& keep) {
    const auto [epoch, positions] = context_->random_places(address.epoch, address.positions);
    cuda::dropout_forward({address.seed, address.layer, epoch, positions}, probability, x, y, keep, stream());
}
bool CudaOps::drop_path(const DropoutAddress& address, double probability, const TensorView& x,
                        const TensorView& y) {
    const auto [epoch, positions] = context_->random_places(address.epoch, address.positions);
    cuda::drop_path({address.seed, address.layer, epoch, positions}, probability, x, y, stream());
    return true;
}
void CudaOps::dropout_backward(double probability, const TensorView& dy, const TensorView& keep,
                               const TensorView& dx) {
    cuda::dropout_backward(probability, dy, keep, dx, stream());
}

void CudaOps::softmax_cross_entropy_forward(const TensorView& logits, const TensorView& labels,
                                            const TensorView& probabilities, const TensorView& sums,
                                            const CrossEntropyTarget& target) {
    const TensorView workspace = context_->scratch(DType::f64, {2 * logits.shape[0]});
    cuda::softmax_cross_entropy_forward(logits, labels, workspace, probabilities, sums, target, stream());
}
void CudaOps::softmax_cross_entropy_backward(const TensorView& probabilities, const TensorView& labels,
                                             double scale, const TensorView& dlogits,
                                             const CrossEntropyTarget& target) {
    const TensorView factor = context_->loss_scale(scale);
    cuda::softmax_cross_entropy_backward(probabilities, labels, factor, dlogits, target, stream());
}

void CudaOps::regression_loss_forward(const TensorView& outputs, const TensorView& targets,
                                      RegressionLoss kind, const TensorView& differences,
                                      const TensorView& sums) {
    const TensorView workspace = context_->scratch(DType::f64, {outputs.shape[0]});
    cuda::regression_loss_forward(outputs, targets, workspace, kind, differences, sums, stream());
}
void CudaOps::regression_loss_backward(const TensorView& differences, RegressionLoss kind, double scale,
                                       const TensorView& doutputs) {
    const TensorView factor = context_->loss_scale(scale);
    cuda::regression_loss_backward(differences, factor, kind, doutputs, stream());
}

void CudaOps::location_loss_forward(const TensorView& outputs, const TensorView& wanted,
                                    const LocationLoss& loss, const TensorView& differences,
                                    const TensorView& sums) {
    const TensorView workspace = context_->scratch(DType::f64, {2 * outputs.shape[0]});
    cuda::location_loss_forward(outputs, wanted, workspace, loss, differences, sums, stream());
}
void CudaOps::location_loss_backward(const TensorView& differences, const LocationLoss& loss, double scale,
                                     const TensorView& doutputs) {
    const TensorView factor = context_->loss_scale(scale);
    cuda::location_loss_backward(differences, factor, loss, doutputs, stream());
}

void CudaOps::rank_labels(const TensorView& logits, const TensorView& labels, const TensorView& predicted,
                          const TensorView& place) {
    cuda::rank_labels(logits, labels, predicted, place, stream());
}

void CudaOps::normalize(const TensorView& x, std::span<const float> mean, std::span<const float> std,
                        const TensorView& y) {
    std::vector<float> both(mean.begin(), mean.end());
    both.insert(both.end(), std.begin(), std.end());
    const TensorView uploaded = context_->upload(std::span<const float>(both));
    const auto channels = static_cast<std::int64_t>(mean.size());
    cuda::normalize(x, {uploaded.data, DType::f32, {channels}},
                    {uploaded.data + mean.size() * sizeof(float), DType::f32, {channels}}, y, stream());
}

}  // namespace tutti::cuda
