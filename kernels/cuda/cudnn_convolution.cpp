#include "cudnn_convolution.hpp"

#include <algorithm>
#include <array>

#include "../cpu/shape_checks.hpp"

namespace tutti::cuda {
namespace {

constexpr std::int64_t x_id = 'x', weight_id = 'w', y_id = 'y';

/// Beyond the first choice's, in bytes, where engines are tried. (tf32 on a described H200: up to 987 MiB for
/// an engine where the first choice takes one.)
constexpr std::int64_t most_more_workspace = std::int64_t{256} << 20;

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

bool adds(const ConvolutionProblem& problem) {
    return problem.pass == ConvolutionPass::backward_data && problem.shape.adds_to_dx;
}

std::size_t bytes_of_x(const ConvolutionProblem& problem) {
    const Conv2dShape& s = problem.shape;
    const std::size_t element = problem.type == ProductType::bf16 ? 2 : 4;
    return static_cast<std::size_t>(problem.batch * s.height * s.width * s.in) * element;
}

void execute(const CudnnPlan& plan, cudnnHandle_t handle, std::byte* x, std::byte* weight, std::byte* y,
             std::byte* workspace) {
    plan.execute(handle, std::array{x_id, weight_id, y_id}, std::array<void*, 3>{x, weight, y}, workspace);
}

/// Why an engine must not be taken; empty when it may.
std::string objection(const CudnnEngineFacts& engine, ConvolutionPass pass, ProductType type) {
    // Engine 0 of both gradients is algorithm 0, whose sums are atomic additions in any order (cuDNN API
    // Reference, "cudnnConvolutionBwdFilterAlgo_t" and "cudnnConvolutionBwdDataAlgo_t"). Its notes (9.19) do
    // not say so, and the heuristic takes it for few channels.
    if (pass != ConvolutionPass::forward && engine.number == 0) return "other bits each time (algorithm 0)";
    if (engine.has(CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION)) return "sums below fp32";
    if (type == ProductType::fp32 && (engine.has(CUDNN_NUMERICAL_NOTE_TENSOR_CORE) ||
                                      engine.has(CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS)))
        return "rounds its inputs to tf32";
    return {};
}

}  // namespace

std::string describe(const ConvolutionProblem& problem) {
    const char* pass = problem.pass == ConvolutionPass::forward         ? "forward"
                       : adds(problem)                                  ? "backward, added to x"
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

ConvolutionPlan::ConvolutionPlan(const ConvolutionProblem& problem, const CudnnTarget& target,
                                 std::size_t most_engines)
    : name_(describe(problem)), added_bytes_(adds(problem) ? bytes_of_x(problem) : 0) {
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
    operation_.set(names.beta, CUDNN_TYPE_FLOAT, adds(problem) ? 1.0f : 0.0f);
    operation_.finalize();

    graph_ = CudnnDescriptor(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, name_);
    graph_.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, operation_);
    if (target.handle) graph_.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, target.handle);
    graph_.finalize();

    plans_ = CudnnPlan::candidates(
        name_, graph_, target,
        [&](const CudnnEngineFacts& engine) { return objection(engine, problem.pass, problem.type); },
        "try another train.precision, or device: cpu", most_engines);
}

void ConvolutionPlan::take_fastest(EngineTrials& trials, cudnnHandle_t handle, std::byte* x,
                                   std::byte* weight, std::byte* y) {
    // The one that is taken keeps its workspace.
    const std::int64_t most = plans_.front().workspace_bytes() + most_more_workspace;
    std::erase_if(plans_, [most](const CudnnPlan& plan) { return plan.workspace_bytes() > most; });
    if (plans_.size() == 1) return;
    std::size_t workspace = 0;
    for (const CudnnPlan& plan : plans_)
        workspace = std::max(workspace, with_padding(static_cast<std::size_t>(plan.workspace_bytes())));
    const auto run = [&](std::size_t engine, std::byte* memory) {
        // What sums are added to once more is not the result.
        std::byte* const its_x = added_bytes_ > 0 ? memory + workspace : x;
        tutti::cuda::execute(plans_[engine], handle, its_x, weight, y, memory);
    };
    const std::size_t fastest = trials.fastest({name_, plans_.size(), workspace + added_bytes_, run});
    std::swap(plans_.front(), plans_[fastest]);
    plans_.resize(1);
}

void ConvolutionPlan::execute(cudnnHandle_t handle, std::byte* x, std::byte* weight, std::byte* y,
                              std::byte* workspace) const {
    tutti::cuda::execute(plans_.front(), handle, x, weight, y, workspace);
}

ConvolutionPlan& ConvolutionPlans::find(const ConvolutionProblem& problem, const CudnnTarget& target,
                                        std::size_t most_engines) {
    const Conv2dShape& s = problem.shape;
    const Key key{static_cast<std::int64_t>(problem.pass),
                  static_cast<std::int64_t>(problem.type),
                  problem.batch,
                  s.height,
                  s.width,
                  s.in,
                  s.out,
                  s.kernel_h,
                  s.kernel_w,
                  s.stride_h,
                  s.stride_w,
                  s.padding_h,
                  s.padding_w,
                  s.groups,
                  adds(problem)};
    std::unique_ptr<ConvolutionPlan>& plan = plans_[key];
    if (!plan) plan = std::make_unique<ConvolutionPlan>(problem, target, most_engines);
    return *plan;
}

}  // namespace tutti::cuda
