#pragma once
// Loss terms: (sum, weight) forward, scaled gradient backward.

#include <cstdint>
#include <memory>
#include <span>

#include "tutti/device/device.hpp"
#include "tutti/device/location_loss.hpp"
#include "tutti/device/regression_loss.hpp"
#include "tutti/device/segment_loss.hpp"

namespace tutti {

/// Sums over the samples of one or more batches. loss and weight: Σ and its divisor; the mean is loss /
/// weight.
struct LossSums {
    double loss = 0, weight = 0;
    std::int64_t correct = 0;

    LossSums& operator+=(const LossSums& other) {
        loss += other.loss;
        weight += other.weight;
        correct += other.correct;
        return *this;
    }
};

/// A loss on the outputs of a model, [N, K], and what they should be, in device memory: labels i64[N], of
/// which the outputs are logits, or targets f32[N, K] (of a location {presence, x, y}, whose outputs are [N,
/// H, W, 2]; of segments two for each second, whose outputs are [N, T, 4]). One thread; nothing is allocated
/// after construction.
class Loss {
  public:
    virtual ~Loss() = default;
    /// Sums over the batch. `gradient` [N, K] is workspace that must stay untouched until backward.
    virtual LossSums forward(const TensorView& outputs, const TensorView& wanted,
                             const TensorView& gradient) = 0;
    /// The same without waiting for the sums, which are then in sums(): f64[3], {Σ loss, Σ weight, correct},
    /// in device memory. At least one sample.
    virtual void issue_forward(const TensorView& outputs, const TensorView& wanted,
                               const TensorView& gradient) = 0;
    virtual TensorView sums() const = 0;
    /// What sums() holds, once it is in the host's memory.
    static LossSums from_sums(const double* sums) {
        return {sums[0], sums[1], static_cast<std::int64_t>(sums[2])};
    }
    /// gradient = scale · d(Σ loss)/d(outputs); scale is 1 / (weight of the whole global batch).
    virtual void backward(const TensorView& wanted, double scale, const TensorView& gradient) = 0;
    /// True when each sample weighs 1: the weight of a global batch is then known without communication.
    virtual bool weight_is_sample_count() const = 0;
};

/// −log softmax(logits)[label], torch.nn.CrossEntropyLoss; with smoothing s in [0, 1]: −Σₖ q[k]·log
/// softmax(logits)[k] with q = (1 − s)·onehot(label) + s/K. class_weights w, of K classes, none negative: −Σₖ
/// w[k]·q[k]·log softmax(logits)[k], summed up and still divided by the number of samples, where PyTorch's
/// mean divides by the weights of the labels that one rank has in this batch: where these are all 0, the loss
/// and its gradient are 0, not 0/0. They are copied. Empty: 1 each.
std::unique_ptr<Loss> make_softmax_cross_entropy(Device& device, DType compute, double label_smoothing = 0,
                                                 std::span<const double> class_weights = {});

/// The mean over a sample's targets of what `kind` makes of output − target: torch.nn.MSELoss, L1Loss,
/// HuberLoss. No sample is correct (LossSums::correct is 0).
std::unique_ptr<Loss> make_regression_loss(Device& device, DType compute, RegressionLoss kind);

/// That of a heat map and the presence of what it is of: outputs [N, H, W, 2], wanted f32[N, 3]. Correct
/// (LossSums::correct) are the samples of which presence was told right.
std::unique_ptr<Loss> make_location_loss(Device& device, DType compute, const LocationLoss& loss);

/// That of the segments of a sequence: outputs [N, T, 4], wanted f32[N, 2·T]. LossSums::correct, a count of
/// samples, has no meaning: each is right in some of its seconds (the sums have the shares of these).
std::unique_ptr<Loss> make_segment_loss(Device& device, DType compute, const SegmentLoss& loss);

/// The mean of the squares of a sample's outputs [N, K], which are differences already: what is wanted is not
/// read. No sample is correct.
std::unique_ptr<Loss> make_mean_square_loss(Device& device, DType compute);

}  // namespace tutti
