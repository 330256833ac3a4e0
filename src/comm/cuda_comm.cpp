// Compiled into libtutti_cuda.so. Not yet run on hardware.
#include "cuda_comm.hpp"

#include <cuda_runtime_api.h>

#include <array>
#include <cstring>
#include <exception>
#include <string>
#include <utility>

#include "tutti/base/error.hpp"
#include "tutti/comm/gpu_placement.hpp"

#define EXPORTED __attribute__((visibility("default")))

namespace tutti {
namespace {

/// CUDA keeps an error to tell it to who next asks whether a launch failed: not this one, which is told here
/// or is none.
bool succeeded(cudaError_t status) {
    if (status == cudaSuccess) return true;
    cudaGetLastError();
    return false;
}

void must(cudaError_t status, const char* call) {
    if (succeeded(status)) return;
    throw RunError(
        std::string(call) + " failed: " + cudaGetErrorName(status) + ", " + cudaGetErrorString(status),
        "nvidia-smi shows whether the GPU is well and has memory left");
}

cudaStream_t cuda(GpuStream stream) {
    return static_cast<cudaStream_t>(stream);
}

/// A point in a stream; without timing, which makes it cheap.
class Event {
  public:
    explicit Event(cudaStream_t stream) {
        must(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "cudaEventCreateWithFlags");
        must(cudaEventRecord(event_, stream), "cudaEventRecord");
    }
    ~Event() { cudaEventDestroy(event_); }
    Event(const Event&) = delete;
    Event& operator=(const Event&) = delete;

    bool reached() const {
        const cudaError_t status = cudaEventQuery(event_);
        if (status != cudaErrorNotReady) must(status, "cudaEventQuery");
        return succeeded(status);
    }
    /// What is issued to `stream` from now on waits for the point.
    void hold_back(cudaStream_t stream) const {
        must(cudaStreamWaitEvent(stream, event_, 0), "cudaStreamWaitEvent");
    }

  private:
    cudaEvent_t event_ = nullptr;
};

class OwnedStream {
  public:
    OwnedStream() {
        int least = 0, greatest = 0;
        must(cudaDeviceGetStreamPriorityRange(&least, &greatest), "cudaDeviceGetStreamPriorityRange");
        must(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, greatest),
             "cudaStreamCreateWithPriority");
    }
    ~OwnedStream() { cudaStreamDestroy(stream_); }
    OwnedStream(const OwnedStream&) = delete;
    OwnedStream& operator=(const OwnedStream&) = delete;
    cudaStream_t get() const { return stream_; }

  private:
    cudaStream_t stream_ = nullptr;
};

class CudaMark final : public GpuMark {
  public:
    explicit CudaMark(cudaStream_t stream) : event_(stream) {}
    bool reached() override { return event_.reached(); }
    const Event& event() const { return event_; }

  private:
    Event event_;
};

class CudaSideStream final : public GpuSideStream {
  public:
    explicit CudaSideStream(cudaStream_t compute) : compute_(compute) {}
    std::shared_ptr<GpuSideStream> duplicate() override { return std::make_shared<CudaSideStream>(compute_); }
    GpuStream handle() const override { return stream_.get(); }
    void follow_compute() override { Event(compute_).hold_back(stream_.get()); }
    std::unique_ptr<GpuMark> mark() override { return std::make_unique<CudaMark>(stream_.get()); }
    void compute_follows(GpuMark& mark) override { static_cast<CudaMark&>(mark).event().hold_back(compute_); }
    bool recording() const override {
        cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
        must(cudaStreamIsCapturing(compute_, &status), "cudaStreamIsCapturing");
        return status != cudaStreamCaptureStatusNone;
    }
    std::unique_ptr<GpuMark> mark_compute() override { return std::make_unique<CudaMark>(compute_); }

  private:
    cudaStream_t compute_;
    OwnedStream stream_;
};

class CudaStaging final : public HostStaging {
  public:
    explicit CudaStaging(cudaStream_t compute) : compute_(compute) {}

    Buffer host_memory(std::size_t bytes) override {
        void* memory = nullptr;
        must(cudaHostAlloc(&memory, bytes, cudaHostAllocDefault), "cudaHostAlloc");
        return {static_cast<std::byte*>(memory), bytes,
                [](std::byte* data, std::size_t) noexcept { cudaFreeHost(data); }};
    }
    void to_host(std::byte* host, const TensorView& device) override {
        Event(compute_).hold_back(stream_.get());
        copy(host, device.data, device.bytes(), cudaMemcpyDeviceToHost);
    }
    void to_device(const TensorView& device, const std::byte* host) override {
        // The computing stream may still read what is overwritten; the host waits for the copy, so all that
        // is issued later is behind it.
        Event(compute_).hold_back(stream_.get());
        copy(device.data, host, device.bytes(), cudaMemcpyHostToDevice);
    }

  private:
    void copy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
        must(cudaMemcpyAsync(to, from, bytes, kind, stream_.get()), "cudaMemcpyAsync");
        must(cudaStreamSynchronize(stream_.get()), "cudaStreamSynchronize");
    }

    cudaStream_t compute_;
    OwnedStream stream_;
};

template <class Made>
auto* made_or_null(GpuStream compute, const char** problem) {
    static std::string text;
    *problem = nullptr;
    Made* made = nullptr;
    try {
        made = new Made(cuda(compute));
    } catch (const std::exception& error) {
        text = error.what();
        *problem = text.c_str();
    }
    return made;
}

}  // namespace
}  // namespace tutti

EXPORTED const char* tutti_cuda_visible_gpus() {
    static std::string lines;
    lines.clear();
    int count = 0;  // left untouched where there is no driver
    if (!tutti::succeeded(cudaGetDeviceCount(&count))) count = 0;
    for (int device = 0; device < count; ++device) {
        cudaDeviceProp properties;
        if (!tutti::succeeded(cudaGetDeviceProperties(&properties, device))) return "";
        std::array<std::byte, 16> bytes;
        static_assert(sizeof properties.uuid == sizeof bytes);
        std::memcpy(bytes.data(), &properties.uuid, sizeof bytes);
        lines += (lines.empty() ? "" : "\n") + tutti::gpu_uuid_text(bytes);
    }
    return lines.c_str();
}

EXPORTED tutti::GpuSideStream* tutti_cuda_make_side_stream(tutti::GpuStream compute, const char** problem) {
    return tutti::made_or_null<tutti::CudaSideStream>(compute, problem);
}

EXPORTED tutti::HostStaging* tutti_cuda_make_staging(tutti::GpuStream compute, const char** problem) {
    return tutti::made_or_null<tutti::CudaStaging>(compute, problem);
}
