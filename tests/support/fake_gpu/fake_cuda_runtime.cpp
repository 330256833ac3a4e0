// The CUDA runtime, as far as kernels/cuda calls it.

#include <cuda_runtime_api.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>

#include "fake_capture.hpp"
#include "fake_gpu.hpp"
#include "scheduler.hpp"

struct CUstream_st {
    int number;
};
struct CUevent_st {
    int number;
};

namespace tutti::fake_gpu {
namespace {

struct State : kcpu::LaunchObserver {
    State() { kcpu::observe_launches(this); }

    void begin(const char* kernel, const void* stream) override {
        note(stream, std::string("launch ") + kernel);
        accesses.push_back(std::make_unique<Access>());
    }
    void end() override { accesses.pop_back(); }
    bool postpone(const char* kernel, const void* stream, const std::function<void()>& work) override {
        if (!captures(stream)) return false;
        // A broken capture says so at its end.
        issue(stream, std::string("launch ") + kernel, work);
        return true;
    }

    std::vector<std::string> record;
    std::map<std::string, int> failures;
    int devices = 1, streams = 0, events = 0, open = 0;
    std::map<void*, std::size_t> allocations, page_locked;
    std::vector<std::unique_ptr<Access>> accesses;
};
State& state() {
    static State one;
    return one;
}

std::size_t pages(std::size_t bytes) {
    return (bytes + 4095) / 4096 * 4096;
}

void protect(int how) {
    for (const auto& [data, size] : state().allocations) ::mprotect(data, size, how);
}

}  // namespace

void reset() {
    state().record.clear();
    state().failures.clear();
    state().devices = 1;
    state().streams = state().events = 0;
}
const std::vector<std::string>& record() {
    return state().record;
}
void clear_record() {
    state().record.clear();
}
void fail_next(const std::string& function, int code) {
    state().failures[function] = code;
}
void set_device_count(int count) {
    state().devices = count;
}
std::size_t live_allocations() {
    return state().allocations.size();
}

std::string name_of_stream(const void* stream) {
    return "stream " + std::to_string(stream ? static_cast<const CUstream_st*>(stream)->number : 0);
}
void note(const void* stream, const std::string& what) {
    state().record.push_back(name_of_stream(stream) + ": " + what);
}
void note_host(const std::string& what) {
    state().record.push_back("host: " + what);
}
int failure_of(const std::string& function) {
    const auto found = state().failures.find(function);
    if (found == state().failures.end()) return 0;
    const int code = found->second;
    state().failures.erase(found);
    return code;
}

Access::Access() {
    if (state().open++ == 0) protect(PROT_READ | PROT_WRITE);
}
Access::~Access() {
    if (--state().open == 0) protect(PROT_NONE);
}

}  // namespace tutti::fake_gpu

using namespace tutti::fake_gpu;

namespace {

bool is_page_locked(const void* data) {
    const auto& all = state().page_locked;
    auto next = all.upper_bound(const_cast<void*>(data));
    if (next == all.begin()) return false;
    --next;
    return static_cast<const std::byte*>(data) < static_cast<const std::byte*>(next->first) + next->second;
}

}  // namespace

#define FAIL_IF_ASKED(function) \
    if (const int code = failure_of(function)) return static_cast<cudaError_t>(code)

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
    FAIL_IF_ASKED("cudaGetDeviceCount");
    if (state().devices == 0) return cudaErrorNoDevice;
    *count = state().devices;
    return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
    FAIL_IF_ASKED("cudaSetDevice");
    return device >= 0 && device < state().devices ? cudaSuccess : cudaErrorInvalidDevice;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
    FAIL_IF_ASKED("cudaGetDeviceProperties");
    std::memset(properties, 0, sizeof *properties);
    std::strcpy(properties->name, "fake GPU");
    properties->totalGlobalMem = std::size_t{1} << 30;
    properties->uuid.bytes[0] = static_cast<char>(device + 1);
    return cudaSuccess;
}
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
    *free = std::size_t{12} << 20;
    *total = std::size_t{1} << 30;
    return cudaSuccess;
}

cudaError_t cudaMalloc(void** data, std::size_t bytes) {
    FAIL_IF_ASKED("cudaMalloc");
    const std::size_t size = pages(bytes);
    REFUSE_WHILE_CAPTURED();
    const int how = state().open > 0 ? PROT_READ | PROT_WRITE : PROT_NONE;
    void* memory =
        ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return cudaErrorMemoryAllocation;
    // What was not written shows: NaN in floating point. Not in all of a huge buffer, which tests never fill.
    std::memset(memory, 0xff, std::min<std::size_t>(size, std::size_t{1} << 20));
    ::mprotect(memory, size, how);
    state().allocations[memory] = size;
    *data = memory;
    return cudaSuccess;
}
cudaError_t cudaFree(void* data) {
    if (!data) return cudaSuccess;
    REFUSE_WHILE_CAPTURED();
    const auto found = state().allocations.find(data);
    if (found == state().allocations.end()) return cudaErrorInvalidValue;
    ::munmap(data, found->second);
    state().allocations.erase(found);
    return cudaSuccess;
}

cudaError_t cudaHostAlloc(void** data, std::size_t bytes, unsigned) {
    FAIL_IF_ASKED("cudaHostAlloc");
    REFUSE_WHILE_CAPTURED();
    *data = std::aligned_alloc(4096, pages(bytes));
    if (*data) state().page_locked[*data] = pages(bytes);
    return *data ? cudaSuccess : cudaErrorMemoryAllocation;
}
cudaError_t cudaFreeHost(void* data) {
    REFUSE_WHILE_CAPTURED();
    state().page_locked.erase(data);
    std::free(data);
    return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void* data, int value, std::size_t bytes, cudaStream_t stream) {
    FAIL_IF_ASKED("cudaMemsetAsync");
    return static_cast<cudaError_t>(
        issue(stream, "set " + std::to_string(bytes) + " bytes", [=] { std::memset(data, value, bytes); }));
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
    FAIL_IF_ASKED("cudaMemcpyAsync");
    const void* const host = kind == cudaMemcpyHostToDevice   ? from
                             : kind == cudaMemcpyDeviceToHost ? to
                                                              : nullptr;
    // From and to ordinary memory the call waits.
    if (captures(stream) && host && !is_page_locked(host)) REFUSE_WHILE_CAPTURED();
    return static_cast<cudaError_t>(issue(stream,
                                          "copy " + std::to_string(bytes) + " bytes " +
                                              (kind == cudaMemcpyHostToDevice   ? "to the device"
                                               : kind == cudaMemcpyDeviceToHost ? "to the host"
                                                                                : "within the device"),
                                          [=] { std::memcpy(to, from, bytes); }));
}

cudaError_t cudaMemset(void* data, int value, std::size_t bytes) {
    return cudaMemsetAsync(data, value, bytes, nullptr);
}
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
    return cudaMemcpyAsync(to, from, bytes, kind, nullptr);
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
    *least = 0;
    *greatest = -5;
    return cudaSuccess;
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned, int) {
    FAIL_IF_ASKED("cudaStreamCreateWithPriority");
    *stream = new CUstream_st{++state().streams};
    return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    delete stream;
    return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    FAIL_IF_ASKED("cudaStreamSynchronize");
    if (captures(stream)) REFUSE_WHILE_CAPTURED();
    note_host("wait for " + name_of_stream(stream));
    return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
    FAIL_IF_ASKED("cudaStreamWaitEvent");
    if (const auto status = captured_wait(stream, event)) return static_cast<cudaError_t>(*status);
    note(stream, "wait for event " + std::to_string(event->number));
    return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t* event) {
    return cudaEventCreateWithFlags(event, 0);
}
cudaError_t cudaEventElapsedTime(float*, cudaEvent_t, cudaEvent_t) {
    return cudaErrorNotSupported;  // nothing here has a speed
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
    *event = new CUevent_st{++state().events};
    return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
    forget_event(event);
    delete event;
    return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
    FAIL_IF_ASKED("cudaEventRecord");
    if (captured_record(stream, event)) return cudaSuccess;
    note(stream, "record event " + std::to_string(event->number));
    return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
    FAIL_IF_ASKED("cudaEventQuery");
    if (is_captured(event)) return cudaErrorCapturedEvent;
    return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
    FAIL_IF_ASKED("cudaEventSynchronize");
    if (is_captured(event)) return cudaErrorCapturedEvent;
    note_host("wait for event " + std::to_string(event->number));
    return cudaSuccess;
}

// The names that the tests meet; the real ones come from the driver's runtime.
const char* cudaGetErrorName(cudaError_t error) {
    switch (error) {
        case cudaErrorMemoryAllocation:
            return "cudaErrorMemoryAllocation";
        case cudaErrorInvalidDevice:
            return "cudaErrorInvalidDevice";
        case cudaErrorIllegalAddress:
            return "cudaErrorIllegalAddress";
        case cudaErrorStreamCaptureUnsupported:
            return "cudaErrorStreamCaptureUnsupported";
        case cudaErrorStreamCaptureInvalidated:
            return "cudaErrorStreamCaptureInvalidated";
        case cudaErrorStreamCaptureUnjoined:
            return "cudaErrorStreamCaptureUnjoined";
        case cudaErrorInsufficientDriver:
            return "cudaErrorInsufficientDriver";
        default:
            return "another CUDA error";
    }
}
const char* cudaGetErrorString(cudaError_t) {
    return "as the fake was asked";
}

}  // extern "C"
