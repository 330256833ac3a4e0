#pragma once
// A graph of operations as an execution plan of cuDNN: which engine computes it.

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "cudnn_descriptor.hpp"

namespace tutti::cuda {

/// Whom plans are made for: a handle on the GPU, or properties of a GPU that is not there (a finalized
/// CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR; such a plan can be built, not executed).
struct CudnnTarget {
    cudnnHandle_t handle = nullptr;
    const CudnnDescriptor* properties = nullptr;
};

struct CudnnEngineFacts {
    std::int64_t number = -1;
    std::vector<cudnnBackendNumericalNote_t> notes;
    bool has(cudnnBackendNumericalNote_t note) const;
};

/// No engine takes the graph: each was objected to or says that it does not support it, or cuDNN names none.
struct NoCudnnEngine : RunError {
    using RunError::RunError;
};

/// An engine that gives the same bits each time, to which nobody objects, that asks for no more than 1 GiB of
/// workspace, and can be built.
class CudnnPlan {
  public:
    CudnnPlan() = default;
    /// The first `most` of them in the order of cuDNN's heuristic, one at least; those that it names as a
    /// fallback alone where there is no other. Each takes 1 to 200 ms, or a second where cuDNN compiles the
    /// engine (attention). `objection` says why an engine must not be taken, nothing when it may. Throws
    /// NoCudnnEngine (which engines were refused, and why; `remedy`) when there is none, and GpuError for
    /// other failures, also of an engine where no other could be taken.
    static std::vector<CudnnPlan> candidates(
        const std::string& name, const CudnnDescriptor& graph, const CudnnTarget& target,
        const std::function<std::string(const CudnnEngineFacts&)>& objection, const std::string& remedy,
        std::size_t most);
    /// The first of them.
    CudnnPlan(const std::string& name, const CudnnDescriptor& graph, const CudnnTarget& target,
              const std::function<std::string(const CudnnEngineFacts&)>& objection, const std::string& remedy)
        : CudnnPlan(std::move(candidates(name, graph, target, objection, remedy, 1).front())) {}

    std::int64_t workspace_bytes() const { return workspace_bytes_; }
    /// cuDNN's number of the engine, for reports.
    std::int64_t engine() const { return engine_; }

    /// pointers[i] is the tensor whose unique id is ids[i]: of a tensor by value in host memory, read before
    /// this returns. In the handle's stream.
    void execute(cudnnHandle_t handle, std::span<const std::int64_t> ids, std::span<void* const> pointers,
                 std::byte* workspace) const;

  private:
    /// Other than success: cuDNN cannot.
    cudnnStatus_t build(const std::string& name, const CudnnDescriptor& config, const CudnnTarget& target);

    std::string name_;
    CudnnDescriptor plan_;
    std::int64_t workspace_bytes_ = 0, engine_ = -1;
};

}  // namespace tutti::cuda
