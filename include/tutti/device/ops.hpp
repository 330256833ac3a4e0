#pragma once
// The arithmetic contract: what every backend computes, on views of its own memory.
//
// Conventions
//   * Activations are NHWC: [N, H, W, C] or [N, F]. N, the batch, is from 0 to
//     the planned maximum.
//   * Weights are in the arena's order: convolution [O, KH, KW, I/groups], linear [O, I].
//   * T is the compute type of this Ops. All tensors are T unless stated otherwise.
//   * Outputs are overwritten, never accumulated into. Inputs and outputs do not overlap unless stated.
//   * Preconditions on shapes are asserted (debug builds).
//   * Planning functions throw UsageError for shapes that make no sense,
//     naming the dimension.
//   * Planned operators own what they need (primitives, workspace), are
//     created once per shape and allocate nothing in forward and backward
//     after the first call with a given batch size.
//   * Not thread-safe: one thread drives a device.

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "tutti/device/average_pool2d_op.hpp"
#include "tutti/device/batch_norm_op.hpp"
#include "tutti/device/conv_transpose2d_op.hpp"
#include "tutti/device/cross_entropy_target.hpp"
#include "tutti/device/dropout_address.hpp"
#include "tutti/device/location_loss.hpp"
#include "tutti/device/masking_ops.hpp"
#include "tutti/device/pooled_conv2d_op.hpp"
#include "tutti/device/regression_loss.hpp"
#include "tutti/device/sequence_ops.hpp"
#include "tutti/device/tensor_view.hpp"
#include "tutti/device/transformer_ops.hpp"

namespace tutti {

/// Called by a backward when dweight and dbias are final, before it computes dx: they can be on their way to
/// other ranks meanwhile. Null: nobody asks. An operator need not call it.
using ParametersFinal = std::function<void()>;

struct LinearShape {
    std::int64_t in = 0, out = 0;
    bool bias = true;
};

/// y[N, out] = x[N, in] · weight[out, in]ᵀ + bias[out]
class LinearOp {
  public:
    virtual ~LinearOp() = default;
    virtual void forward(const TensorView& x, const TensorView& weight, const TensorView& bias,
                         const TensorView& y) = 0;
    /// Where Ops::fuses_residual: the same plus residual[N, out], of y's type, which is not y. Its gradient
    /// is dy.
    virtual void residual_forward(const TensorView& /*x*/, const TensorView& /*weight*/,
                                  const TensorView& /*bias*/, const TensorView& /*residual*/,
                                  const TensorView& /*y*/) {
        throw std::logic_error("this backend fuses no residual");
    }
    /// dx[N, in] (skipped when undefined), dweight[out, in], dbias[out] (undefined without bias).
    virtual void backward(const TensorView& x, const TensorView& weight, const TensorView& dy,
                          const TensorView& dx, const TensorView& dweight, const TensorView& dbias,
                          const ParametersFinal* parameters_final = nullptr) = 0;
};

/// y[N, out] = max(x[N, in] · weight[out, in]ᵀ + bias[out], 0), with NaN as Ops::relu_forward.
class ReluLinearOp {
  public:
    virtual ~ReluLinearOp() = default;
    virtual void forward(const TensorView& x, const TensorView& weight, const TensorView& bias,
                         const TensorView& y) = 0;
    /// As LinearOp::backward, of the y that forward gave and its gradient dy; dy may be overwritten.
    virtual void backward(const TensorView& x, const TensorView& weight, const TensorView& y,
                          const TensorView& dy, const TensorView& dx, const TensorView& dweight,
                          const TensorView& dbias, const ParametersFinal* parameters_final = nullptr) = 0;
};

/// A linear layer with GELU behind it, or one that reads such a layer's y = gelu(h).
class GeluLinearOp : public LinearOp {
  public:
    /// h[N, out] (skipped when undefined: no backward) gets the linear layer's result, y[N, out] gelu(h).
    /// The gradient of h is for LinearOp::backward.
    virtual void forward_gelu(const TensorView& x, const TensorView& weight, const TensorView& bias,
                              const TensorView& h, const TensorView& y) = 0;
    /// Backward of a layer that has computed h and y, where fuses_gelu_behind: as LinearOp::backward, of dy,
    /// the gradient of y, which becomes that of h.
    virtual void backward_through_gelu(const TensorView& x, const TensorView& h, const TensorView& weight,
                                       const TensorView& dy, const TensorView& dx, const TensorView& dweight,
                                       const TensorView& dbias,
                                       const ParametersFinal* parameters_final = nullptr) = 0;
    /// Backward of a layer whose x is gelu(h): dh[N, in], the gradient of h, in place of dx.
    virtual void backward_gelu(const TensorView& x, const TensorView& h, const TensorView& weight,
                               const TensorView& dy, const TensorView& dh, const TensorView& dweight,
                               const TensorView& dbias,
                               const ParametersFinal* parameters_final = nullptr) = 0;
};

struct Conv2dShape {
    std::int64_t height = 0, width = 0, in = 0, out = 0;
    std::int64_t kernel_h = 1, kernel_w = 1;
    std::int64_t stride_h = 1, stride_w = 1;
    std::int64_t padding_h = 0, padding_w = 0;
    std::int64_t groups = 1;
    bool bias = true;
    /// Backward adds to what dx holds, in place of overwriting it; only where Ops::adds_conv2d_gradient.
    bool adds_to_dx = false;
    std::int64_t out_height() const { return (height + 2 * padding_h - kernel_h) / stride_h + 1; }
    std::int64_t out_width() const { return (width + 2 * padding_w - kernel_w) / stride_w + 1; }
};

/// Cross-correlation, as PyTorch's Conv2d: x[N, H, W, I], weight[O, KH, KW, I/groups] -> y[N, OH, OW, O].
class Conv2dOp {
  public:
    virtual ~Conv2dOp() = default;
    virtual void forward(const TensorView& x, const TensorView& weight, const TensorView& bias,
                         const TensorView& y) = 0;
    /// dx is skipped when undefined (first layer); dbias is undefined without bias.
    virtual void backward(const TensorView& x, const TensorView& weight, const TensorView& dy,
                          const TensorView& dx, const TensorView& dweight, const TensorView& dbias,
                          const ParametersFinal* parameters_final = nullptr) = 0;
    /// dx alone; its batch is that of dy.
    virtual void backward_data(const TensorView& weight, const TensorView& dy, const TensorView& dx) = 0;
};

struct Pool2dShape {
    std::int64_t height = 0, width = 0, channels = 0;
    std::int64_t kernel_h = 2, kernel_w = 2;
    std::int64_t stride_h = 2, stride_w = 2;
    std::int64_t padding_h = 0, padding_w = 0;
    bool relu = false;  ///< of max(x, 0); only where Ops::fuses_relu
    std::int64_t out_height() const { return (height + 2 * padding_h - kernel_h) / stride_h + 1; }
    std::int64_t out_width() const { return (width + 2 * padding_w - kernel_w) / stride_w + 1; }
};

/// torch.optim.SGD (PyTorch documentation, "SGD"): g += weight_decay·p; on the first step buf = g, later
/// buf = momentum·buf + (1 − dampening)·g; g = nesterov ? g + momentum·buf : buf; p −= lr·g.
/// Without momentum the buffer is undefined and not touched.
struct SgdStep {
    double lr = 0, momentum = 0, dampening = 0, weight_decay = 0;
    bool nesterov = false, first_step = false;
};

/// torch.optim.AdamW (decoupled = true; Loshchilov & Hutter 2019) and Adam (decoupled = false: g +=
/// weight_decay·p). p −= lr·weight_decay·p; m = β₁m + (1−β₁)g; v = β₂v + (1−β₂)g²; p −= lr/(1−β₁ᵗ) · m /
/// (√v/√(1−β₂ᵗ) + eps), with t = `step` counted from 1.
struct AdamStep {
    double lr = 0, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0;
    std::int64_t step = 1;
    bool decoupled = true;
};

/// torch.optim.Adadelta (PyTorch documentation, "Adadelta"; Zeiler 2012): g += weight_decay·p;
/// v = ρv + (1−ρ)g²; Δ = √(u + eps)/√(v + eps) · g; u = ρu + (1−ρ)Δ²; p −= lr·Δ.
struct AdadeltaStep {
    double lr = 1, rho = 0.9, eps = 1e-6, weight_decay = 0;
};

/// LAMB's direction (You et al. 2020, "Large Batch Optimization for Deep Learning", algorithm 2, as in
/// NVIDIA's FusedLAMB and timm's Lamb with bias correction): m = β₁m + (1−β₁)g; v = β₂v + (1−β₂)g²;
/// u = m/(1−β₁ᵗ) / (√v/√(1−β₂ᵗ) + eps) + weight_decay·p, with t = `step` counted from 1.
struct LambStep {
    double beta1 = 0.9, beta2 = 0.999, eps = 1e-6, weight_decay = 0;
    std::int64_t step = 1;
};

class Ops : public TransformerOps, public MaskingOps, public SequenceOps {
  public:
    virtual DType compute() const = 0;
    /// In which type values between layers, and their gradients, are best kept: T, or a shorter one that
    /// these operations take in its place. Then activations and their gradients (x, y, dx, dy, qkv, out,
    /// residual, logits; all of one call alike, but in linear layers and convolutions) may be of either type;
    /// parameters and their gradients stay T. Each value is computed in T and rounded once; of linear layers
    /// and convolutions the bias, or the sum before it, is rounded, too.
    virtual DType activations() const { return compute(); }
    /// The same where the values are those of convolutional networks: not all operations take the shorter
    /// type then, but convolutions (without a pooling of their own), batch normalisation, ReLU, sums,
    /// poolings, fill and copy do, and linear layers as x and dx.
    virtual DType images() const { return activations(); }
    /// Into which type inputs of products are rounded, where that is best done once for several of them: then
    /// the weight of a linear layer or convolution, and the bias of a linear layer and the parameters of
    /// embed_tokens whose y is of it, may be given in it, and give the same bits. T where there is nothing to
    /// be gained.
    virtual DType product_inputs() const { return compute(); }
    /// y = x, T, in the type of product_inputs(): to the nearest, ties to even.
    virtual void round_for_products(const TensorView& x, const TensorView& y) { copy(x, y); }
    /// Whether shapes may say `relu`: batch normalisation and max pooling then apply it in their own passes.
    virtual bool fuses_relu() const { return false; }
    /// Whether batch normalisation and linear layers add a residual in their own passes.
    virtual bool fuses_residual() const { return false; }
    /// Whether a convolution of this shape, whose x and dx are of type T, may say `adds_to_dx`.
    virtual bool adds_conv2d_gradient(const Conv2dShape&, DType /*T*/) const { return false; }

    /// Bytes that stay close to the processors between one operator and the next, so that it is faster to
    /// take large tensors through several operators in parts; 0 where it is not.
    virtual std::size_t cache_bytes() const { return 0; }

    virtual std::unique_ptr<LinearOp> linear(const LinearShape& shape) = 0;
    /// Null where this backend has nothing better than the two one after the other.
    virtual std::unique_ptr<ReluLinearOp> relu_linear(const LinearShape&) { return nullptr; }
    /// Whether this GELU is cheaper as a part of the linear layers on both its sides.
    virtual bool fuses_gelu(GeluForm) const { return false; }
    /// Whether it is cheaper as a part of the linear layer before it alone. Not where fuses_gelu(form).
    virtual bool fuses_gelu_behind(GeluForm) const { return false; }
    /// Null where neither.
    virtual std::unique_ptr<GeluLinearOp> gelu_linear(const LinearShape&, GeluForm /*form*/) {
        return nullptr;
    }
    virtual std::unique_ptr<Conv2dOp> conv2d(const Conv2dShape& shape) = 0;
    /// `input_gradient`: whether backward is asked for dx. Null where this backend has nothing better than
    /// the two one after the other.
    virtual std::unique_ptr<PooledConv2dOp> pooled_conv2d(const Conv2dShape&, const Pool2dShape&,
                                                          bool /*input_gradient*/) {
        return nullptr;
    }
    virtual std::unique_ptr<ConvTranspose2dOp> conv_transpose2d(const ConvTranspose2dShape& shape) = 0;
    virtual std::unique_ptr<BatchNormOp> batch_norm(const BatchNormShape& shape) = 0;
    /// Of each layer, in which nothing changes where its batch had no rows or a statistic is not finite.
    virtual void track_batch_norms(std::span<const BatchNormTracking> layers) = 0;
    virtual std::unique_ptr<AveragePool2dOp> average_pool2d(const AveragePool2dShape& shape) = 0;

    /// y = max(x, 0); NaN stays NaN. y may be x.
    virtual void relu_forward(const TensorView& x, const TensorView& y) = 0;
    /// dx = y > 0 ? dy : 0, and dy where y is NaN, as PyTorch. dx may be dy.
    virtual void relu_backward(const TensorView& y, const TensorView& dy, const TensorView& dx) = 0;

    /// y[N, OH, OW, C]; `winner` (u8, y's shape) gets the winner's place in its window, kh·KW + kw, the first
    /// of equals in row-major order, as PyTorch; a NaN wins, of several the last. Windows of at most
    /// 255 elements, padding less than the kernel. Padding never wins. With shape.relu y = max(·, 0), and
    /// where y is 0 nothing wins: `winner` is 255, which backward sends nowhere.
    virtual void max_pool2d_forward(const Pool2dShape& shape, const TensorView& x, const TensorView& y,
                                    const TensorView& winner) = 0;
    virtual void max_pool2d_backward(const Pool2dShape& shape, const TensorView& dy, const TensorView& winner,
                                     const TensorView& dx) = 0;

    /// y = x / (1 − probability) where keep (u8, x's shape) is 1, and 0 where it is 0 (torch.nn.Dropout);
    /// x: [N, H, W, C] or [N, F]. With probability 1 everything is 0. y may be x.
    virtual void dropout_forward(const DropoutAddress& address, double probability, const TensorView& x,
                                 const TensorView& y, const TensorView& keep) = 0;
    /// Stochastic depth (Huang et al. 2016): y[n] = 0 where RandomStream(seed, RandomPlace::drop_path, epoch,
    /// positions[n]).uniform(layer) is below probability, which is below 1, else x[n] / (1 − probability).
    /// Its own backward. y may be x. False: nothing was done, the host draws and calls scale_samples.
    virtual bool drop_path(const DropoutAddress& /*address*/, double /*probability*/, const TensorView& /*x*/,
                           const TensorView& /*y*/) {
        return false;
    }
    /// dx may be dy.
    virtual void dropout_backward(double probability, const TensorView& dy, const TensorView& keep,
                                  const TensorView& dx) = 0;

    /// probabilities[N, K] = softmax(logits[N, K]), stable for large logits; sums (f64[3]) gets
    /// {Σ −Σₖ w[k]·q[k]·log p[k], N, number of rows whose first maximum is the label}, with q and w of
    /// `target`: q is 1 at the label, or smoothed (Szegedy et al. 2016, section 7); w is 1 unless given.
    /// labels: i64[N], each in [0, K). probabilities may be logits. Sums run over rows in order, in double.
    virtual void softmax_cross_entropy_forward(const TensorView& logits, const TensorView& labels,
                                               const TensorView& probabilities, const TensorView& sums,
                                               const CrossEntropyTarget& target = {}) = 0;
    /// dlogits = scale · (probabilities · Σₖ w[k]·q[k] − w·q). dlogits may be probabilities.
    virtual void softmax_cross_entropy_backward(const TensorView& probabilities, const TensorView& labels,
                                                double scale, const TensorView& dlogits,
                                                const CrossEntropyTarget& target = {}) = 0;

    /// differences[N, K] (of T) = outputs[N, K] − targets (f32[N, K]; undefined: zeros), K ≥ 1; differences
    /// may be outputs.
    /// sums (f64[3]) gets {Σ over rows of (1/K)·Σₖ l(d), N, 0}, with l of `kind`, of differences d widened to
    /// double, so that no square of an f32 overflows; rows in order.
    virtual void regression_loss_forward(const TensorView& outputs, const TensorView& targets,
                                         RegressionLoss kind, const TensorView& differences,
                                         const TensorView& sums) = 0;
    /// doutputs = scale/K · l′(differences); l′(0) of |d| is 0, as in PyTorch, and a NaN stays one.
    /// doutputs may be differences.
    virtual void regression_loss_backward(const TensorView& differences, RegressionLoss kind, double scale,
                                          const TensorView& doutputs) = 0;

    /// The loss of LocationLoss, of outputs[N, H, W, 2] and wanted (f32[N, 3]). differences[N, H, W, 2] (of
    /// T) gets o − t in channel 0 and sigmoid(z) − c in every cell of channel 1; it may be outputs. sums
    /// (f64[3]) gets {Σ over samples of the loss, N, number of samples for which z > 0 says c}; samples in
    /// order, in double.
    virtual void location_loss_forward(const TensorView& outputs, const TensorView& wanted,
                                       const LocationLoss& loss, const TensorView& differences,
                                       const TensorView& sums) = 0;
    /// doutputs = scale · the gradient of the loss, from the differences; it may be differences.
    virtual void location_loss_backward(const TensorView& differences, const LocationLoss& loss, double scale,
                                        const TensorView& doutputs) = 0;

    /// y = (u8 / 255.0f − mean[c]) / std[c], of features y = (f32 − mean[c]) / std[c], in fp32, then
    /// converted to T. x: u8[…, C] or f32[…, C]; mean, std: host, C values.
    virtual void normalize(const TensorView& x, std::span<const float> mean, std::span<const float> std,
                           const TensorView& y) = 0;

    virtual void fill(const TensorView& x, double value) = 0;
    /// y = x; nothing when they are the same memory.
    virtual void copy(const TensorView& x, const TensorView& y) = 0;
    /// y = a + b; y may be a or b.
    virtual void sum(const TensorView& a, const TensorView& b, const TensorView& y) = 0;
    /// y = max(a + b, 0), as relu_forward of the sum; y may be a or b.
    virtual void sum_relu(const TensorView& a, const TensorView& b, const TensorView& y) {
        sum(a, b, y);
        relu_forward(y, y);
    }
    /// relu_backward to two places; da or db may be dy.
    virtual void sum_relu_backward(const TensorView& y, const TensorView& dy, const TensorView& da,
                                   const TensorView& db) {
        relu_backward(y, dy, da);
        copy(da, db);
    }
    /// y += x
    virtual void add(const TensorView& x, const TensorView& y) = 0;

    /// Elementwise updates of flat views of the arenas, all of one length (formulas above).
    virtual void sgd(const SgdStep& step, const TensorView& gradient, const TensorView& parameter,
                     const TensorView& momentum_buffer) = 0;
    virtual void adam(const AdamStep& step, const TensorView& gradient, const TensorView& parameter,
                      const TensorView& first_moment, const TensorView& second_moment) = 0;
    virtual void adadelta(const AdadeltaStep& step, const TensorView& gradient, const TensorView& parameter,
                          const TensorView& square_average, const TensorView& delta_average) = 0;
    /// The moments and u of one parameter; `update` may be `gradient`.
    virtual void lamb_direction(const LambStep& step, const TensorView& gradient, const TensorView& parameter,
                                const TensorView& first_moment, const TensorView& second_moment,
                                const TensorView& update) = 0;
    /// p −= lr·r·update, with the trust ratio r = ‖p‖/‖update‖, or 1 where either norm is 0. squares: f64[2],
    /// {Σ p², Σ update²} of this parameter.
    virtual void lamb_apply(double lr, const TensorView& squares, const TensorView& update,
                            const TensorView& parameter) = 0;

    /// sum (f64[1]) = Σ x² in double, along blocks of a fixed size and one binary tree: the bits do not
    /// depend on the number of threads.
    virtual void sum_of_squares(const TensorView& x, const TensorView& sum) = 0;
    /// x *= factor
    virtual void scale(double factor, const TensorView& x) = 0;
    /// torch.lerp: y = y + weight·(x − y) for weight < 0.5, else x − (1 − weight)·(x − y), so that weight 1
    /// copies x.
    virtual void lerp(double weight, const TensorView& x, const TensorView& y) = 0;
    /// Exchanges the elements of x and y.
    virtual void swap(const TensorView& x, const TensorView& y) = 0;

    /// Of each row of logits[N, K]: predicted (i64[N]), the place of the first maximum; place (i64[N]), how
    /// many classes come before the label: those with a greater logit, and equal ones with a lower index. So
    /// place == 0 where predicted == label, and the label is among the best k where place < k. A row whose
    /// maximum is not finite (a NaN is the greatest), and which thus has no softmax, says nothing: predicted
    /// is −1, and place is K. labels: i64[N].
    virtual void rank_labels(const TensorView& logits, const TensorView& labels, const TensorView& predicted,
                             const TensorView& place) = 0;
};

}  // namespace tutti
