#include "cublas_products.hpp"

#include <vector>

#include "gpu_error.hpp"

// cuBLASLt computes on column-major matrices. A row-major c = a·b is, read by columns, cᵀ = bᵀ·aᵀ: so b is
// its first operand, a its second, and a bias per column of c is one per row of its result, which is the kind
// it can add.

namespace tutti::cuda {
namespace {

/// NVIDIA's recommendation for Hopper and later (cuBLAS documentation, "cublasSetWorkspace").
constexpr std::size_t workspace_bytes = 32 << 20;

std::string describe(const Product& p) {
    const std::string shape = std::to_string(p.m) + " x " + std::to_string(p.k) + " by " +
                              std::to_string(p.k) + " x " + std::to_string(p.n);
    const auto epilogue = [&] {
        switch (p.epilogue) {
            case ProductEpilogue::gelu:
            case ProductEpilogue::bias_gelu:
            case ProductEpilogue::gelu_aux:
            case ProductEpilogue::bias_gelu_aux:
                return " with GELU";
            case ProductEpilogue::gelu_gradient:
                return " with the derivative of GELU";
            default:
                return p.adds ? " with a sum" : "";
        }
    };
    return "the product " + shape + (p.batch > 1 ? ", " + std::to_string(p.batch) + " times" : "") +
           epilogue();
}

bool has_bias(ProductEpilogue epilogue) {
    return epilogue == ProductEpilogue::bias || epilogue == ProductEpilogue::bias_gelu ||
           epilogue == ProductEpilogue::bias_gelu_aux;
}
bool has_aux(ProductEpilogue epilogue) {
    return epilogue == ProductEpilogue::gelu_aux || epilogue == ProductEpilogue::bias_gelu_aux ||
           epilogue == ProductEpilogue::gelu_gradient;
}
/// cublasLtMatmulDescAttributes_t: "Must be divisible by 8".
constexpr std::int64_t aux_row_multiple = 8;

cublasLtEpilogue_t name_of(ProductEpilogue epilogue) {
    switch (epilogue) {
        case ProductEpilogue::bias:
            return CUBLASLT_EPILOGUE_BIAS;
        case ProductEpilogue::gelu:
            return CUBLASLT_EPILOGUE_GELU;
        case ProductEpilogue::bias_gelu:
            return CUBLASLT_EPILOGUE_GELU_BIAS;
        case ProductEpilogue::gelu_aux:
            return CUBLASLT_EPILOGUE_GELU_AUX;
        case ProductEpilogue::bias_gelu_aux:
            return CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
        case ProductEpilogue::gelu_gradient:
            return CUBLASLT_EPILOGUE_DGELU;
        default:
            return CUBLASLT_EPILOGUE_DEFAULT;
    }
}

/// The largest power of two, up to 256, that divides the address.
std::uint32_t alignment_of(const std::byte* data) {
    const auto address = reinterpret_cast<std::uintptr_t>(data) | 256;
    return static_cast<std::uint32_t>(address & (~address + 1));
}

class Layout {
  public:
    /// The operand with `rows` and `columns` as a row-major matrix in memory.
    Layout(cudaDataType type, std::int64_t rows, std::int64_t columns, const ProductOperand& operand,
           std::int64_t batch) {
        if (operand.transposed) std::swap(rows, columns);
        check(cublasLtMatrixLayoutCreate(&layout_, type, static_cast<std::uint64_t>(columns),
                                         static_cast<std::uint64_t>(rows), operand.row),
              "cublasLtMatrixLayoutCreate");
        if (batch == 1) return;
        const auto count = static_cast<std::int32_t>(batch);
        set(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, count);
        set(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, operand.batch);
    }
    ~Layout() { cublasLtMatrixLayoutDestroy(layout_); }
    Layout(const Layout&) = delete;
    Layout& operator=(const Layout&) = delete;
    cublasLtMatrixLayout_t get() const { return layout_; }

  private:
    template <class T>
    void set(cublasLtMatrixLayoutAttribute_t attribute, const T& value) {
        check(cublasLtMatrixLayoutSetAttribute(layout_, attribute, &value, sizeof value),
              "cublasLtMatrixLayoutSetAttribute");
    }
    cublasLtMatrixLayout_t layout_ = nullptr;
};

cudaDataType input_type(const Product& p) {
    return p.type == ProductType::bf16 ? CUDA_R_16BF : CUDA_R_32F;
}
cudaDataType result_type(const Product& p) {
    return p.result == DType::bf16 ? CUDA_R_16BF : CUDA_R_32F;
}

class Operation {
  public:
    explicit Operation(const Product& p) {
        check(
            cublasLtMatmulDescCreate(
                &operation_, p.type == ProductType::tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F,
                CUDA_R_32F),
            "cublasLtMatmulDescCreate");
        set(CUBLASLT_MATMUL_DESC_TRANSA, p.b.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
        set(CUBLASLT_MATMUL_DESC_TRANSB, p.a.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
        if (p.epilogue == ProductEpilogue::none) return;
        set(CUBLASLT_MATMUL_DESC_EPILOGUE, name_of(p.epilogue));
        if (has_bias(p.epilogue)) set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, result_type(p));
        // Its elements are of the result's type where nothing is said.
        if (has_aux(p.epilogue)) set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, p.c.row);
    }
    ~Operation() { cublasLtMatmulDescDestroy(operation_); }
    Operation(const Operation&) = delete;
    Operation& operator=(const Operation&) = delete;

    void set_extras(const ProductExtras& extras) {
        if (extras.bias) set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, extras.bias);
        if (extras.aux) set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, extras.aux);
    }
    cublasLtMatmulDesc_t get() const { return operation_; }

  private:
    template <class T>
    void set(cublasLtMatmulDescAttributes_t attribute, const T& value) {
        check(cublasLtMatmulDescSetAttribute(operation_, attribute, &value, sizeof value),
              "cublasLtMatmulDescSetAttribute");
    }
    cublasLtMatmulDesc_t operation_ = nullptr;
};

class Preference {
  public:
    Preference() { check(cublasLtMatmulPreferenceCreate(&preference_), "cublasLtMatmulPreferenceCreate"); }
    ~Preference() { cublasLtMatmulPreferenceDestroy(preference_); }
    Preference(const Preference&) = delete;
    Preference& operator=(const Preference&) = delete;

    template <class T>
    void set(cublasLtMatmulPreferenceAttributes_t attribute, const T& value) {
        check(cublasLtMatmulPreferenceSetAttribute(preference_, attribute, &value, sizeof value),
              "cublasLtMatmulPreferenceSetAttribute");
    }
    cublasLtMatmulPreference_t get() const { return preference_; }

  private:
    cublasLtMatmulPreference_t preference_ = nullptr;
};

}  // namespace

struct CublasProducts::Plan {
    explicit Plan(const Product& p)
        : operation(p),
          first(input_type(p), p.k, p.n, p.b, p.batch),
          second(input_type(p), p.m, p.k, p.a, p.batch),
          result(result_type(p), p.m, p.n, p.c, p.batch) {}
    Operation operation;
    Layout first, second, result;
    /// The first is taken; others are there until trials were made.
    std::vector<cublasLtMatmulHeuristicResult_t> choices;
};

CublasProducts::CublasProducts(std::shared_ptr<CudaContext> context) : context_(std::move(context)) {}
CublasProducts::~CublasProducts() = default;

std::unique_ptr<CublasProducts::Plan> CublasProducts::make_plan(const Key& key, const ProductExtras& extras,
                                                                std::size_t most_choices) {
    auto plan = std::make_unique<Plan>(key.product);
    // The heuristic reads their alignment from their addresses.
    plan->operation.set_extras(extras);
    Preference preference;
    preference.set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace_bytes);
    // Parts of a sum are added in fp32, in a step of their own. (The scheme "in place" would add them in the
    // type of the output, of which bf16 rounds each sum.)
    preference.set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                   std::uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
    preference.set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, key.b);
    preference.set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, key.a);
    preference.set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, key.product.adds ? key.addend : key.c);
    preference.set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, key.c);
    plan->choices.resize(most_choices);
    int found = 0;
    const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
        context_->cublas(), plan->operation.get(), plan->first.get(), plan->second.get(), plan->result.get(),
        plan->result.get(), preference.get(), static_cast<int>(most_choices), plan->choices.data(), &found);
    plan->choices.resize(static_cast<std::size_t>(found));
    std::erase_if(plan->choices, [](const auto& choice) { return choice.state != CUBLAS_STATUS_SUCCESS; });
    check(status == CUBLAS_STATUS_SUCCESS && plan->choices.empty() ? CUBLAS_STATUS_NOT_SUPPORTED : status,
          "cublasLtMatmulAlgoGetHeuristic for " + describe(key.product));
    return plan;
}

std::optional<std::string> CublasProducts::try_to_multiply(const Product& product, float factor,
                                                           const std::byte* a, const std::byte* b,
                                                           std::byte* c, const ProductExtras& extras) {
    if (has_aux(product.epilogue) && product.c.row % aux_row_multiple != 0)
        return describe(product) + ": its rows are no multiple of " + std::to_string(aux_row_multiple);
    try {
        multiply(product, factor, a, b, c, extras);
        return std::nullopt;
    } catch (const GpuError& error) {
        if (!error.unsupported()) throw;
        return describe(product) + ": " + error.what();
    }
}

void CublasProducts::multiply(const Product& product, float factor, const std::byte* a, const std::byte* b,
                              std::byte* c, const ProductExtras& extras) {
    assert((extras.bias != nullptr) == has_bias(product.epilogue));
    assert((extras.aux != nullptr) == has_aux(product.epilogue));
    assert((extras.addend != nullptr) == product.adds && extras.addend != c);
    const Key key{product,
                  alignment_of(a),
                  alignment_of(b),
                  alignment_of(c),
                  extras.bias ? alignment_of(extras.bias) : 0,
                  extras.aux ? alignment_of(extras.aux) : 0,
                  extras.addend ? alignment_of(extras.addend) : 0};
    std::unique_ptr<Plan>& plan = plans_[key];
    EngineTrials* const trials = context_->trials();
    if (!plan) plan = make_plan(key, extras, trials ? EngineTrials::most_engines : 1);
    plan->operation.set_extras(extras);
    const float keep = product.adds ? 1.0f : 0.0f;
    const std::byte* const kept = product.adds ? extras.addend : c;
    const auto run = [&](std::size_t choice, std::byte* workspace) {
        check(cublasLtMatmul(context_->cublas(), plan->operation.get(), &factor, b, plan->first.get(), a,
                             plan->second.get(), &keep, kept, plan->result.get(), c, plan->result.get(),
                             &plan->choices[choice].algo, workspace, workspace_bytes, context_->stream()),
              "cublasLtMatmul of " + describe(product));
    };
    // As often as it likes where c depends on other operands alone.
    if (trials && plan->choices.size() > 1 && extras.aux != c) {
        const std::size_t fastest =
            trials->fastest({describe(product), plan->choices.size(), workspace_bytes, run});
        std::swap(plan->choices.front(), plan->choices[fastest]);
        plan->choices.resize(1);
    }
    run(0, context_->library_workspace().reserve(workspace_bytes));
}

}  // namespace tutti::cuda
