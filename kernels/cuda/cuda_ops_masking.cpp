// What masked pre-training needs.

#include "cuda_ops.hpp"
#include "tutti/base/error.hpp"

namespace tutti::cuda {
namespace {

[[noreturn]] void refuse() {
    throw UsageError("masked pre-training is not there in CUDA yet", "train on the CPU");
}

}  // namespace

void CudaOps::mask_tokens(const DropoutAddress&, const TubeMask&, const TensorView&) {
    refuse();
}
void CudaOps::take_tokens(const TensorView&, const TensorView&, const TensorView&) {
    refuse();
}
void CudaOps::fill_tokens_forward(const TensorView&, const TensorView&, const TensorView&, const TensorView&,
                                  const TensorView&) {
    refuse();
}
void CudaOps::fill_tokens_backward(const TensorView&, const TensorView&, const TensorView&, std::int64_t) {
    refuse();
}
void CudaOps::last_tokens_forward(const TensorView&, const TensorView&) {
    refuse();
}
void CudaOps::last_tokens_backward(const TensorView&, const TensorView&) {
    refuse();
}
void CudaOps::patch_differences(const TensorView&, const TensorView&, const TensorView&, const TensorView&,
                                const TensorView&) {
    refuse();
}

}  // namespace tutti::cuda
