// The CUDA runtime, as far as kernels/cuda calls it.

#include <cuda_runtime_api.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "device_pages.hpp"
#include "fake_capture.hpp"
#include "fake_gpu.hpp"
#include "scheduler.hpp"
#include "work_queue.hpp"

struct CUstream_st {
    int number;
    std::shared_ptr<tutti::fake_gpu::WorkQueue> queue;
};
struct CUevent_st {
    int number;
    tutti::fake_gpu::Point point;
    bool timed = false;
    /// When its last record was reached, by the host that does the work.
    std::shared_ptr<std::chrono::steady_clock::time_point> passed{};
};

namespace tutti::fake_gpu {
namespace {

struct State : kcpu::LaunchObserver {
    State() { kcpu::observe_launches(this); }

    void launch(const char* kernel, const void* stream, std::function<void()> work) override {
        // A broken capture says so at its end.
        fake_gpu::issue(stream, std::string("launch ") + kernel, std::move(work));
    }
    /// Whether what was just recorded is a wait that is to have no effect.
    bool forgotten() const {
        return !forgotten_wait.empty() && record.back().find(forgotten_wait) != std::string::npos;
    }
    bool is_pinned(const void* data) const {
        const auto next = pinned.upper_bound(static_cast<const std::byte*>(data));
        return next != pinned.begin() &&
               static_cast<const std::byte*>(data) < std::prev(next)->first + std::prev(next)->second;
    }
    void finish_all() const {
        for (const CUstream_st* stream : open_streams) stream->queue->reach(stream->queue->end());
    }

    std::vector<std::string> record;
    int last_error = 0;
    std::map<std::string, int> failures;
    int devices = 1, streams = 0, events = 0;
    bool unlike = false;
    DevicePages memory;
    std::map<const std::byte*, std::size_t> pinned;
    std::set<CUstream_st*> open_streams;
    std::set<int> held_back;
    std::string forgotten_wait;
    std::size_t cudnn_version = 91900;
    int shared_memory = 227 << 10;
    std::map<std::string, double> slow;              // engines
    std::map<std::string, std::int64_t> workspaces;  // engines
    double spent = 0;
};
State& state() {
    static State one;
    return one;
}

std::size_t pages(std::size_t bytes) {
    return (bytes + 4095) / 4096 * 4096;
}

}  // namespace

void reset() {
    state().record.clear();
    state().failures.clear();
    state().last_error = 0;
    state().devices = 1;
    state().unlike = false;
    state().cudnn_version = 91900;
    state().shared_memory = 227 << 10;
    state().streams = state().events = 0;
    state().forgotten_wait.clear();
    state().slow.clear();
    state().spent = 0;
    hold_back({});
}
void hold_back(const std::set<int>& streams) {
    state().held_back = streams;
    for (const CUstream_st* stream : state().open_streams)
        stream->queue->hold_back(streams.contains(stream->number));
}
void forget_waits(const std::string& line) {
    state().forgotten_wait = line;
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
void set_cudnn_version(std::size_t version) {
    state().cudnn_version = version;
}
void set_shared_memory(int bytes) {
    state().shared_memory = bytes;
}
void slow_down(const std::string& engine, double seconds) {
    state().slow[engine] = seconds;
}
void set_workspace(const std::string& engine, std::int64_t bytes) {
    state().workspaces[engine] = bytes;
}
std::int64_t workspace_of(const std::string& engine) {
    const auto found = state().workspaces.find(engine);
    return found == state().workspaces.end() ? 1024 : found->second;
}
double spent() {
    return state().spent;
}
void spend(const std::string& engine) {
    if (const auto found = state().slow.find(engine); found != state().slow.end())
        state().spent += found->second;
}
std::size_t cudnn_version() {
    return state().cudnn_version;
}
void make_devices_unlike() {
    state().unlike = true;
}
std::size_t live_allocations() {
    return state().memory.live().size();
}

std::size_t live_bytes() {
    std::size_t total = 0;
    for (const auto& one : state().memory.live()) total += one.second;
    return total;
}

std::string name_of_stream(const void* stream) {
    return "stream " + std::to_string(stream ? static_cast<const CUstream_st*>(stream)->number : 0);
}
void enqueue(const void* stream, const void* shown_as, const std::string& what, std::function<void()> work) {
    state().record.push_back(name_of_stream(shown_as) + ": " + what);
    auto touching = [work = std::move(work)] {
        const Access access;
        work();
    };
    if (stream)
        static_cast<const CUstream_st*>(stream)->queue->add(std::move(touching));
    else
        touching();
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

int kept(int code) {
    state().last_error = code;
    return code;
}

Access::Access() {
    state().memory.open();
}
Access::~Access() {
    state().memory.shut();
}

}  // namespace tutti::fake_gpu

using namespace tutti::fake_gpu;

#define FAIL_IF_ASKED(function) \
    if (const int code = failure_of(function)) return static_cast<cudaError_t>(kept(code))

extern "C" {

cudaError_t cudaGetLastError() {
    return static_cast<cudaError_t>(std::exchange(state().last_error, 0));
}
cudaError_t cudaGetDeviceCount(int* count) {
    FAIL_IF_ASKED("cudaGetDeviceCount");
    if (state().devices == 0) return cudaErrorNoDevice;
    *count = state().devices;
    return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) {
    *version = 12080;
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
    properties->multiProcessorCount = 4 + (state().unlike ? device : 0);
    return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
    FAIL_IF_ASKED("cudaGetDevice");
    *device = 0;
    return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
    FAIL_IF_ASKED("cudaDeviceGetAttribute");
    if (attribute == cudaDevAttrMaxSharedMemoryPerBlockOptin)
        *value = state().shared_memory;
    else if (attribute == cudaDevAttrL2CacheSize)
        *value = 64 << 10;
    else
        return cudaErrorInvalidValue;
    return cudaSuccess;
}
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
    *free = std::size_t{12} << 20;
    *total = std::size_t{1} << 30;
    return cudaSuccess;
}

cudaError_t cudaMalloc(void** data, std::size_t bytes) {
    FAIL_IF_ASKED("cudaMalloc");
    REFUSE_WHILE_CAPTURED();
    std::byte* const memory = state().memory.allocate(pages(bytes));
    if (!memory) return cudaErrorMemoryAllocation;
    *data = memory;
    return cudaSuccess;
}
cudaError_t cudaFree(void* data) {
    if (!data) return cudaSuccess;
    REFUSE_WHILE_CAPTURED();
    state().finish_all();
    return state().memory.free(static_cast<std::byte*>(data)) ? cudaSuccess : cudaErrorInvalidValue;
}

cudaError_t cudaHostAlloc(void** data, std::size_t bytes, unsigned) {
    FAIL_IF_ASKED("cudaHostAlloc");
    REFUSE_WHILE_CAPTURED();
    *data = std::aligned_alloc(4096, pages(bytes));
    if (!*data) return cudaErrorMemoryAllocation;
    state().pinned[static_cast<const std::byte*>(*data)] = pages(bytes);
    return cudaSuccess;
}
cudaError_t cudaFreeHost(void* data) {
    REFUSE_WHILE_CAPTURED();
    state().pinned.erase(static_cast<const std::byte*>(data));
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
    // From and to ordinary memory the call may wait.
    if (captures(stream) && host && !state().is_pinned(host)) REFUSE_WHILE_CAPTURED();
    const std::string what = "copy " + std::to_string(bytes) + " bytes " +
                             (kind == cudaMemcpyHostToDevice   ? "to the device"
                              : kind == cudaMemcpyDeviceToHost ? "to the host"
                                                               : "within the device");
    // Also from and to ordinary memory as late as may be: there the call "might be synchronous" (CUDA Runtime
    // API, "API synchronization behavior"), and nobody may rely on it.
    return static_cast<cudaError_t>(issue(stream, what, [=] { std::memcpy(to, from, bytes); }));
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
    *stream = new CUstream_st{++state().streams, std::make_shared<WorkQueue>()};
    (*stream)->queue->hold_back(state().held_back.contains((*stream)->number));
    state().open_streams.insert(*stream);
    return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    stream->queue->hold_back(false);
    state().open_streams.erase(stream);
    delete stream;
    return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    FAIL_IF_ASKED("cudaStreamSynchronize");
    REFUSE_WHILE_CAPTURED();
    note_host("wait for " + name_of_stream(stream));
    if (stream && !state().forgotten()) stream->queue->reach(stream->queue->end());
    return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
    FAIL_IF_ASKED("cudaStreamWaitEvent");
    if (const auto status = captured_wait(stream, event)) return static_cast<cudaError_t>(*status);
    state().record.push_back(name_of_stream(stream) + ": wait for event " + std::to_string(event->number));
    if (stream && !state().forgotten()) stream->queue->add([point = event->point] { point.reach(); });
    return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t* event) {
    return cudaEventCreateWithFlags(event, cudaEventDefault);
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t from, cudaEvent_t to) {
    FAIL_IF_ASKED("cudaEventElapsedTime");
    for (const cudaEvent_t event : {from, to}) {
        if (!event->timed || !event->passed)
            return static_cast<cudaError_t>(kept(cudaErrorInvalidResourceHandle));
        if (!event->point.reached()) return static_cast<cudaError_t>(kept(cudaErrorNotReady));
    }
    *milliseconds = std::chrono::duration<float, std::milli>(*to->passed - *from->passed).count();
    return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
    *event = new CUevent_st{++state().events, {}, (flags & cudaEventDisableTiming) == 0};
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
    state().record.push_back(name_of_stream(stream) + ": record event " + std::to_string(event->number));
    if (event->timed) {
        event->passed = std::make_shared<std::chrono::steady_clock::time_point>();
        const auto pass = [passed = event->passed] {
            const std::chrono::duration<double> spent(state().spent);
            *passed = std::chrono::steady_clock::now() +
                      std::chrono::duration_cast<std::chrono::steady_clock::duration>(spent);
        };
        if (stream)
            stream->queue->add(pass);
        else
            pass();
    }
    event->point = stream ? Point{stream->queue, stream->queue->end()} : Point{};
    return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
    FAIL_IF_ASKED("cudaEventQuery");
    if (is_captured(event)) return cudaErrorCapturedEvent;
    // Of any event, by the thread that captures.
    REFUSE_WHILE_CAPTURED();
    if (event->point.reached()) return cudaSuccess;
    // So that who polls gets there.
    event->point.queue->advance();
    return static_cast<cudaError_t>(kept(cudaErrorNotReady));
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
    FAIL_IF_ASKED("cudaEventSynchronize");
    if (is_captured(event)) return cudaErrorCapturedEvent;
    REFUSE_WHILE_CAPTURED();
    note_host("wait for event " + std::to_string(event->number));
    if (!state().forgotten()) event->point.reach();
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
