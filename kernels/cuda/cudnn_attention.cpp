#include "cudnn_attention.hpp"

#include <array>
#include <cmath>

namespace tutti::cuda {
namespace {

/// Unique ids of the tensors that a variant pack names; those of values inside the graph come after.
enum Id : std::int64_t { q = 1, k, v, out, statistics, scale, one, dout, dq, dk, dv, inside };

using Four = std::array<std::int64_t, 4>;

/// Descriptors of one graph: tensors [N, H, rows, columns], and operations in the order of their making.
class AttentionGraph {
  public:
    AttentionGraph(const AttentionProblem& problem, std::vector<CudnnDescriptor>& kept)
        : batch_(problem.batch), shape_(problem.shape), name_(describe(problem)), kept_(kept) {}

    /// Of a part of qkv, or of a whole tensor of its own, as [N, H, T, D], or its rows as columns.
    cudnnBackendDescriptor_t packed(Id id, bool transposed = false) {
        return given(id, CUDNN_DATA_BFLOAT16, tokens(transposed), token_strides(3, transposed));
    }
    cudnnBackendDescriptor_t plain(Id id) {
        return given(id, CUDNN_DATA_BFLOAT16, tokens(false), token_strides(1, false));
    }
    cudnnBackendDescriptor_t row_values(Id id) {
        return given(id, CUDNN_DATA_FLOAT, {batch_, shape_.heads, shape_.tokens, 1}, row_strides());
    }
    cudnnBackendDescriptor_t by_value(Id id) {
        return make_tensor(id, CUDNN_DATA_FLOAT, {1, 1, 1, 1}, {1, 1, 1, 1}, CUDNN_ATTR_TENSOR_IS_BY_VALUE);
    }

    // Values inside the graph: of the scores' shape [N, H, T, T], of that of tokens, and one for each row.
    cudnnBackendDescriptor_t scores() {
        return virtual_tensor(CUDNN_DATA_FLOAT, squares(), square_strides(false));
    }
    cudnnBackendDescriptor_t token_values() {
        const std::int64_t t = shape_.tokens, d = shape_.width;
        return virtual_tensor(CUDNN_DATA_FLOAT, tokens(false), {shape_.heads * t * d, t * d, d, 1});
    }
    cudnnBackendDescriptor_t row_sums() {
        return virtual_tensor(CUDNN_DATA_FLOAT, {batch_, shape_.heads, shape_.tokens, 1}, row_strides());
    }

    cudnnBackendDescriptor_t pointwise(cudnnPointwiseMode_t mode, cudnnBackendDescriptor_t x,
                                       cudnnBackendDescriptor_t b, cudnnBackendDescriptor_t y) {
        CudnnDescriptor& how = make(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
        how.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, mode);
        how.set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
        how.finalize();
        return operation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR,
                         {{CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how.get()},
                          {CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x},
                          {CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b},
                          {CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y}},
                         y);
    }
    cudnnBackendDescriptor_t multiply(cudnnBackendDescriptor_t a, cudnnBackendDescriptor_t b,
                                      cudnnBackendDescriptor_t c) {
        CudnnDescriptor& how = make(CUDNN_BACKEND_MATMUL_DESCRIPTOR);
        how.set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
        how.finalize();
        return operation(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR,
                         {{CUDNN_ATTR_OPERATION_MATMUL_DESC, how.get()},
                          {CUDNN_ATTR_OPERATION_MATMUL_ADESC, a},
                          {CUDNN_ATTR_OPERATION_MATMUL_BDESC, b},
                          {CUDNN_ATTR_OPERATION_MATMUL_CDESC, c}},
                         c);
    }
    /// The sums over x's last dimension.
    cudnnBackendDescriptor_t sum_rows(cudnnBackendDescriptor_t x) {
        const cudnnBackendDescriptor_t y = row_sums();
        CudnnDescriptor& how = make(CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
        how.set(CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, CUDNN_REDUCE_TENSOR_ADD);
        how.set(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
        how.finalize();
        return operation(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR,
                         {{CUDNN_ATTR_OPERATION_REDUCTION_DESC, how.get()},
                          {CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x},
                          {CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y}},
                         y);
    }
    /// Scores with rows and columns exchanged, rounded as the tensor cores read them.
    cudnnBackendDescriptor_t transposed_scores(cudnnBackendDescriptor_t x) {
        return reshape(x, virtual_tensor(CUDNN_DATA_BFLOAT16, squares(), square_strides(true)));
    }
    /// k again as [N, H, T, D], from the transposed one.
    cudnnBackendDescriptor_t untransposed(cudnnBackendDescriptor_t x) {
        return reshape(x, virtual_tensor(CUDNN_DATA_BFLOAT16, tokens(false), token_strides(3, false)));
    }

    struct Link {
        cudnnBackendAttributeName_t name;
        cudnnBackendDescriptor_t descriptor;  ///< skipped when null
    };
    cudnnBackendDescriptor_t operation(cudnnBackendDescriptorType_t type, std::initializer_list<Link> links,
                                       cudnnBackendDescriptor_t result) {
        CudnnDescriptor& made = make(type);
        for (const Link& link : links)
            if (link.descriptor) made.set(link.name, CUDNN_TYPE_BACKEND_DESCRIPTOR, link.descriptor);
        made.finalize();
        operations_.push_back(made.get());
        return result;
    }

    CudnnDescriptor finish(cudnnHandle_t handle) {
        CudnnDescriptor graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, name_);
        graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                  std::span<const cudnnBackendDescriptor_t>(operations_));
        if (handle) graph.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, handle);
        graph.finalize();
        return graph;
    }

  private:
    Four tokens(bool transposed) const {
        if (transposed) return {batch_, shape_.heads, shape_.width, shape_.tokens};
        return {batch_, shape_.heads, shape_.tokens, shape_.width};
    }
    /// Where a token has `parts` rows of all heads.
    Four token_strides(std::int64_t parts, bool transposed) const {
        const std::int64_t row = parts * shape_.heads * shape_.width;
        if (transposed) return {shape_.tokens * row, shape_.width, 1, row};
        return {shape_.tokens * row, shape_.width, row, 1};
    }
    Four squares() const { return {batch_, shape_.heads, shape_.tokens, shape_.tokens}; }
    Four square_strides(bool transposed) const {
        const std::int64_t t = shape_.tokens;
        if (transposed) return {shape_.heads * t * t, t * t, 1, t};
        return {shape_.heads * t * t, t * t, t, 1};
    }
    Four row_strides() const { return {shape_.heads * shape_.tokens, shape_.tokens, 1, 1}; }

    /// A reference that holds until the next one is made.
    CudnnDescriptor& make(cudnnBackendDescriptorType_t type) { return kept_.emplace_back(type, name_); }

    cudnnBackendDescriptor_t make_tensor(std::int64_t id, cudnnDataType_t type, const Four& dims,
                                         const Four& strides, int flag) {
        CudnnDescriptor& tensor = make(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
        tensor.set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, type);
        tensor.set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, std::span<const std::int64_t>(dims));
        tensor.set(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, std::span<const std::int64_t>(strides));
        tensor.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, id);
        tensor.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, std::int64_t{16});
        if (flag >= 0) tensor.set(static_cast<cudnnBackendAttributeName_t>(flag), CUDNN_TYPE_BOOLEAN, true);
        tensor.finalize();
        return tensor.get();
    }
    cudnnBackendDescriptor_t given(Id id, cudnnDataType_t type, const Four& dims, const Four& strides) {
        return make_tensor(id, type, dims, strides, -1);
    }
    cudnnBackendDescriptor_t virtual_tensor(cudnnDataType_t type, const Four& dims, const Four& strides) {
        return make_tensor(next_id_++, type, dims, strides, CUDNN_ATTR_TENSOR_IS_VIRTUAL);
    }
    cudnnBackendDescriptor_t reshape(cudnnBackendDescriptor_t x, cudnnBackendDescriptor_t y) {
        return operation(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR,
                         {{CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x}, {CUDNN_ATTR_OPERATION_RESHAPE_YDESC, y}},
                         y);
    }

    const std::int64_t batch_;
    const AttentionShape shape_;
    const std::string name_;
    std::vector<CudnnDescriptor>& kept_;
    std::vector<cudnnBackendDescriptor_t> operations_;
    std::int64_t next_id_ = inside;
};

void add_forward(AttentionGraph& graph) {
    const cudnnBackendDescriptor_t result = graph.plain(out);
    graph.operation(CUDNN_BACKEND_OPERATION_SDPA_FWD_DESCRIPTOR,
                    {{CUDNN_ATTR_OPERATION_SDPA_FWD_QDESC, graph.packed(q)},
                     {CUDNN_ATTR_OPERATION_SDPA_FWD_KDESC, graph.packed(k)},
                     {CUDNN_ATTR_OPERATION_SDPA_FWD_VDESC, graph.packed(v)},
                     {CUDNN_ATTR_OPERATION_SDPA_FWD_ODESC, result},
                     {CUDNN_ATTR_OPERATION_SDPA_FWD_STATSDESC, graph.row_values(statistics)},
                     {CUDNN_ATTR_OPERATION_SDPA_FWD_SCALEDESC, graph.by_value(scale)}},
                    result);
}

/// P = exp(scale·Q·Kᵀ − statistics); dV = Pᵀ·dO; dS = scale·P·(dO·Vᵀ − Σ dO·O); dK = dSᵀ·Q; dQ = dS·K. The
/// factors of 1 stand where dropout would have its own: cuDNN recognises the pattern with them.
void add_backward(AttentionGraph& graph) {
    const cudnnBackendDescriptor_t queries = graph.packed(q), keys = graph.packed(k, true);
    const cudnnBackendDescriptor_t gradient = graph.plain(dout), factor = graph.by_value(scale);
    const cudnnBackendDescriptor_t unity = graph.by_value(one);

    auto x = graph.pointwise(CUDNN_POINTWISE_MUL, gradient, graph.plain(out), graph.token_values());
    const auto sums = graph.pointwise(CUDNN_POINTWISE_MUL, graph.sum_rows(x), unity, graph.row_sums());

    x = graph.multiply(queries, keys, graph.scores());
    x = graph.pointwise(CUDNN_POINTWISE_MUL, x, factor, graph.scores());
    x = graph.pointwise(CUDNN_POINTWISE_SUB, x, graph.row_values(statistics), graph.scores());
    const auto p = graph.pointwise(CUDNN_POINTWISE_EXP, x, nullptr, graph.scores());
    graph.multiply(graph.transposed_scores(p), gradient, graph.packed(dv));

    x = graph.multiply(gradient, graph.packed(v, true), graph.scores());
    x = graph.pointwise(CUDNN_POINTWISE_MUL, x, unity, graph.scores());
    x = graph.pointwise(CUDNN_POINTWISE_SUB, x, sums, graph.scores());
    x = graph.pointwise(CUDNN_POINTWISE_MUL, x, p, graph.scores());
    const auto ds = graph.pointwise(CUDNN_POINTWISE_MUL, x, factor, graph.scores());
    graph.multiply(graph.transposed_scores(ds), queries, graph.packed(dk));
    graph.multiply(ds, graph.untransposed(keys), graph.packed(dq));
}

}  // namespace

std::string describe(const AttentionProblem& problem) {
    const AttentionShape& s = problem.shape;
    return "attention of " + std::to_string(s.tokens) + " tokens, " + std::to_string(s.heads) +
           " heads of width " + std::to_string(s.width) + ", batch " + std::to_string(problem.batch) + ", " +
           (problem.pass == AttentionPass::forward ? "forward" : "backward") + " in bf16";
}

AttentionPlan::AttentionPlan(const AttentionProblem& problem, const CudnnTarget& target) : problem_(problem) {
    AttentionGraph graph(problem, descriptors_);
    problem.pass == AttentionPass::forward ? add_forward(graph) : add_backward(graph);
    descriptors_.push_back(graph.finish(target.handle));
    plan_ = CudnnPlan(
        describe(problem), descriptors_.back(), target,
        [](const CudnnEngineFacts& engine) {
            return engine.has(CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION) ? "sums below fp32" : "";
        },
        "");
}

void AttentionPlan::execute(cudnnHandle_t handle, const AttentionTensors& tensors, std::byte* workspace) {
    const AttentionShape& shape = problem_.shape;
    const std::size_t part = sizeof(std::uint16_t) * static_cast<std::size_t>(shape.heads * shape.width);
    std::vector<std::int64_t> ids{q, k, v, out, statistics, scale};
    std::vector<void*> pointers{tensors.qkv, tensors.qkv + part, tensors.qkv + 2 * part,
                                tensors.out, tensors.statistics, &factor_};
    if (problem_.pass == AttentionPass::backward) {
        ids.insert(ids.end(), {one, dout, dq, dk, dv});
        pointers.insert(pointers.end(),
                        {&unity_, tensors.dout, tensors.dqkv, tensors.dqkv + part, tensors.dqkv + 2 * part});
    }
    plan_.execute(handle, ids, pointers, workspace);
}

}  // namespace tutti::cuda
