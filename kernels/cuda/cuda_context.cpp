#include "cuda_context.hpp"

#include "gpu_error.hpp"

namespace tutti::cuda {
namespace {

/// What cudaMalloc promises, and more than any access needs.
constexpr std::size_t alignment = 256;

std::size_t padded_bytes(const Wanted& wanted) {
    const std::size_t bytes = static_cast<std::size_t>(wanted.shape.count()) * size_of(wanted.dtype);
    return (bytes + alignment - 1) / alignment * alignment;
}

}  // namespace

CudaContext::CudaContext()
    : scratch_("scratch of operators", stream()),
      uploads_("small values from the host", stream()),
      library_workspace_("workspace of cuBLASLt and cuDNN", stream()) {}

CudaContext::~CudaContext() {
    if (cublas_) cublasLtDestroy(cublas_);
    if (cudnn_) cudnnDestroy(cudnn_);
}

void CudaContext::cut(std::span<const Wanted> wanted, std::span<TensorView> tensors) {
    std::size_t total = 0;
    for (const Wanted& one : wanted) total += padded_bytes(one);
    std::byte* next = scratch_.reserve(total);
    for (std::size_t i = 0; i < wanted.size(); ++i) {
        tensors[i] = {next, wanted[i].dtype, wanted[i].shape};
        next += padded_bytes(wanted[i]);
    }
}

TensorView CudaContext::upload(const void* values, DType dtype, const Shape& shape) {
    const TensorView target = uploads_.tensor(dtype, shape);
    // From pageable memory: CUDA has read the source when the call returns (CUDA Runtime API, "API
    // synchronization behavior").
    if (target.bytes() > 0)
        check(cudaMemcpyAsync(target.data, values, target.bytes(), cudaMemcpyHostToDevice, stream()),
              "cudaMemcpyAsync of small values");
    return target;
}

cublasLtContext* CudaContext::cublas() {
    if (!cublas_) check(cublasLtCreate(&cublas_), "cublasLtCreate");
    return cublas_;
}

cudnnContext* CudaContext::cudnn() {
    if (!cudnn_) {
        check(cudnnCreate(&cudnn_), "cudnnCreate");
        check(cudnnSetStream(cudnn_, stream()), "cudnnSetStream");
    }
    return cudnn_;
}

}  // namespace tutti::cuda
