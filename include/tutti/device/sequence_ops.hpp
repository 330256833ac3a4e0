#pragma once
// The part of the arithmetic contract that models of sequences with several features need. The conventions of
// ops.hpp hold.

#include <cstdint>

#include "tutti/device/segment_loss.hpp"
#include "tutti/device/tensor_view.hpp"

namespace tutti {

/// `count` neighbouring columns (of the last dimension), from where in x to where in y.
struct ColumnRange {
    std::int64_t from = 0, to = 0, count = 0;
};

class SequenceOps {
  public:
    virtual ~SequenceOps() = default;

    /// y[…, to + i] = x[…, from + i], i < count; the other columns of y are left as they are. x: [N, …, C];
    /// y: [N, …, D], of as many rows. Each may be T or of the type of activations(); rounded where y is
    /// narrower.
    virtual void copy_columns(const TensorView& x, const ColumnRange& columns, const TensorView& y) = 0;

    /// The loss of SegmentLoss, of outputs[N, S, 4] and wanted (f32[N, 2·S]) with S seconds. gradients
    /// [N, S, 4] gets the gradient of each sample's loss, 0 in m's place; it may be outputs. sums (f64[3])
    /// gets {Σ over samples of the loss, N, Σ over samples of the share of existing seconds for which z > 0
    /// says c, 0 of none}; samples in order, in double.
    virtual void segment_loss_forward(const TensorView& outputs, const TensorView& wanted,
                                      const SegmentLoss& loss, const TensorView& gradients,
                                      const TensorView& sums) = 0;
    /// doutputs = scale · gradients; it may be gradients.
    virtual void segment_loss_backward(const TensorView& gradients, double scale,
                                       const TensorView& doutputs) = 0;
};

}  // namespace tutti
