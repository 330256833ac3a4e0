// What the trainer does with whole arenas and flat views.

#include "arena_ops.hpp"
#include "cuda_ops.hpp"
#include "elementwise.hpp"
#include "gpu_error.hpp"
#include "segment_updates.hpp"
#include "sum_of_squares.hpp"

namespace tutti::cuda {

void CudaOps::fill(const TensorView& x, double value) {
    cuda::fill(x, value, stream());
}
void CudaOps::copy(const TensorView& x, const TensorView& y) {
    assert(x.bytes() == y.bytes());
    if (x.data == y.data || x.bytes() == 0) return;
    check(cudaMemcpyAsync(y.data, x.data, x.bytes(), cudaMemcpyDeviceToDevice, stream()),
          "cudaMemcpyAsync within the GPU");
}
void CudaOps::round_for_products(const TensorView& x, const TensorView& y) {
    if (x.dtype == y.dtype) return copy(x, y);
    cast(x, y, stream());
}
void CudaOps::sum(const TensorView& a, const TensorView& b, const TensorView& y) {
    cuda::sum(a, b, y, stream());
}
void CudaOps::add(const TensorView& x, const TensorView& y) {
    if (y.dtype == DType::f32) return accumulate(x, y, stream());
    cuda::sum(x, y, y, stream());
}
void CudaOps::scale(double factor, const TensorView& x) {
    cuda::scale(context_->upload(std::span<const double>(&factor, 1)), x, stream());
}
void CudaOps::lerp(double weight, const TensorView& x, const TensorView& y) {
    context_->forbid_recording("lerp");
    cuda::lerp(weight, x, y, stream());
}
void CudaOps::swap(const TensorView& x, const TensorView& y) {
    cuda::swap(x, y, stream());
}
void CudaOps::sum_of_squares(const TensorView& x, const TensorView& sum) {
    const TensorView workspace = context_->scratch(DType::f64, {sum_of_squares_workspace(x.count())});
    cuda::sum_of_squares(x, workspace, sum, stream());
}

void CudaOps::sgd(const SgdStep& step, const TensorView& gradient, const TensorView& parameter,
                  const TensorView& momentum_buffer) {
    context_->forbid_recording("the update of sgd");
    cuda::sgd(step, gradient, parameter, momentum_buffer, stream());
}
void CudaOps::adam(const AdamStep& step, const TensorView& gradient, const TensorView& parameter,
                   const TensorView& first_moment, const TensorView& second_moment) {
    context_->forbid_recording("the update of adam");
    cuda::adam(step, gradient, parameter, first_moment, second_moment, stream());
}
void CudaOps::adadelta(const AdadeltaStep& step, const TensorView& gradient, const TensorView& parameter,
                       const TensorView& square_average, const TensorView& delta_average) {
    context_->forbid_recording("the update of adadelta");
    cuda::adadelta(step, gradient, parameter, square_average, delta_average, stream());
}
void CudaOps::lamb_direction(const LambStep& step, const TensorView& gradient, const TensorView& parameter,
                             const TensorView& first_moment, const TensorView& second_moment,
                             const TensorView& update) {
    context_->forbid_recording("the update of lamb");
    cuda::lamb_direction(step, gradient, parameter, first_moment, second_moment, update, stream());
}
void CudaOps::lamb_apply(double lr, const TensorView& squares, const TensorView& update,
                         const TensorView& parameter) {
    context_->forbid_recording("the update of lamb");
    cuda::lamb_apply(lr, squares, update, parameter, stream());
}

}  // namespace tutti::cuda
