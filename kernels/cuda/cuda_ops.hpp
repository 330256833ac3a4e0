#pragma once
// The ops contract on CUDA: linear layers and attention by cuBLASLt, convolutions by cuDNN, all else by the
// kernels of this folder. Parameters are f32; products may round their inputs, and activations be bf16.

#include <memory>

#include "cublas_products.hpp"
#include "cuda_context.hpp"
#include "cudnn_convolution.hpp"
#include "fused_attention.hpp"
#include "tutti/device/ops.hpp"

namespace tutti::cuda {

/// Every call is issued to the context's stream and returns at once. Each family's file defines its members.
class CudaOps final : public Ops {
  public:
    CudaOps(std::shared_ptr<CudaContext> context, ProductType products);

    DType compute() const override { return DType::f32; }
    /// With products in bf16 these, too: half of the memory traffic, and nothing is rounded before a product.
    DType activations() const override { return type_ == ProductType::bf16 ? DType::bf16 : DType::f32; }
    DType product_inputs() const override { return activations(); }
    void round_for_products(const TensorView& x, const TensorView& y) override;
    bool fuses_relu() const override { return true; }
    bool fuses_residual() const override { return true; }
    bool adds_conv2d_gradient(const Conv2dShape& shape, DType type) const override;

    std::unique_ptr<LinearOp> linear(const LinearShape& shape) override;
    /// cuBLASLt has the one by tanh.
    bool fuses_gelu(GeluForm form) const override { return form == GeluForm::tanh; }
    /// The pass over the gradient of the exact one's output sums that of the bias.
    bool fuses_gelu_behind(GeluForm form) const override { return form == GeluForm::exact; }
    std::unique_ptr<GeluLinearOp> gelu_linear(const LinearShape& shape, GeluForm form) override;
    std::unique_ptr<Conv2dOp> conv2d(const Conv2dShape& shape) override;
    std::unique_ptr<ConvTranspose2dOp> conv_transpose2d(const ConvTranspose2dShape& shape) override;
    std::unique_ptr<BatchNormOp> batch_norm(const BatchNormShape& shape) override;
    void track_batch_norms(std::span<const BatchNormTracking> layers) override;
    std::unique_ptr<AveragePool2dOp> average_pool2d(const AveragePool2dShape& shape) override;

    void relu_forward(const TensorView& x, const TensorView& y) override;
    void relu_backward(const TensorView& y, const TensorView& dy, const TensorView& dx) override;
    void max_pool2d_forward(const Pool2dShape& shape, const TensorView& x, const TensorView& y,
                            const TensorView& winner) override;
    void max_pool2d_backward(const Pool2dShape& shape, const TensorView& dy, const TensorView& winner,
                             const TensorView& dx) override;
    void dropout_forward(const DropoutAddress& address, double probability, const TensorView& x,
                         const TensorView& y, const TensorView& keep) override;
    bool drop_path(const DropoutAddress& address, double probability, const TensorView& x,
                   const TensorView& y) override;
    void dropout_backward(double probability, const TensorView& dy, const TensorView& keep,
                          const TensorView& dx) override;
    void softmax_cross_entropy_forward(const TensorView& logits, const TensorView& labels,
                                       const TensorView& probabilities, const TensorView& sums,
                                       const CrossEntropyTarget& target) override;
    void softmax_cross_entropy_backward(const TensorView& probabilities, const TensorView& labels,
                                        double scale, const TensorView& dlogits,
                                        const CrossEntropyTarget& target) override;
    void regression_loss_forward(const TensorView& outputs, const TensorView& targets, RegressionLoss kind,
                                 const TensorView& differences, const TensorView& sums) override;
    void regression_loss_backward(const TensorView& differences, RegressionLoss kind, double scale,
                                  const TensorView& doutputs) override;
    void location_loss_forward(const TensorView& outputs, const TensorView& wanted, const LocationLoss& loss,
                               const TensorView& differences, const TensorView& sums) override;
    void location_loss_backward(const TensorView& differences, const LocationLoss& loss, double scale,
                                const TensorView& doutputs) override;
    void rank_labels(const TensorView& logits, const TensorView& labels, const TensorView& predicted,
                     const TensorView& place) override;

    void layer_norm_forward(const TensorView& x, const TensorView& gamma, const TensorView& beta, double eps,
                            const TensorView& y, const TensorView& statistics) override;
    void layer_norm_backward(const TensorView& x, const TensorView& gamma, const TensorView& statistics,
                             const TensorView& dy, const TensorView& dx, const TensorView& dgamma,
                             const TensorView& dbeta, const TensorView& addend = {}) override;
    void gelu_forward(GeluForm form, const TensorView& x, const TensorView& y) override;
    void gelu_backward(GeluForm form, const TensorView& x, const TensorView& dy,
                       const TensorView& dx) override;
    /// In bf16 fused, where kernels of ours or cuDNN's engines take the shape; with a mask by ours alone.
    /// Else it holds the scores of one head of all samples at a time: O(N·T²) memory, more than the
    /// contract's O(T), and what padding has is multiplied by zeros: it must be finite. Backward is fused
    /// where it gets what forward kept.
    void attention_forward(const AttentionShape& shape, const TensorView& qkv, const TensorView& out,
                           const TensorView& statistics, const TensorView& mask = {}) override;
    void attention_backward(const AttentionShape& shape, const TensorView& qkv, const TensorView& out,
                            const TensorView& statistics, const TensorView& dout, const TensorView& dqkv,
                            const TensorView& mask = {}) override;
    bool keeps_attention_statistics(const AttentionShape& shape, bool masked) const override;
    void scale_samples(const TensorView& x, std::span<const double> factors, const TensorView& y) override;
    void embed_tokens_forward(const TensorView& x, const TensorView& class_token, const TensorView& positions,
                              const TensorView& y) override;
    void embed_tokens_backward(const TensorView& dy, const TensorView& dx, const TensorView& dclass_token,
                               const TensorView& dpositions) override;
    void extract_patches(const PatchShape& shape, const TensorView& x, const TensorView& tokens) override;
    void join_patches(const PatchShape& shape, const TensorView& tokens, const TensorView& x) override;
    void pool_tokens_forward(TokenPooling pooling, const TensorView& x, const TensorView& y) override;
    void pool_tokens_backward(TokenPooling pooling, const TensorView& dy, const TensorView& dx) override;

    void mask_tokens(const DropoutAddress& address, const TubeMask& mask, const TensorView& order) override;
    void running_cells(const DropoutAddress& address, const TubeMask& mask, const RunningCells& cells,
                       const TensorView& order, const TensorView& decoded) override;
    void take_tokens(const TensorView& x, const TensorView& order, const TensorView& y) override;
    void fill_tokens_forward(const TensorView& x, const TensorView& mask_token, const TensorView& positions,
                             const TensorView& order, const TensorView& y) override;
    void fill_tokens_backward(const TensorView& dy, const TensorView& dx, const TensorView& dmask_token,
                              std::int64_t visible) override;
    void last_tokens_forward(const TensorView& x, const TensorView& y) override;
    void last_tokens_backward(const TensorView& dy, const TensorView& dx) override;
    void patch_differences(const TensorView& prediction, const TensorView& patches, const TensorView& order,
                           const TensorView& epsilon, const TensorView& differences) override;

    void copy_columns(const TensorView& x, const ColumnRange& columns, const TensorView& y) override;
    void segment_loss_forward(const TensorView& outputs, const TensorView& wanted, const SegmentLoss& loss,
                              const TensorView& gradients, const TensorView& sums) override;
    void segment_loss_backward(const TensorView& gradients, double scale,
                               const TensorView& doutputs) override;

    void normalize(const TensorView& x, std::span<const float> mean, std::span<const float> std,
                   const TensorView& y) override;
    void fill(const TensorView& x, double value) override;
    void copy(const TensorView& x, const TensorView& y) override;
    void sum(const TensorView& a, const TensorView& b, const TensorView& y) override;
    void sum_relu(const TensorView& a, const TensorView& b, const TensorView& y) override;
    void sum_relu_backward(const TensorView& y, const TensorView& dy, const TensorView& da,
                           const TensorView& db) override;
    void add(const TensorView& x, const TensorView& y) override;
    void sgd(const SgdStep& step, const TensorView& gradient, const TensorView& parameter,
             const TensorView& momentum_buffer) override;
    void adam(const AdamStep& step, const TensorView& gradient, const TensorView& parameter,
              const TensorView& first_moment, const TensorView& second_moment) override;
    void adadelta(const AdadeltaStep& step, const TensorView& gradient, const TensorView& parameter,
                  const TensorView& square_average, const TensorView& delta_average) override;
    void lamb_direction(const LambStep& step, const TensorView& gradient, const TensorView& parameter,
                        const TensorView& first_moment, const TensorView& second_moment,
                        const TensorView& update) override;
    void lamb_apply(double lr, const TensorView& squares, const TensorView& update,
                    const TensorView& parameter) override;
    void sum_of_squares(const TensorView& x, const TensorView& sum) override;
    void scale(double factor, const TensorView& x) override;
    void lerp(double weight, const TensorView& x, const TensorView& y) override;
    void swap(const TensorView& x, const TensorView& y) override;

  private:
    Stream stream() const { return context_->stream(); }
    /// Head by head in f32; existing: how many tokens of each sample are no padding, i64[N], or undefined;
    /// p and ds: f32[N, T, T], overwritten.
    void attend_by_heads(const AttentionShape& shape, const TensorView& existing, const TensorView& p,
                         const TensorView& qkv, const TensorView& out);
    void attend_by_heads_backward(const AttentionShape& shape, const TensorView& existing,
                                  const TensorView& p, const TensorView& ds, const TensorView& qkv,
                                  const TensorView& dout, const TensorView& dqkv);

    // Shared, because operators may outlive the Ops that made them.
    std::shared_ptr<CudaContext> context_;
    std::shared_ptr<CublasProducts> products_;
    std::shared_ptr<ConvolutionPlans> convolution_plans_ = std::make_shared<ConvolutionPlans>();
    std::unique_ptr<FusedAttention> fused_attention_;  // null but in bf16
    ProductType type_;
};

std::unique_ptr<GeluLinearOp> make_linear(const LinearShape& shape, ProductType type,
                                          std::shared_ptr<CudaContext> context,
                                          std::shared_ptr<CublasProducts> products,
                                          GeluForm gelu = GeluForm::tanh);
std::unique_ptr<Conv2dOp> make_conv2d(const Conv2dShape& shape, ProductType type,
                                      std::shared_ptr<CudaContext> context,
                                      std::shared_ptr<ConvolutionPlans> plans);
/// Whether the windows neither overlap nor leave anything out. Such a convolution is `linear` of its patches;
/// dx alone comes from `transposed`, an operator of the same shape.
bool is_of_patches(const Conv2dShape& shape);
std::unique_ptr<Conv2dOp> make_patch_conv2d(const Conv2dShape& shape, std::unique_ptr<LinearOp> linear,
                                            std::unique_ptr<Conv2dOp> transposed,
                                            std::shared_ptr<CudaContext> context);
/// `convolution` computes in the other direction.
std::unique_ptr<ConvTranspose2dOp> make_conv_transpose2d(const ConvTranspose2dShape& shape,
                                                         std::unique_ptr<Conv2dOp> convolution,
                                                         std::shared_ptr<CudaContext> context);
std::unique_ptr<BatchNormOp> make_batch_norm(const BatchNormShape& shape,
                                             std::shared_ptr<CudaContext> context);
std::unique_ptr<AveragePool2dOp> make_average_pool2d(const AveragePool2dShape& shape,
                                                     std::shared_ptr<CudaContext> context);

}  // namespace tutti::cuda
