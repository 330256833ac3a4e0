#include "cudnn_plan.hpp"

#include <algorithm>

namespace tutti::cuda {
namespace {

constexpr std::int64_t most_workspace = std::int64_t{1} << 30;

/// In the order in which the heuristic prefers them; none where it does not take the graph, and `status` says
/// why.
std::vector<CudnnDescriptor> engine_configs(const CudnnDescriptor& graph, const CudnnTarget& target,
                                            cudnnBackendHeurMode_t mode, cudnnStatus_t& status) {
    CudnnDescriptor heuristic(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, "engine heuristic");
    heuristic.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
    heuristic.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, mode);
    if (target.properties) heuristic.set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, *target.properties);
    status = heuristic.try_to_finalize();
    if (status != CUDNN_STATUS_SUCCESS) return {};
    const auto count = static_cast<std::size_t>(heuristic.get(
        CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, std::span<cudnnBackendDescriptor_t>()));
    std::vector<CudnnDescriptor> configs;
    std::vector<cudnnBackendDescriptor_t> raw;
    for (std::size_t i = 0; i < count; ++i) {
        configs.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, "engine configuration");
        raw.push_back(configs.back().get());
    }
    const auto given = static_cast<std::size_t>(
        heuristic.get(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, std::span(raw)));
    configs.resize(std::min(given, count));
    return configs;
}

/// Newer versions take the handle from the graph and call this attribute deprecated; older ones need it.
void set_handle(CudnnDescriptor& plan, cudnnHandle_t handle) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
    plan.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, handle);
#pragma GCC diagnostic pop
}

CudnnEngineFacts facts_of(const CudnnDescriptor& config) {
    const CudnnDescriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR, "engine");
    cudnnBackendDescriptor_t raw = engine.get();
    config.get(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, std::span(&raw, 1));
    CudnnEngineFacts facts;
    engine.get(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, std::span(&facts.number, 1));
    facts.notes.resize(CUDNN_NUMERICAL_NOTE_TYPE_COUNT);
    const auto count =
        engine.get(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, std::span(facts.notes));
    facts.notes.resize(static_cast<std::size_t>(std::max<std::int64_t>(0, count)));
    return facts;
}

}  // namespace

bool CudnnEngineFacts::has(cudnnBackendNumericalNote_t note) const {
    return std::find(notes.begin(), notes.end(), note) != notes.end();
}

std::vector<CudnnPlan> CudnnPlan::candidates(
    const std::string& name, const CudnnDescriptor& graph, const CudnnTarget& target,
    const std::function<std::string(const CudnnEngineFacts&)>& objection, const std::string& remedy,
    std::size_t most) {
    std::vector<CudnnPlan> found;
    std::string refused;
    const auto refuse = [&](const std::string& who, const std::string& why) {
        refused += (refused.empty() ? "" : ", ") + who + ": " + why;
    };
    cudnnStatus_t failure = CUDNN_STATUS_SUCCESS;
    const auto why = [&](cudnnStatus_t status) {
        if (CUDNN_STATUS_CATEGORY(status) != CUDNN_STATUS_NOT_SUPPORTED) failure = status;
        return std::string(cudnnGetErrorString(status));
    };
    for (const auto& [mode, its_name] :
         {std::pair{CUDNN_HEUR_MODE_A, "mode A"}, std::pair{CUDNN_HEUR_MODE_FALLBACK, "mode FALLBACK"}}) {
        if (!found.empty()) break;
        cudnnStatus_t asked = CUDNN_STATUS_SUCCESS;
        std::vector<CudnnDescriptor> configs = engine_configs(graph, target, mode, asked);
        if (asked != CUDNN_STATUS_SUCCESS) refuse(its_name, why(asked));
        for (CudnnDescriptor& config : configs) {
            if (found.size() == most) break;
            const CudnnEngineFacts engine = facts_of(config);
            std::string reason = engine.has(CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC) ? "other bits each time"
                                                                                   : objection(engine);
            if (reason.empty()) {
                CudnnPlan plan;
                const cudnnStatus_t status = plan.build(name, config, target);
                if (status != CUDNN_STATUS_SUCCESS) {
                    reason = why(status);
                } else if (plan.workspace_bytes_ > most_workspace) {
                    reason = std::to_string(plan.workspace_bytes_ >> 20) + " MiB of workspace";
                } else {
                    plan.engine_ = engine.number;
                    found.push_back(std::move(plan));
                    continue;
                }
            }
            refuse("engine " + std::to_string(engine.number), reason);
        }
    }
    if (!found.empty()) return found;
    check(failure, "cudnnBackendFinalize: plan of " + name + " (" + refused + ")");
    throw NoCudnnEngine("cuDNN has no engine for " + name + (refused.empty() ? "" : " (" + refused + ")"),
                        remedy);
}

cudnnStatus_t CudnnPlan::build(const std::string& name, const CudnnDescriptor& config,
                               const CudnnTarget& target) {
    name_ = name;
    plan_ = CudnnDescriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, name);
    plan_.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
    if (target.handle) set_handle(plan_, target.handle);
    if (target.properties) plan_.set(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, *target.properties);
    const cudnnStatus_t status = plan_.try_to_finalize();
    if (status == CUDNN_STATUS_SUCCESS)
        plan_.get(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64,
                  std::span(&workspace_bytes_, 1));
    return status;
}

void CudnnPlan::execute(cudnnHandle_t handle, std::span<const std::int64_t> ids,
                        std::span<void* const> pointers, std::byte* workspace) const {
    CudnnDescriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, "variant pack");
    pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, pointers);
    pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, ids);
    void* const memory = workspace;
    pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, memory);
    pack.finalize();
    check(cudnnBackendExecute(handle, plan_.get(), pack.get()), "cudnnBackendExecute: " + name_);
}

}  // namespace tutti::cuda
