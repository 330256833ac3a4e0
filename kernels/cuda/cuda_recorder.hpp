#pragma once
// CUDA graphs of the computing stream.

#include <memory>

#include "cuda_context.hpp"
#include "tutti/device/recorder.hpp"

namespace tutti::cuda {

/// Captures the context's stream, with every stream that follows it meanwhile by an event. Values of the runs
/// and what is fetched go through page-locked memory, outside of the graphs. The recordings share the
/// context.
std::unique_ptr<WorkRecorder> make_recorder(std::shared_ptr<CudaContext> context);

}  // namespace tutti::cuda
