// cuDNN's backend API, as far as kernels/cuda calls it: graphs of one convolution, on tensors with any
// strides, with sums in double, and of attention (fake_cudnn_attention.cpp). Its heuristic offers three
// engines, best first: one that gives other bits each time (engine 0), one on tensor cores (1), and a plain
// one (2).

#include <cudnn.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <vector>

#include "fake_cudnn.hpp"
#include "fake_gpu.hpp"

struct cudnnContext {
    cudaStream_t stream = nullptr;
};

namespace {

using namespace tutti::fake_gpu;

// What a cudnnBackendDescriptor_t points to: setting an attribute keeps what it names alive, as in cuDNN.
using Handle = std::shared_ptr<Descriptor>;

Handle& of(cudnnBackendDescriptor_t descriptor) {
    return *static_cast<Handle*>(descriptor);
}

/// Elements of one tensor, by cuDNN's order of dimensions: N, C, H, W or O, I, KH, KW.
class Tensor {
  public:
    Tensor(const Descriptor& descriptor, const Descriptor& pack)
        : dims(descriptor.all<std::int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS)),
          strides_(descriptor.all<std::int64_t>(CUDNN_ATTR_TENSOR_STRIDES)),
          bf16_(descriptor.all<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE)[0] == CUDNN_DATA_BFLOAT16) {
        const auto id = descriptor.all<std::int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID)[0];
        const auto ids = pack.all<std::int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
        const auto pointers = pack.all<void*>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
        for (std::size_t i = 0; i < ids.size(); ++i)
            if (ids[i] == id) data_ = pointers[i];
        const auto alignment = descriptor.all<std::int64_t>(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT)[0];
        aligned = reinterpret_cast<std::uintptr_t>(data_) % static_cast<std::uintptr_t>(alignment) == 0;
    }
    double get(std::int64_t a, std::int64_t b, std::int64_t c, std::int64_t d) const {
        if (!bf16_) return static_cast<double>(static_cast<const float*>(data_)[at(a, b, c, d)]);
        const std::uint32_t bits = std::uint32_t{static_cast<std::uint16_t*>(data_)[at(a, b, c, d)]} << 16;
        float value;
        std::memcpy(&value, &bits, sizeof value);
        return static_cast<double>(value);
    }
    void set(std::int64_t a, std::int64_t b, std::int64_t c, std::int64_t d, double sum) const {
        const auto value = static_cast<float>(sum);
        if (!bf16_) {
            static_cast<float*>(data_)[at(a, b, c, d)] = value;
            return;
        }
        std::uint32_t bits;
        std::memcpy(&bits, &value, sizeof bits);
        bits += 0x7fff + ((bits >> 16) & 1);  // to the nearest, ties to even
        static_cast<std::uint16_t*>(data_)[at(a, b, c, d)] = static_cast<std::uint16_t>(bits >> 16);
    }
    std::vector<std::int64_t> dims;
    bool aligned = false;

  private:
    std::int64_t at(std::int64_t a, std::int64_t b, std::int64_t c, std::int64_t d) const {
        return a * strides_[0] + b * strides_[1] + c * strides_[2] + d * strides_[3];
    }
    std::vector<std::int64_t> strides_;
    bool bf16_;
    void* data_ = nullptr;
};

enum class Pass { forward, data, weight };

/// Calls visit(n, o, oh, ow, i, h, w, channel of the weight, kh, kw) for each product of the convolution.
template <class Visit>
void for_products(const std::vector<std::int64_t>& x, const std::vector<std::int64_t>& weight,
                  const std::vector<std::int64_t>& y, const Descriptor& convolution, const Visit& visit) {
    const auto strides = convolution.all<std::int64_t>(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES);
    const auto paddings = convolution.all<std::int64_t>(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS);
    const std::int64_t groups = x[1] / weight[1], per_group = y[1] / groups;
    for (std::int64_t n = 0; n < y[0]; ++n)
        for (std::int64_t o = 0; o < y[1]; ++o)
            for (std::int64_t oh = 0; oh < y[2]; ++oh)
                for (std::int64_t ow = 0; ow < y[3]; ++ow)
                    for (std::int64_t kh = 0; kh < weight[2]; ++kh)
                        for (std::int64_t kw = 0; kw < weight[3]; ++kw) {
                            const std::int64_t h = oh * strides[0] + kh - paddings[0];
                            const std::int64_t w = ow * strides[1] + kw - paddings[1];
                            if (h < 0 || h >= x[2] || w < 0 || w >= x[3]) continue;
                            for (std::int64_t i = 0; i < weight[1]; ++i)
                                visit(n, o, oh, ow, o / per_group * weight[1] + i, h, w, i, kh, kw);
                        }
}

std::size_t flat(const std::vector<std::int64_t>& dims, std::int64_t a, std::int64_t b, std::int64_t c,
                 std::int64_t d) {
    return static_cast<std::size_t>(((a * dims[1] + b) * dims[2] + c) * dims[3] + d);
}

std::vector<double> values_of(const Tensor& tensor) {
    const auto& d = tensor.dims;
    std::vector<double> values(static_cast<std::size_t>(d[0] * d[1] * d[2] * d[3]));
    auto next = values.begin();
    for (std::int64_t a = 0; a < d[0]; ++a)
        for (std::int64_t b = 0; b < d[1]; ++b)
            for (std::int64_t c = 0; c < d[2]; ++c)
                for (std::int64_t e = 0; e < d[3]; ++e) *next++ = tensor.get(a, b, c, e);
    return values;
}

/// result = products + beta · result.
void convolve(Pass pass, const Tensor& x, const Tensor& weight, const Tensor& y,
              const Descriptor& convolution, double beta) {
    const Tensor& result = pass == Pass::forward ? y : pass == Pass::data ? x : weight;
    const auto& d = result.dims;
    const auto sum_products = [&](const Tensor& a, const Tensor& b, const auto& add) {
        const std::vector<double> first = values_of(a), second = values_of(b);
        std::vector<double> sums(static_cast<std::size_t>(d[0] * d[1] * d[2] * d[3]));
        for_products(x.dims, weight.dims, y.dims, convolution,
                     [&](auto n, auto o, auto oh, auto ow, auto i, auto h, auto w, auto c, auto kh, auto kw) {
                         add(sums, first, second, flat(x.dims, n, i, h, w), flat(weight.dims, o, c, kh, kw),
                             flat(y.dims, n, o, oh, ow));
                     });
        return sums;
    };
    const std::vector<double> sums =
        pass == Pass::forward
            ? sum_products(x, weight,
                           [](auto& s, auto& a, auto& b, auto i, auto j, auto k) { s[k] += a[i] * b[j]; })
        : pass == Pass::data
            ? sum_products(y, weight,
                           [](auto& s, auto& a, auto& b, auto i, auto j, auto k) { s[i] += a[k] * b[j]; })
            : sum_products(y, x,
                           [](auto& s, auto& a, auto& b, auto i, auto j, auto k) { s[j] += a[k] * b[i]; });
    for (std::int64_t a = 0; a < d[0]; ++a)
        for (std::int64_t b = 0; b < d[1]; ++b)
            for (std::int64_t c = 0; c < d[2]; ++c)
                for (std::int64_t e = 0; e < d[3]; ++e) {
                    const double before = beta == 0 ? 0 : beta * result.get(a, b, c, e);
                    result.set(a, b, c, e, sums[flat(d, a, b, c, e)] + before);
                }
}

/// x, weight, y, convolution and beta of the three kinds of operation.
struct Names {
    Pass pass;
    int x, weight, y, convolution, beta;
};
Names names_of(cudnnBackendDescriptorType_t type) {
    switch (type) {
        case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
            return {Pass::data,
                    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
                    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
                    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
                    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA};
        case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR:
            return {Pass::weight,
                    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
                    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
                    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
                    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
                    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA};
        default:
            return {Pass::forward,
                    CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
                    CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
                    CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
                    CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                    CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA};
    }
}

template <class T>
cudnnStatus_t give(const std::vector<T>& values, std::int64_t most, std::int64_t* count, void* to) {
    *count = static_cast<std::int64_t>(values.size());
    const std::size_t copied = std::min(values.size(), static_cast<std::size_t>(most));
    if (copied > 0) std::memcpy(to, values.data(), copied * sizeof(T));
    return CUDNN_STATUS_SUCCESS;
}

constexpr std::int64_t workspace_bytes = 1024;

}  // namespace

#define FAIL_IF_ASKED(function) \
    if (const int code = failure_of(function)) return static_cast<cudnnStatus_t>(code)

extern "C" {

std::size_t cudnnGetVersion() {
    return tutti::fake_gpu::cudnn_version();
}
const char* cudnnGetErrorString(cudnnStatus_t status) {
    return status == CUDNN_STATUS_BAD_PARAM          ? "CUDNN_STATUS_BAD_PARAM"
           : status == CUDNN_STATUS_NOT_SUPPORTED    ? "CUDNN_STATUS_NOT_SUPPORTED"
           : status == CUDNN_STATUS_EXECUTION_FAILED ? "CUDNN_STATUS_EXECUTION_FAILED"
                                                     : "another cuDNN status";
}
void cudnnGetLastErrorString(char* message, std::size_t size) {
    std::strncpy(message, "as the fake was asked", size);
}

cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
    FAIL_IF_ASKED("cudnnCreate");
    *handle = new cudnnContext;
    return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
    delete handle;
    return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
    handle->stream = stream;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                           cudnnBackendDescriptor_t* descriptor) {
    FAIL_IF_ASKED("cudnnBackendCreateDescriptor");
    *descriptor = new Handle(std::make_shared<Descriptor>(type));
    return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
    delete static_cast<Handle*>(descriptor);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, std::int64_t count,
                                       const void* values) {
    FAIL_IF_ASKED("cudnnBackendSetAttribute");
    Descriptor& to = *of(descriptor);
    if (to.finalized) return CUDNN_STATUS_NOT_INITIALIZED;
    const auto elements = static_cast<std::size_t>(count);
    if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
        auto& children = to.children[name];
        for (std::size_t i = 0; i < elements; ++i) {
            const Handle& child = of(static_cast<const cudnnBackendDescriptor_t*>(values)[i]);
            if (!child->finalized) return CUDNN_STATUS_BAD_PARAM;
            children.push_back(child);
        }
        return CUDNN_STATUS_SUCCESS;
    }
    const bool wide = type == CUDNN_TYPE_INT64 || type == CUDNN_TYPE_HANDLE || type == CUDNN_TYPE_VOID_PTR ||
                      type == CUDNN_TYPE_DOUBLE;
    const std::size_t size = type == CUDNN_TYPE_BOOLEAN ? sizeof(bool) : wide ? 8 : 4;
    const auto* bytes = static_cast<const std::byte*>(values);
    to.values[name].assign(bytes, bytes + elements * size);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor) {
    FAIL_IF_ASKED("cudnnBackendFinalize");
    Descriptor& one = *of(descriptor);
    if (one.type == CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR && !one.has(CUDNN_ATTR_OPERATIONGRAPH_HANDLE))
        return CUDNN_STATUS_BAD_PARAM;
    if (one.type == CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR) {
        const int mode = one.all<int>(CUDNN_ATTR_ENGINEHEUR_MODE)[0];
        FAIL_IF_ASKED(mode == CUDNN_HEUR_MODE_A ? "finalize heuristic A" : "finalize heuristic FALLBACK");
    }
    if (one.type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR) {
        FAIL_IF_ASKED("finalize an execution plan");
        const Descriptor& graph =
            one.child(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG).child(CUDNN_ATTR_ENGINE_OPERATION_GRAPH);
        note_host(is_attention(graph) ? "build an attention plan" : "build a convolution plan");
    }
    one.finalized = true;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t const descriptor,
                                       cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t,
                                       std::int64_t most, std::int64_t* count, void* values) {
    FAIL_IF_ASKED("cudnnBackendGetAttribute");
    const Descriptor& one = *of(descriptor);
    switch (name) {
        case CUDNN_ATTR_ENGINEHEUR_RESULTS:
            if (!has_attention_engine(one.child(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH))) {
                *count = 0;
                return CUDNN_STATUS_SUCCESS;
            }
            *count = 3;
            for (std::int64_t i = 0; i < std::min<std::int64_t>(most, 3); ++i) {
                Descriptor& config = *of(static_cast<cudnnBackendDescriptor_t*>(values)[i]);
                config.engine = i;
                config.children[CUDNN_ATTR_ENGINE_OPERATION_GRAPH] =
                    one.children.at(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
                config.finalized = true;
            }
            return CUDNN_STATUS_SUCCESS;
        case CUDNN_ATTR_ENGINECFG_ENGINE:
            of(*static_cast<cudnnBackendDescriptor_t*>(values))->engine = one.engine;
            return CUDNN_STATUS_SUCCESS;
        case CUDNN_ATTR_ENGINE_GLOBAL_INDEX:
            return give(std::vector{one.engine}, most, count, values);
        case CUDNN_ATTR_ENGINE_NUMERICAL_NOTE: {
            using Notes = std::vector<cudnnBackendNumericalNote_t>;
            const Notes notes[3] = {
                {CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC}, {CUDNN_NUMERICAL_NOTE_TENSOR_CORE}, {}};
            return give(notes[one.engine], most, count, values);
        }
        case CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE:
            return give(std::vector{workspace_bytes}, most, count, values);
        default:
            return CUDNN_STATUS_NOT_SUPPORTED;
    }
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                  cudnnBackendDescriptor_t variant_pack) {
    FAIL_IF_ASKED("cudnnBackendExecute");
    const Descriptor& pack = *of(variant_pack);
    const Descriptor& config = of(plan)->child(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
    const Descriptor& graph = config.child(CUDNN_ATTR_ENGINE_OPERATION_GRAPH);
    const std::string engine = "convolution engine " + std::to_string(config.engine);
    const bool has_workspace = pack.all<void*>(CUDNN_ATTR_VARIANT_PACK_WORKSPACE)[0] != nullptr;
    if (!pack.finalized || !has_workspace) return CUDNN_STATUS_BAD_PARAM;
    FAIL_IF_ASKED("run " + engine);
    if (is_attention(graph)) {
        const auto usable = std::make_shared<bool>(true);  // until it is computed
        const int status = issue(handle->stream, name_of_attention(graph),
                                 [=] { *usable = compute_attention(graph, pack); });
        if (status != 0) return CUDNN_STATUS_EXECUTION_FAILED;
        return *usable ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
    }
    const Descriptor& operation = graph.child(CUDNN_ATTR_OPERATIONGRAPH_OPS);
    const Names names = names_of(operation.type);
    const Tensor x(operation.child(names.x), pack), weight(operation.child(names.weight), pack);
    const Tensor y(operation.child(names.y), pack);
    if (!x.aligned || !weight.aligned || !y.aligned) return CUDNN_STATUS_BAD_PARAM;
    const double beta = static_cast<double>(operation.all<float>(names.beta).at(0));
    const auto compute = [pass = names.pass, x, weight, y, convolution = operation.child(names.convolution),
                          beta, engine] {
        convolve(pass, x, weight, y, convolution, beta);
        spend(engine);
    };
    const int status = issue(handle->stream,
                             names.pass == Pass::forward ? "convolution forward"
                             : names.pass == Pass::data  ? "convolution backward to x"
                                                         : "convolution backward to the weights",
                             compute);
    return status == 0 ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_EXECUTION_FAILED;
}

}  // extern "C"
