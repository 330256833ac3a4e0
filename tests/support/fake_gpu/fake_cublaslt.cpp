// cuBLASLt's matrix product, as far as kernels/cuda calls it: column-major, with sums in double.

#include <cublasLt.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "fake_gpu.hpp"

namespace {

using namespace tutti::fake_gpu;

// The opaque descriptors of the real library are larger than these.
struct Operation {
    cublasComputeType_t compute;
    std::int32_t transpose_a = CUBLAS_OP_N, transpose_b = CUBLAS_OP_N;
    std::uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
    void* bias = nullptr;
    std::int32_t bias_type = CUDA_R_32F;
    void* aux = nullptr;
    std::int64_t aux_leading = 0;
};
struct Layout {
    cudaDataType type;
    std::uint64_t rows, columns;
    std::int64_t leading;
    std::int32_t batch = 1;
    std::int64_t stride = 0;
};
struct Preference {
    std::uint64_t workspace = 0;
    std::uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_MASK;
    std::uint32_t alignment[4] = {256, 256, 256, 256};
};
/// What the heuristic was told of the operands: the product must keep it. `number` is its place among those
/// named, best first.
struct Choice {
    std::uint32_t magic;
    int number;
    Preference preference;
};
constexpr std::uint32_t magic = 0x7f4a7c15;

float rounded_to_tf32(float value) {
    std::uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    bits = (bits + 0xfff + ((bits >> 13) & 1)) & ~std::uint32_t{0x1fff};
    std::memcpy(&value, &bits, sizeof bits);
    return value;
}

double value_of(std::int32_t type, const void* data, std::int64_t at) {
    if (type == CUDA_R_32F) return static_cast<double>(static_cast<const float*>(data)[at]);
    const std::uint32_t bits = std::uint32_t{static_cast<const std::uint16_t*>(data)[at]} << 16;
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return static_cast<double>(value);
}

/// Rounded once, to the nearest, ties to even.
void set_value(std::int32_t type, void* data, std::int64_t at, double exact) {
    const auto value = static_cast<float>(exact);
    if (type == CUDA_R_32F) {
        static_cast<float*>(data)[at] = value;
        return;
    }
    std::uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    bits = value != value ? bits | 0x400000 : bits + 0x7fff + ((bits >> 16) & 1);
    static_cast<std::uint16_t*>(data)[at] = static_cast<std::uint16_t>(bits >> 16);
}

double element(const Layout& layout, const void* data, std::int64_t row, std::int64_t column,
               std::int64_t batch, bool tf32) {
    const std::int64_t at = batch * layout.stride + column * layout.leading + row;
    const double value = value_of(layout.type, data, at);
    return tf32 ? static_cast<double>(rounded_to_tf32(static_cast<float>(value))) : value;
}

bool aligned(const void* data, std::uint32_t to) {
    return reinterpret_cast<std::uintptr_t>(data) % to == 0;
}

template <class Opaque>
auto* as_operation(Opaque* descriptor) {
    return reinterpret_cast<Operation*>(descriptor);
}
const Layout& as_layout(cublasLtMatrixLayout_t layout) {
    return *reinterpret_cast<const Layout*>(layout);
}

/// Sizes that fit each other, as op(A) · op(B) = D.
bool fits(const Operation& operation, const Layout& a, const Layout& b, const Layout& d) {
    const auto rows = [](const Layout& l, std::int32_t t) { return t == CUBLAS_OP_N ? l.rows : l.columns; };
    const auto columns = [](const Layout& l, std::int32_t t) {
        return t == CUBLAS_OP_N ? l.columns : l.rows;
    };
    const auto leads = [](const Layout& l) { return l.leading >= static_cast<std::int64_t>(l.rows); };
    return rows(a, operation.transpose_a) == d.rows && columns(b, operation.transpose_b) == d.columns &&
           columns(a, operation.transpose_a) == rows(b, operation.transpose_b) && leads(a) && leads(b) &&
           leads(d) && a.batch == d.batch && b.batch == d.batch && a.type == b.type &&
           (d.type == CUDA_R_32F || (d.type == CUDA_R_16BF && a.type == CUDA_R_16BF));
}

bool has_bias(std::uint32_t epilogue) {
    return (epilogue & CUBLASLT_EPILOGUE_BIAS) != 0;
}
bool has_aux(std::uint32_t epilogue) {
    return epilogue == CUBLASLT_EPILOGUE_GELU_AUX || epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS ||
           epilogue == CUBLASLT_EPILOGUE_DGELU;
}
/// What cublasLt.h asks for each epilogue; of a bias and aux the addresses, from which it reads the
/// alignment.
bool takes_epilogue(const Operation& operation, const Layout& d) {
    const std::uint32_t epilogue = operation.epilogue;
    if (epilogue == CUBLASLT_EPILOGUE_DEFAULT) return true;
    if (!has_aux(epilogue) && epilogue != CUBLASLT_EPILOGUE_BIAS && epilogue != CUBLASLT_EPILOGUE_GELU &&
        epilogue != CUBLASLT_EPILOGUE_GELU_BIAS)
        return false;
    const bool bias = !has_bias(epilogue) || (operation.bias && operation.bias_type == d.type);
    const bool aux = !has_aux(epilogue) ||
                     (operation.aux && aligned(operation.aux, 16) && operation.aux_leading % 8 == 0 &&
                      operation.aux_leading >= static_cast<std::int64_t>(d.rows));
    return bias && aux && d.batch == 1;
}

/// GELU by tanh and its derivative (cublasLtEpilogue_t), as their formulas are.
double gelu(double x) {
    return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}
double gelu_slope(double x) {
    const double root = std::sqrt(2 / M_PI), t = std::tanh(root * (x + 0.044715 * x * x * x));
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * root * (1 + 3 * 0.044715 * x * x);
}

}  // namespace

#define FAIL_IF_ASKED(function) \
    if (const int code = failure_of(function)) return static_cast<cublasStatus_t>(code)

extern "C" {

const char* cublasLtGetStatusName(cublasStatus_t status) {
    return status == CUBLAS_STATUS_NOT_SUPPORTED      ? "CUBLAS_STATUS_NOT_SUPPORTED"
           : status == CUBLAS_STATUS_EXECUTION_FAILED ? "CUBLAS_STATUS_EXECUTION_FAILED"
           : status == CUBLAS_STATUS_ALLOC_FAILED     ? "CUBLAS_STATUS_ALLOC_FAILED"
           : status == CUBLAS_STATUS_INVALID_VALUE    ? "CUBLAS_STATUS_INVALID_VALUE"
                                                      : "another cuBLAS status";
}
const char* cublasLtGetStatusString(cublasStatus_t) {
    return "as the fake was asked";
}

std::size_t cublasLtGetVersion() {
    return 120804;
}
cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
    FAIL_IF_ASKED("cublasLtCreate");
    *handle = reinterpret_cast<cublasLtHandle_t>(new int(0));
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
    delete reinterpret_cast<int*>(handle);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* descriptor, cublasComputeType_t compute,
                                        cudaDataType_t) {
    *descriptor = reinterpret_cast<cublasLtMatmulDesc_t>(new Operation{.compute = compute});
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t descriptor) {
    delete as_operation(descriptor);
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t descriptor,
                                              cublasLtMatmulDescAttributes_t name, const void* value,
                                              std::size_t size) {
    FAIL_IF_ASKED("cublasLtMatmulDescSetAttribute");
    Operation& operation = *as_operation(descriptor);
    const auto take = [&](auto& to) {
        if (size != sizeof to) return CUBLAS_STATUS_INVALID_VALUE;
        std::memcpy(&to, value, size);
        return CUBLAS_STATUS_SUCCESS;
    };
    switch (name) {
        case CUBLASLT_MATMUL_DESC_TRANSA:
            return take(operation.transpose_a);
        case CUBLASLT_MATMUL_DESC_TRANSB:
            return take(operation.transpose_b);
        case CUBLASLT_MATMUL_DESC_EPILOGUE:
            return take(operation.epilogue);
        case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
            return take(operation.bias);
        case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
            return take(operation.bias_type);
        case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
            return take(operation.aux);
        case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD:
            return take(operation.aux_leading);
        default:
            return CUBLAS_STATUS_INVALID_VALUE;
    }
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType type,
                                          std::uint64_t rows, std::uint64_t columns, std::int64_t leading) {
    *layout = reinterpret_cast<cublasLtMatrixLayout_t>(new Layout{type, rows, columns, leading});
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
    delete reinterpret_cast<Layout*>(layout);
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t name, const void* value,
                                                std::size_t size) {
    auto& to = *reinterpret_cast<Layout*>(layout);
    if (name == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT && size == sizeof to.batch)
        std::memcpy(&to.batch, value, size);
    else if (name == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET && size == sizeof to.stride)
        std::memcpy(&to.stride, value, size);
    else
        return CUBLAS_STATUS_INVALID_VALUE;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
    *preference = reinterpret_cast<cublasLtMatmulPreference_t>(new Preference);
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
    delete reinterpret_cast<Preference*>(preference);
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t name,
                                                    const void* value, std::size_t size) {
    auto& to = *reinterpret_cast<Preference*>(preference);
    if (name == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES && size == sizeof to.workspace)
        std::memcpy(&to.workspace, value, size);
    else if (name == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK && size == sizeof to.reductions)
        std::memcpy(&to.reductions, value, size);
    else if (name >= CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES &&
             name <= CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES && size == sizeof to.alignment[0])
        std::memcpy(&to.alignment[name - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES], value, size);
    else
        return CUBLAS_STATUS_INVALID_VALUE;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t operation,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int most,
                                              cublasLtMatmulHeuristicResult_t results[], int* found) {
    FAIL_IF_ASKED("cublasLtMatmulAlgoGetHeuristic");
    if (!fits(*as_operation(operation), as_layout(a), as_layout(b), as_layout(d)))
        return CUBLAS_STATUS_INVALID_VALUE;
    if (!takes_epilogue(*as_operation(operation), as_layout(d))) return CUBLAS_STATUS_NOT_SUPPORTED;
    // The scheme "in place" does not repeat its bits.
    if (reinterpret_cast<Preference*>(preference)->reductions & CUBLASLT_REDUCTION_SCHEME_INPLACE)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    *found = std::min(most, 3);
    for (int number = 0; number < *found; ++number) {
        const Choice choice{magic, number, *reinterpret_cast<Preference*>(preference)};
        static_assert(sizeof choice <= sizeof results[number].algo);
        std::memcpy(&results[number].algo, &choice, sizeof choice);
        results[number].state = CUBLAS_STATUS_SUCCESS;
    }
    note_host("choose a product");
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t descriptor, const void* alpha,
                              const void* a_data, cublasLtMatrixLayout_t a_layout, const void* b_data,
                              cublasLtMatrixLayout_t b_layout, const void* beta, const void* c_data,
                              cublasLtMatrixLayout_t c_layout, void* d_data, cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t* algo, void* workspace, std::size_t workspace_bytes,
                              cudaStream_t stream) {
    FAIL_IF_ASKED("cublasLtMatmul");
    const Operation& operation = *as_operation(descriptor);
    const Layout &a = as_layout(a_layout), &b = as_layout(b_layout), &c = as_layout(c_layout),
                 &d = as_layout(d_layout);
    const float keep = *static_cast<const float*>(beta);
    const bool like_d = c.type == d.type && c.rows == d.rows && c.columns == d.columns && c.batch == d.batch;
    Choice choice;
    std::memcpy(static_cast<void*>(&choice), algo, sizeof choice);
    const auto& need = choice.preference.alignment;
    if (choice.magic != magic || !fits(operation, a, b, d) || !like_d || (keep != 0 && c_data == d_data) ||
        !workspace || workspace_bytes < choice.preference.workspace || !aligned(a_data, need[0]) ||
        !takes_epilogue(operation, d) || !aligned(b_data, need[1]) || !aligned(c_data, need[2]) ||
        !aligned(d_data, need[3]))
        return CUBLAS_STATUS_INVALID_VALUE;
    const std::string chosen = "product choice " + std::to_string(choice.number);
    FAIL_IF_ASKED("run " + chosen);
    const auto compute = [=, operation = operation, a = a, b = b, c = c, d = d,
                          factor = *static_cast<const float*>(alpha)] {
        const bool tf32 = operation.compute == CUBLAS_COMPUTE_32F_FAST_TF32;
        const std::uint32_t epilogue = operation.epilogue;
        const bool add_bias = (epilogue & CUBLASLT_EPILOGUE_BIAS) != 0;
        const bool add_gelu = (epilogue & CUBLASLT_EPILOGUE_GELU) != 0;
        const auto rows = static_cast<std::int64_t>(d.rows), columns = static_cast<std::int64_t>(d.columns);
        const bool a_t = operation.transpose_a == CUBLAS_OP_T, b_t = operation.transpose_b == CUBLAS_OP_T;
        const auto inner = static_cast<std::int64_t>(a_t ? a.rows : a.columns);
        for (std::int64_t n = 0; n < d.batch; ++n)
            for (std::int64_t j = 0; j < columns; ++j)
                for (std::int64_t i = 0; i < rows; ++i) {
                    double sum = 0;
                    for (std::int64_t k = 0; k < inner; ++k)
                        sum += element(a, a_data, a_t ? k : i, a_t ? i : k, n, tf32) *
                               element(b, b_data, b_t ? j : k, b_t ? k : j, n, tf32);
                    sum *= static_cast<double>(factor);
                    // With a factor of 0 it is not read (cuBLAS documentation, "cublasLtMatmul").
                    if (keep != 0) sum += static_cast<double>(keep) * element(c, c_data, i, j, n, false);
                    if (add_bias) sum += value_of(d.type, operation.bias, i);
                    const std::int64_t of_aux = j * operation.aux_leading + i;
                    if (add_gelu) {
                        if (has_aux(epilogue)) set_value(d.type, operation.aux, of_aux, sum);
                        sum = gelu(sum);
                    } else if (epilogue == CUBLASLT_EPILOGUE_DGELU) {
                        sum *= gelu_slope(value_of(d.type, operation.aux, of_aux));
                    }
                    set_value(d.type, d_data, n * d.stride + j * d.leading + i, sum);
                }
        spend(chosen);
    };
    return issue(stream, "product", compute) == 0 ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}

}  // extern "C"
