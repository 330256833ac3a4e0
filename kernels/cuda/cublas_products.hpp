#pragma once
// Matrix products by cuBLASLt, on row-major matrices, with what its epilogues add: a bias; GELU by tanh, or
// its derivative.
//
// Its GELU is the approximation by tanh (cuBLAS documentation, "cublasLtEpilogue_t"): the exact one is a pass
// of its own (activations.hpp). So is ReLU: cuBLASLt's is max(x, 0), of which nothing says that a NaN stays
// one, and a diverged run must show.

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "cuda_context.hpp"

namespace tutti::cuda {

/// How inputs of products are rounded first. Sums are in fp32 in all cases.
enum class ProductType { fp32, tf32, bf16 };

/// A matrix of a product as it lies in memory: rows (of the memory, transposed or not) are `row` elements
/// apart, the matrices of a batch `batch` elements.
struct ProductOperand {
    std::int64_t row = 0, batch = 0;
    bool transposed = false;
    auto operator<=>(const ProductOperand&) const = default;
};

enum class ProductEpilogue {
    none,
    bias,           ///< c += bias[n] on each row
    gelu,           ///< c becomes gelu(c), by tanh
    bias_gelu,      ///< both, the bias first
    gelu_aux,       ///< as gelu; aux gets c before it
    bias_gelu_aux,  ///< as bias_gelu; aux gets c between them
    gelu_gradient,  ///< c becomes c·gelu'(aux)
};

/// c[m, n] = factor · a[m, k] · b[k, n], for each of `batch` triples; with `adds` plus another matrix that
/// lies as c does, before the epilogue.
struct Product {
    std::int64_t m = 0, n = 0, k = 0;
    ProductOperand a, b, c;  ///< c is not transposed
    std::int64_t batch = 1;
    ProductType type = ProductType::fp32;  ///< bf16: a and b are bf16 in memory
    ProductEpilogue epilogue = ProductEpilogue::none;
    bool adds = false;
    DType result = DType::f32;  ///< of c, what it adds, bias and aux in memory; bf16 only with products in it
    auto operator<=>(const Product&) const = default;
};

/// What is read or written beside the operands, where the product says so: bias and aux[m, n] as its epilogue
/// does, the rows of aux as far apart as those of c; what it adds, which is not c.
struct ProductExtras {
    std::byte* bias = nullptr;
    std::byte* aux = nullptr;
    const std::byte* addend = nullptr;
};

/// Plans live as long as this; each is chosen once per product and alignment of its operands: cuBLASLt's
/// first choice, or by trials where the context has them.
class CublasProducts {
  public:
    explicit CublasProducts(std::shared_ptr<CudaContext> context);
    ~CublasProducts();

    /// In the context's stream. m, n, k and batch are at least 1. Throws GpuError that names the product.
    void multiply(const Product& product, float factor, const std::byte* a, const std::byte* b, std::byte* c,
                  const ProductExtras& extras = {});
    /// The same; where cuBLASLt does not compute the product with its epilogue (GpuError::unsupported),
    /// nothing is done, and why it refuses is returned.
    std::optional<std::string> try_to_multiply(const Product& product, float factor, const std::byte* a,
                                               const std::byte* b, std::byte* c, const ProductExtras& extras);

  private:
    struct Plan;
    struct Key {
        Product product;
        std::uint32_t a, b, c, bias, aux, addend;  ///< alignment in bytes
        auto operator<=>(const Key&) const = default;
    };
    std::unique_ptr<Plan> make_plan(const Key& key, const ProductExtras& extras, std::size_t most_choices);

    std::shared_ptr<CudaContext> context_;
    std::map<Key, std::unique_ptr<Plan>> plans_;
};

}  // namespace tutti::cuda
