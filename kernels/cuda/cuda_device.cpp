#include "cuda_device.hpp"

#include "cuda_marks.hpp"
#include "cuda_ops.hpp"
#include "cuda_recorder.hpp"
#include "cuda_upload_lane.hpp"
#include "gpu_error.hpp"

namespace tutti::cuda {
namespace {

/// Makes GPU `index` this thread's, and describes it.
std::string take(int index) {
    const std::string which = " for GPU " + std::to_string(index);
    check(cudaSetDevice(index), "cudaSetDevice" + which);
    cudaDeviceProp properties{};
    check(cudaGetDeviceProperties(&properties, index), "cudaGetDeviceProperties" + which);
    const std::size_t version = cudnnGetVersion();  // 91900 is 9.19.0 (cudnn_version.h)
    return std::string(properties.name) + ", " + std::to_string(properties.totalGlobalMem >> 20) +
           " MiB, cuDNN " + std::to_string(version / 10000) + '.' + std::to_string(version / 100 % 100) +
           '.' + std::to_string(version % 100);
}

}  // namespace

CudaDevice::CudaDevice(int index) : description_(take(index)), context_(std::make_shared<CudaContext>()) {}

Buffer CudaDevice::allocate(std::size_t bytes, const std::string& purpose) {
    auto memory = std::make_shared<DeviceMemory>(bytes, purpose);
    std::byte* const data = memory->data();
    if (bytes > 0) check(cudaMemsetAsync(data, 0, bytes, compute_stream()), "cudaMemsetAsync for " + purpose);
    return {data, bytes, std::move(memory)};
}

void CudaDevice::copy_from_host(const TensorView& device, const void* host) {
    if (device.bytes() == 0) return;
    check(cudaMemcpyAsync(device.data, host, device.bytes(), cudaMemcpyHostToDevice, compute_stream()),
          "cudaMemcpyAsync to the GPU");
    context_->compute().synchronize();
}
void CudaDevice::copy_to_host(void* host, const TensorView& device) {
    if (device.bytes() == 0) return;
    check(cudaMemcpyAsync(host, device.data, device.bytes(), cudaMemcpyDeviceToHost, compute_stream()),
          "cudaMemcpyAsync from the GPU");
    context_->compute().synchronize();
}

void CudaDevice::begin_step() {
    if (EngineTrials* const trials = context_->trials()) trials->tell_when_over();
}

std::unique_ptr<DeviceMarks> CudaDevice::make_marks() {
    return std::make_unique<CudaMarks>(context_);
}

WorkRecorder* CudaDevice::recorder() {
    if (!recorder_) recorder_ = make_recorder(context_);
    return recorder_.get();
}

Buffer CudaDevice::allocate_host(std::size_t bytes, const std::string& purpose) {
    auto memory = std::make_shared<PinnedMemory>(bytes, purpose);
    std::byte* const data = memory->data();
    return {data, bytes, std::move(memory)};
}

std::unique_ptr<UploadLane> CudaDevice::make_upload_lane(std::span<const UploadPart> parts) {
    return std::make_unique<CudaUploadLane>(context_, parts);
}

std::size_t CudaDevice::upload_lane_bytes(std::span<const UploadPart> parts) const {
    return CudaUploadLane::bytes(parts);
}

Ops& CudaDevice::ops(Arithmetic arithmetic) {
    const auto made = [&](std::unique_ptr<Ops>& ops, ProductType products) -> Ops& {
        if (!ops) ops = std::make_unique<CudaOps>(context_, products);
        return *ops;
    };
    if (arithmetic == Arithmetic(DType::f32)) return made(fp32_, ProductType::fp32);
    if (arithmetic == Arithmetic::tf32()) return made(tf32_, ProductType::tf32);
    if (arithmetic == Arithmetic(DType::f32, DType::bf16)) return made(bf16_, ProductType::bf16);
    throw UsageError("arithmetic in " + std::string(name_of(arithmetic.compute)) + " on the GPU",
                     "set train.precision to fp32, tf32 or bf16, or device: cpu");
}

}  // namespace tutti::cuda
