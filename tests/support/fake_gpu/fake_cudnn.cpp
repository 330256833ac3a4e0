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

/// Values with the second of cuDNN's dimensions innermost, so that those of neighbouring channels lie side by
/// side.
struct Values {
    explicit Values(const std::vector<std::int64_t>& sizes) : dims(sizes) {
        numbers.resize(static_cast<std::size_t>(dims[0] * dims[1] * dims[2] * dims[3]));
    }
    double* at(std::int64_t a, std::int64_t b, std::int64_t c, std::int64_t d) {
        return numbers.data() + ((a * dims[2] + c) * dims[3] + d) * dims[1] + b;
    }
    std::vector<std::int64_t> dims;
    std::vector<double> numbers;
};

template <class Visit>
void for_elements(const std::vector<std::int64_t>& d, const Visit& visit) {
    for (std::int64_t a = 0; a < d[0]; ++a)
        for (std::int64_t c = 0; c < d[2]; ++c)
            for (std::int64_t e = 0; e < d[3]; ++e)
                for (std::int64_t b = 0; b < d[1]; ++b) visit(a, b, c, e);
}

Values values_of(const Tensor& tensor) {
    Values values(tensor.dims);
    for_elements(tensor.dims, [&](auto... at) { *values.at(at...) = tensor.get(at...); });
    return values;
}

/// The first two dimensions in each other's place.
Values transposed(Values& values) {
    const auto& d = values.dims;
    Values result({d[1], d[0], d[2], d[3]});
    for_elements(d, [&](auto a, auto b, auto c, auto e) { *result.at(b, a, c, e) = *values.at(a, b, c, e); });
    return result;
}

void add_multiple(double* sums, double factor, const double* values, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) sums[i] += factor * values[i];
}

/// Calls visit(n, oh, ow, h, w, kh, kw) where the kernel at (oh, ow) meets a pixel.
template <class Visit>
void for_taps(const Values& x, const Values& weight, const Values& y, const Descriptor& convolution,
              const Visit& visit) {
    const auto strides = convolution.all<std::int64_t>(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES);
    const auto paddings = convolution.all<std::int64_t>(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS);
    for (std::int64_t n = 0; n < y.dims[0]; ++n)
        for (std::int64_t oh = 0; oh < y.dims[2]; ++oh)
            for (std::int64_t ow = 0; ow < y.dims[3]; ++ow)
                for (std::int64_t kh = 0; kh < weight.dims[2]; ++kh)
                    for (std::int64_t kw = 0; kw < weight.dims[3]; ++kw) {
                        const std::int64_t h = oh * strides[0] + kh - paddings[0];
                        const std::int64_t w = ow * strides[1] + kw - paddings[1];
                        if (h >= 0 && h < x.dims[2] && w >= 0 && w < x.dims[3])
                            visit(n, oh, ow, h, w, kh, kw);
                    }
}

/// The sums of products of the pass, in the place of its result.
void sum_products(Pass pass, Values& x, Values& weight, Values& y, const Descriptor& convolution) {
    const std::int64_t in = weight.dims[1], groups = x.dims[1] / in, out = y.dims[1] / groups;
    Values by_input = transposed(weight);
    for_taps(x, weight, y, convolution, [&](auto n, auto oh, auto ow, auto h, auto w, auto kh, auto kw) {
        for (std::int64_t g = 0; g < groups; ++g) {
            double *const pixel = x.at(n, g * in, h, w), *const result = y.at(n, g * out, oh, ow);
            if (pass == Pass::forward)
                for (std::int64_t i = 0; i < in; ++i)
                    add_multiple(result, pixel[i], by_input.at(i, g * out, kh, kw), out);
            else if (pass == Pass::data)
                for (std::int64_t o = 0; o < out; ++o)
                    add_multiple(pixel, result[o], weight.at(g * out + o, 0, kh, kw), in);
            else
                for (std::int64_t o = 0; o < out; ++o)
                    add_multiple(weight.at(g * out + o, 0, kh, kw), result[o], pixel, in);
        }
    });
}

/// result = products + beta · result.
void convolve(Pass pass, const Tensor& x, const Tensor& weight, const Tensor& y,
              const Descriptor& convolution, double beta) {
    const Tensor& result = pass == Pass::forward ? y : pass == Pass::data ? x : weight;
    const auto operand = [&](const Tensor& tensor) {
        return &tensor == &result ? Values(tensor.dims) : values_of(tensor);
    };
    Values of_x = operand(x), of_weight = operand(weight), of_y = operand(y);
    sum_products(pass, of_x, of_weight, of_y, convolution);
    Values& sums = pass == Pass::forward ? of_y : pass == Pass::data ? of_x : of_weight;
    for_elements(result.dims, [&](auto... at) {
        const double before = beta == 0 ? 0 : beta * result.get(at...);
        result.set(at..., *sums.at(at...) + before);
    });
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

std::string name_of_engine(std::int64_t number) {
    return "convolution engine " + std::to_string(number);
}

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
            return give(std::vector{workspace_of(
                            name_of_engine(one.child(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG).engine))},
                        most, count, values);
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
    const std::string engine = name_of_engine(config.engine);
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
