#include "cudnn_convolution.hpp"

#include <algorithm>
#include <array>
#include <optional>

#include "../cpu/shape_checks.hpp"

namespace tutti::cuda {
namespace {

constexpr std::int64_t most_workspace = std::int64_t{1} << 30;
constexpr std::int64_t x_id = 'x', weight_id = 'w', y_id = 'y';

cudnnDataType_t element_type(ProductType type) {
    return type == ProductType::bf16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT;
}

/// dims in cuDNN's order N, C, H, W; in memory the channels are innermost.
CudnnDescriptor tensor(const char* what, std::int64_t id, ProductType type,
                       const std::array<std::int64_t, 4>& dims) {
    CudnnDescriptor result(CUDNN_BACKEND_TENSOR_DESCRIPTOR, what);
    const std::int64_t channels = dims[1], height = dims[2], width = dims[3];
    const std::array<std::int64_t, 4> strides{height * width * channels, 1, width * channels, channels};
    result.set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, element_type(type));
    result.set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, std::span<const std::int64_t>(dims));
    result.set(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, std::span<const std::int64_t>(strides));
    result.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, id);
    result.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, std::int64_t{16});
    result.finalize();
    return result;
}

CudnnDescriptor convolution(const Conv2dShape& shape) {
    CudnnDescriptor result(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, "convolution");
    result.set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, std::int64_t{2});
    result.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
    result.set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, CUDNN_CROSS_CORRELATION);
    result.set(CUDNN_ATTR_CONVOLUTION_DILATIONS, {1, 1});
    result.set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, {shape.stride_h, shape.stride_w});
    result.set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, {shape.padding_h, shape.padding_w});
    result.set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, {shape.padding_h, shape.padding_w});
    result.finalize();
    return result;
}

/// The attributes' names of one kind of operation.
struct PassNames {
    cudnnBackendDescriptorType_t operation;
    cudnnBackendAttributeName_t x, weight, y, convolution, alpha, beta;
};
PassNames names_of(ConvolutionPass pass) {
    switch (pass) {
        case ConvolutionPass::backward_data:
            return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
                    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
                    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
                    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
                    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
                    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA};
        case ConvolutionPass::backward_weight:
            return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
                    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
                    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
                    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
                    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
                    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
                    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA};
        case ConvolutionPass::forward:
            break;
    }
    return {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA};
}

/// In the order in which the heuristic prefers them.
std::vector<CudnnDescriptor> engine_configs(const CudnnDescriptor& graph, const CudnnTarget& target,
                                            cudnnBackendHeurMode_t mode) {
    CudnnDescriptor heuristic(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, "engine heuristic");
    heuristic.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
    heuristic.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, mode);
    if (target.properties) heuristic.set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, *target.properties);
    heuristic.finalize();
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

struct EngineFacts {
    std::int64_t number = -1;
    std::vector<cudnnBackendNumericalNote_t> notes;
    bool has(cudnnBackendNumericalNote_t note) const {
        return std::find(notes.begin(), notes.end(), note) != notes.end();
    }
};
EngineFacts facts_of(const CudnnDescriptor& config) {
    const CudnnDescriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR, "engine");
    cudnnBackendDescriptor_t raw = engine.get();
    config.get(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, std::span(&raw, 1));
    EngineFacts facts;
    engine.get(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, std::span(&facts.number, 1));
    facts.notes.resize(CUDNN_NUMERICAL_NOTE_TYPE_COUNT);
    const auto count =
        engine.get(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, std::span(facts.notes));
    facts.notes.resize(static_cast<std::size_t>(std::max<std::int64_t>(0, count)));
    return facts;
}

/// Why an engine must not be taken; empty when it may.
std::string objection(const EngineFacts& engine, ProductType type) {
    if (engine.has(CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC)) return "other bits each time";
    if (engine.has(CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION)) return "sums below fp32";
    if (type == ProductType::fp32 && (engine.has(CUDNN_NUMERICAL_NOTE_TENSOR_CORE) ||
                                      engine.has(CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS)))
        return "rounds its inputs to tf32";
    return {};
}

}  // namespace

std::string describe(const ConvolutionProblem& problem) {
    const char* pass = problem.pass == ConvolutionPass::forward         ? "forward"
                       : problem.pass == ConvolutionPass::backward_data ? "backward to x"
                                                                        : "backward to the weights";
    const char* type = problem.type == ProductType::bf16   ? "bf16"
                       : problem.type == ProductType::tf32 ? "tf32"
                                                           : "fp32";
    return tutti::describe(problem.shape) + ", batch " + std::to_string(problem.batch) + ", " + pass +
           " in " + type;
}

Conv2dShape padded(Conv2dShape shape, ProductType type) {
    if (type == ProductType::bf16 && shape.groups == 1) shape.in = (shape.in + 7) / 8 * 8;
    return shape;
}

ConvolutionPlan::ConvolutionPlan(const ConvolutionProblem& problem, const CudnnTarget& target)
    : name_(describe(problem)) {
    const Conv2dShape& s = problem.shape;
    x_ = tensor("x", x_id, problem.type, {problem.batch, s.in, s.height, s.width});
    weight_ = tensor("weight", weight_id, problem.type, {s.out, s.in / s.groups, s.kernel_h, s.kernel_w});
    y_ = tensor("y", y_id, problem.type, {problem.batch, s.out, s.out_height(), s.out_width()});
    convolution_ = convolution(s);

    const PassNames names = names_of(problem.pass);
    operation_ = CudnnDescriptor(names.operation, name_);
    operation_.set(names.x, x_);
    operation_.set(names.weight, weight_);
    operation_.set(names.y, y_);
    operation_.set(names.convolution, convolution_);
    operation_.set(names.alpha, CUDNN_TYPE_FLOAT, 1.0f);
    operation_.set(names.beta, CUDNN_TYPE_FLOAT, 0.0f);
    operation_.finalize();

    graph_ = CudnnDescriptor(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, name_);
    graph_.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, operation_);
    if (target.handle) graph_.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, target.handle);
    graph_.finalize();

    std::string refused;
    for (const cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
        for (CudnnDescriptor& config : engine_configs(graph_, target, mode)) {
            const EngineFacts engine = facts_of(config);
            std::string reason = objection(engine, problem.type);
            if (reason.empty()) {
                CudnnDescriptor plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, name_);
                plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
                if (target.handle) set_handle(plan, target.handle);
                if (target.properties) plan.set(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, *target.properties);
                const cudnnStatus_t status = plan.try_to_finalize();
                if (status != CUDNN_STATUS_SUCCESS) {
                    reason = cudnnGetErrorString(status);
                } else {
                    plan.get(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64,
                             std::span(&workspace_bytes_, 1));
                    if (workspace_bytes_ <= most_workspace) {
                        plan_ = std::move(plan);
                        engine_ = engine.number;
                        return;
                    }
                    reason = std::to_string(workspace_bytes_ >> 20) + " MiB of workspace";
                }
            }
            refused +=
                (refused.empty() ? "engine " : ", engine ") + std::to_string(engine.number) + ": " + reason;
        }
    }
    throw RunError("cuDNN has no engine for " + name_ + (refused.empty() ? "" : " (" + refused + ")"),
                   "try another train.precision, or device: cpu");
}

void ConvolutionPlan::execute(cudnnHandle_t handle, std::byte* x, std::byte* weight, std::byte* y,
                              std::byte* workspace) {
    CudnnDescriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, "variant pack");
    const std::array<void*, 3> pointers{x, weight, y};
    const std::array<std::int64_t, 3> ids{x_id, weight_id, y_id};
    pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, std::span<void* const>(pointers));
    pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, std::span<const std::int64_t>(ids));
    void* const memory = workspace;
    pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, memory);
    pack.finalize();
    check(cudnnBackendExecute(handle, plan_.get(), pack.get()), "cudnnBackendExecute: " + name_);
}

}  // namespace tutti::cuda
