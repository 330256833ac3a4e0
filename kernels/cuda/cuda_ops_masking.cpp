// What masked pre-training needs.

#include "arena_ops.hpp"
#include "cuda_ops.hpp"
#include "masking.hpp"

namespace tutti::cuda {

void CudaOps::mask_tokens(const DropoutAddress& address, const TubeMask& mask, const TensorView& order) {
    const auto [epoch, positions] = context_->random_places(address.epoch, address.positions);
    cuda::mask_tokens({address.seed, address.layer, epoch, positions}, mask, order, stream());
}
void CudaOps::running_cells(const DropoutAddress& address, const TubeMask& mask, const RunningCells& cells,
                            const TensorView& order, const TensorView& decoded) {
    const auto [epoch, positions] = context_->random_places(address.epoch, address.positions);
    cuda::running_cells({address.seed, address.layer, epoch, positions}, mask, cells, order, decoded,
                        stream());
}
void CudaOps::take_tokens(const TensorView& x, const TensorView& order, const TensorView& y) {
    cuda::take_tokens(x, order, y, stream());
}

void CudaOps::fill_tokens_forward(const TensorView& x, const TensorView& mask_token,
                                  const TensorView& positions, const TensorView& order, const TensorView& y) {
    // Parameters may be f32, the kernel adds like to like.
    const auto wanted = [&](const TensorView& given) {
        return Wanted{y.dtype, given.defined() && given.dtype != y.dtype ? given.shape : Shape{0}};
    };
    const auto scratch = context_->scratch({wanted(mask_token), wanted(positions)});
    const auto rounded = [&](const TensorView& given, const TensorView& place) {
        if (!given.defined() || given.dtype == y.dtype) return given;
        cast(given, place, stream());
        return place;
    };
    cuda::fill_tokens_forward(x, rounded(mask_token, scratch[0]), rounded(positions, scratch[1]), order, y,
                              stream());
}
void CudaOps::fill_tokens_backward(const TensorView& dy, const TensorView& dx, const TensorView& dmask_token,
                                   std::int64_t visible) {
    const TensorView workspace = context_->scratch(DType::f64, {fill_tokens_workspace(dy, visible)});
    cuda::fill_tokens_backward(dy, workspace, dx, dmask_token, visible, stream());
}

void CudaOps::last_tokens_forward(const TensorView& x, const TensorView& y) {
    cuda::last_tokens_forward(x, y, stream());
}
void CudaOps::last_tokens_backward(const TensorView& dy, const TensorView& dx) {
    cuda::last_tokens_backward(dy, dx, stream());
}

void CudaOps::patch_differences(const TensorView& prediction, const TensorView& patches,
                                const TensorView& order, const TensorView& epsilon,
                                const TensorView& differences) {
    cuda::patch_differences(prediction, patches, order, epsilon, differences, stream());
}

}  // namespace tutti::cuda
