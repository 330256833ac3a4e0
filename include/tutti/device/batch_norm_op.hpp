#pragma once
// Batch normalisation, cut where ranks may have to combine their sums.
//
// S. Ioffe, C. Szegedy, "Batch Normalization", 2015, with the conventions of torch.nn.BatchNorm2d: the
// batch's biased variance normalises, running_var follows the unbiased one, new = (1 − momentum)·old +
// momentum·batch.

#include <cstdint>
#include <stdexcept>

#include "tutti/device/tensor_view.hpp"

namespace tutti {

struct BatchNormShape {
    std::int64_t channels = 0;
    double eps = 1e-5;
    double momentum = 0.1;
    bool relu = false;  ///< y = max(·, 0) behind it; only where Ops::fuses_relu
};

/// The running statistics of one layer, and what they are to follow: `statistics`, as below, of one batch, or
/// the sum over several (then their mean weighted by rows). batches i64[] counts.
struct BatchNormTracking {
    TensorView statistics, running_mean, running_var, batches;
    double momentum = 0.1;  ///< of BatchNormShape
};

/// x[…, C] is seen as rows of C channels; a batch of N images has N·H·W rows, and may have none. All sums are
/// f64, in this device's memory, and linear in the rows, so that sums of several ranks add up:
///   moments     f64[1 + 2C]  {rows, Σ(x − shift), Σ(x − shift)²}
///   normalizer  f64[1 + 2C]  {rows, mean, 1/√(variance + eps)}
///   statistics  f64[2 + 2C]  {rows, w, rows·mean, w·(unbiased variance)}, w = rows, or 0 where rows < 2 and
///                            the unbiased variance does not exist
///   sums        f64[2C]      {Σ dy, Σ dy·x̂}, x̂ = (x − mean)/√(variance + eps)
/// weight, bias, running_mean and running_var are T[C]. Nothing is allocated after the first call.
class BatchNormOp {
  public:
    virtual ~BatchNormOp() = default;

    /// `shift` T[C] is any guess of the mean (the running mean): the nearer, the less the difference of the
    /// moments cancels. Ranks that add their moments must use the same.
    virtual void moments(const TensorView& x, const TensorView& shift, const TensorView& moments) = 0;
    /// What normalises, and what the running statistics are to follow.
    virtual void normalizer(const TensorView& moments, const TensorView& shift, const TensorView& normalizer,
                            const TensorView& statistics) = 0;
    /// Both, where nothing of other ranks comes between; `moments` is memory for them, and may be left alone.
    /// In fp64 no digit depends on how near `shift` is.
    virtual void normalizer_of_batch(const TensorView& x, const TensorView& shift, const TensorView& moments,
                                     const TensorView& normalizer, const TensorView& statistics) {
        this->moments(x, shift, moments);
        this->normalizer(moments, shift, normalizer, statistics);
    }
    /// The normalizer of evaluation; its rows are 0.
    virtual void running_normalizer(const TensorView& running_mean, const TensorView& running_var,
                                    const TensorView& normalizer) = 0;

    /// y = x̂·weight + bias, or with shape.relu the greater of that and 0 (a NaN stays). A single row gives
    /// the bias.
    virtual void forward(const TensorView& x, const TensorView& normalizer, const TensorView& weight,
                         const TensorView& bias, const TensorView& y) = 0;
    /// Of these rows: `sums`, and as T: dweight = Σ dy·x̂, dbias = Σ dy.
    virtual void backward_sums(const TensorView& x, const TensorView& dy, const TensorView& normalizer,
                               const TensorView& sums, const TensorView& dweight,
                               const TensorView& dbias) = 0;
    /// dx = weight/√(variance + eps) · (dy − (Σ dy + x̂·Σ dy·x̂)/rows), with the sums and the rows of the whole
    /// batch that was normalised together; by running_normalizer, which depends on no row, weight/√(variance
    /// + eps)·dy. dx may be dy.
    virtual void backward(const TensorView& x, const TensorView& dy, const TensorView& normalizer,
                          const TensorView& weight, const TensorView& sums, const TensorView& dx) = 0;

    /// With shape.relu, in place of backward_sums: dy is the gradient of max(x̂·weight + bias, 0); that of
    /// x̂·weight + bias is dy, and 0 where this, computed again with the same bits, is not above 0. The sums
    /// of that; a backend may put it into dy's place.
    virtual void relu_backward_sums(const TensorView& /*x*/, const TensorView& /*dy*/,
                                    const TensorView& /*normalizer*/, const TensorView& /*weight*/,
                                    const TensorView& /*bias*/, const TensorView& /*sums*/,
                                    const TensorView& /*dweight*/, const TensorView& /*dbias*/) {
        throw std::logic_error("this backend fuses no ReLU");
    }
    /// Then, in place of backward, with the dy that relu_backward_sums left.
    virtual void relu_backward(const TensorView& x, const TensorView& dy, const TensorView& normalizer,
                               const TensorView& weight, const TensorView& /*bias*/, const TensorView& sums,
                               const TensorView& dx) {
        backward(x, dy, normalizer, weight, sums, dx);
    }

    // With a residual, where Ops::fuses_residual: y = x̂·weight + bias + residual, with shape.relu the greater
    // of that and 0. In backward y says what the ReLU let pass; g, dy or with shape.relu 0 where y is 0, is
    // the gradient of the sum, and so that of the residual.

    /// y may be residual.
    virtual void residual_forward(const TensorView& /*x*/, const TensorView& /*residual*/,
                                  const TensorView& /*normalizer*/, const TensorView& /*weight*/,
                                  const TensorView& /*bias*/, const TensorView& /*y*/) {
        throw std::logic_error("this backend fuses no residual");
    }
    /// As backward_sums, of g, which it writes on its way; g may be dy. Then backward, of g, gives dx.
    virtual void residual_backward_sums(const TensorView& /*x*/, const TensorView& /*y*/,
                                        const TensorView& /*dy*/, const TensorView& /*normalizer*/,
                                        const TensorView& /*g*/, const TensorView& /*sums*/,
                                        const TensorView& /*dweight*/, const TensorView& /*dbias*/) {
        throw std::logic_error("this backend fuses no residual");
    }
};

}  // namespace tutti
