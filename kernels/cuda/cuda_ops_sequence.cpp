// What models of sequences need, attention aside.

#include "columns.hpp"
#include "cuda_ops.hpp"
#include "segment_loss.hpp"

namespace tutti::cuda {

void CudaOps::copy_columns(const TensorView& x, const ColumnRange& columns, const TensorView& y) {
    cuda::copy_columns(x, columns, y, stream());
}

void CudaOps::segment_loss_forward(const TensorView& outputs, const TensorView& wanted,
                                   const SegmentLoss& loss, const TensorView& gradients,
                                   const TensorView& sums) {
    const TensorView workspace = context_->scratch(DType::f64, {2 * outputs.shape[0]});
    cuda::segment_loss_forward(outputs, wanted, workspace, loss, gradients, sums, stream());
}
void CudaOps::segment_loss_backward(const TensorView& gradients, double scale, const TensorView& doutputs) {
    cuda::segment_loss_backward(gradients, context_->loss_scale(scale), doutputs, stream());
}

}  // namespace tutti::cuda
