#pragma once
// Private to the fake: streams that are captured into graphs.

#include <cuda_runtime_api.h>

#include <optional>

namespace tutti::fake_gpu {

/// Whether what is issued to the stream goes into a graph.
bool captures(const void* stream);
/// The error of a call that must not be made while anything is captured, whose capture it breaks; or
/// cudaSuccess.
cudaError_t refused_while_captured();

/// Recording an event in a captured stream marks a place in the graph. True: it was that.
bool captured_record(cudaStream_t stream, cudaEvent_t event);
/// Waiting for such a place brings a stream into the capture, or back. Nothing: it is no matter of captures.
std::optional<cudaError_t> captured_wait(cudaStream_t stream, cudaEvent_t event);
/// Whether the event marks a place in a graph, which nobody can wait for; that breaks a capture under way.
bool is_captured(cudaEvent_t event);
void forget_event(cudaEvent_t event);

}  // namespace tutti::fake_gpu

#define REFUSE_WHILE_CAPTURED() \
    if (const cudaError_t status = tutti::fake_gpu::refused_while_captured()) return status
