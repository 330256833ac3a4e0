// Stream capture and graphs, one capture at a time (CUDA Programming Guide, "CUDA Graphs"): what CUDA refuses
// while it captures is refused, and breaks the capture, as there.

#include "fake_capture.hpp"

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "fake_gpu.hpp"

namespace tutti::fake_gpu {
namespace {

/// How much of each stream is known to be done.
using Clock = std::map<const void*, int>;

struct Operation {
    const void* stream;
    std::string what;
    std::function<void()> work;
};

struct Capture {
    const void* origin;
    cudaError_t broken = cudaSuccess;
    std::map<const void*, Clock> streams;
    std::vector<Operation> operations;
};

struct Captures {
    std::unique_ptr<Capture> active;
    int number = 0;                                       // of the active capture, or the last
    std::map<const void*, std::pair<int, Clock>> events;  // by event: its capture, and its place there
};
Captures& all() {
    static Captures one;
    return one;
}

cudaError_t break_with(cudaError_t reason) {
    if (all().active->broken == cudaSuccess) all().active->broken = reason;
    return static_cast<cudaError_t>(kept(reason));
}

void merge(Clock& into, const Clock& other) {
    for (const auto& [stream, count] : other) into[stream] = std::max(into[stream], count);
}

}  // namespace

bool captures(const void* stream) {
    return all().active && all().active->streams.count(stream) > 0;
}

cudaError_t refused_while_captured() {
    return all().active ? break_with(cudaErrorStreamCaptureUnsupported) : cudaSuccess;
}

int issue(const void* stream, const std::string& what, std::function<void()> work) {
    Capture* const active = all().active.get();
    if (captures(stream)) {
        if (active->broken != cudaSuccess) return cudaErrorStreamCaptureInvalidated;
        ++active->streams[stream][stream];
        active->operations.push_back({stream, what, std::move(work)});
        return cudaSuccess;
    }
    // The legacy stream waits for all others.
    if (active && !stream) return break_with(cudaErrorStreamCaptureImplicit);
    enqueue(stream, stream, what, std::move(work));
    return cudaSuccess;
}

bool captured_record(cudaStream_t stream, cudaEvent_t event) {
    forget_event(event);
    if (!captures(stream)) return false;
    all().events[event] = {all().number, all().active->streams[stream]};
    return true;
}

std::optional<cudaError_t> captured_wait(cudaStream_t stream, cudaEvent_t event) {
    const auto found = all().events.find(event);
    if (found == all().events.end()) {
        // What was issued before the capture is no part of it.
        if (captures(stream)) return break_with(cudaErrorStreamCaptureIsolation);
        return std::nullopt;
    }
    if (!all().active || found->second.first != all().number) return cudaErrorCapturedEvent;
    merge(all().active->streams[stream], found->second.second);
    return cudaSuccess;
}

bool is_captured(cudaEvent_t event) {
    if (all().events.count(event) == 0) return false;
    if (all().active) break_with(cudaErrorCapturedEvent);
    return true;
}

void forget_event(cudaEvent_t event) {
    all().events.erase(event);
}

}  // namespace tutti::fake_gpu

using namespace tutti::fake_gpu;

struct CUgraph_st {
    std::vector<Operation> operations;
};
struct CUgraphExec_st {
    std::vector<Operation> operations;
};

#define FAIL_IF_ASKED(function) \
    if (const int code = failure_of(function)) return static_cast<cudaError_t>(kept(code))

extern "C" {

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
    FAIL_IF_ASKED("cudaStreamBeginCapture");
    if (!stream) return cudaErrorStreamCaptureUnsupported;
    if (all().active) return cudaErrorIllegalState;
    ++all().number;
    all().active = std::make_unique<Capture>();
    all().active->origin = stream;
    all().active->streams[stream];
    note_host("capture " + name_of_stream(stream));
    return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
    *graph = nullptr;
    if (!all().active) return cudaErrorIllegalState;
    if (stream != all().active->origin) return break_with(cudaErrorStreamCaptureUnmatched);
    const std::unique_ptr<Capture> capture = std::move(all().active);
    note_host("end of the capture of " + name_of_stream(stream));
    if (capture->broken != cudaSuccess)
        return static_cast<cudaError_t>(kept(cudaErrorStreamCaptureInvalidated));
    for (auto& [other, clock] : capture->streams)
        if (capture->streams[stream][other] < clock[other])
            return static_cast<cudaError_t>(kept(cudaErrorStreamCaptureUnjoined));
    *graph = new CUgraph_st{std::move(capture->operations)};
    return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
    *status = !captures(stream)                     ? cudaStreamCaptureStatusNone
              : all().active->broken != cudaSuccess ? cudaStreamCaptureStatusInvalidated
                                                    : cudaStreamCaptureStatusActive;
    return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long) {
    FAIL_IF_ASKED("cudaGraphInstantiate");
    REFUSE_WHILE_CAPTURED();
    *executable = new CUgraphExec_st{graph->operations};
    return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
    delete graph;
    return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
    delete executable;
    return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
    FAIL_IF_ASKED("cudaGraphLaunch");
    REFUSE_WHILE_CAPTURED();
    enqueue(stream, stream,
            "launch a graph of " + std::to_string(executable->operations.size()) + " operations", [] {});
    // In the order of the capture, which is one that its events allow.
    for (const Operation& operation : executable->operations)
        enqueue(stream, operation.stream, operation.what, operation.work);
    return cudaSuccess;
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
    return static_cast<cudaError_t>(issue(stream, "host function", [=] { function(data); }));
}

}  // extern "C"
