#include "cuda_context.hpp"

#include <vector>

#include "gpu_error.hpp"

namespace tutti::cuda {
namespace {

std::size_t padded_bytes(const Wanted& wanted) {
    return with_padding(static_cast<std::size_t>(wanted.shape.count()) * size_of(wanted.dtype));
}

std::size_t shared_memory_of_a_block() {
    int device = 0, bytes = 0;
    check(cudaGetDevice(&device), "cudaGetDevice");
    check(cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device),
          "cudaDeviceGetAttribute");
    return static_cast<std::size_t>(bytes);
}

}  // namespace

CudaContext::CudaContext()
    : shared_memory_(shared_memory_of_a_block()),
      scratch_("scratch of operators", stream()),
      patches_("patches of images", stream()),
      uploaded_("small values from the host", stream()),
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
    forbid_recording("an operator");
    const TensorView target = uploaded_.tensor(dtype, shape);
    if (target.bytes() > 0) uploads_.send(values, target.data, target.bytes(), stream());
    return target;
}

RandomPlaces CudaContext::random_places(std::int64_t epoch, std::span<const std::int64_t> positions) {
    if (recorded_) {
        const RunValues& given = recorded_->given;
        if (epoch != given.epoch || positions.data() != given.positions.data() ||
            positions.size() != given.positions.size())
            forbid_recording("an operator that draws for other samples");
        return recorded_->places;
    }
    // One upload: the epoch, then the positions.
    std::vector<std::int64_t> values{epoch};
    values.insert(values.end(), positions.begin(), positions.end());
    const TensorView uploaded = upload(std::span<const std::int64_t>(values));
    return {
        {uploaded.data, DType::i64, {1}},
        {uploaded.data + sizeof(std::int64_t), DType::i64, {static_cast<std::int64_t>(positions.size())}}};
}

TensorView CudaContext::loss_scale(double scale) {
    if (!recorded_) return upload(std::span<const double>(&scale, 1));
    if (scale != recorded_->given.loss_scale) forbid_recording("a loss with another scale");
    return recorded_->loss_scale;
}

void CudaContext::set_trials(bool wanted) {
    trials_ =
        wanted ? std::make_unique<EngineTrials>(stream(), [this](const std::string& text) { notice(text); })
               : nullptr;
}

void CudaContext::forbid_recording(const char* what) const {
    if (recorded_)
        throw RunError(
            std::string(what) +
            " takes numbers from the host, which would be the same at every run of a recorded step");
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
