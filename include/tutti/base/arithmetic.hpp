#pragma once
// In which types a model computes.

#include "tutti/base/dtype.hpp"

namespace tutti {

/// Everything is stored and computed in `compute`; only the inputs of the products in linear layers and
/// convolutions, forward and backward, are first rounded to `products`. Their sums and results are in
/// `compute`. A DType alone is both.
struct Arithmetic {
    DType compute, products;

    constexpr Arithmetic(DType type) : compute(type), products(type) {}
    constexpr Arithmetic(DType compute_type, DType product_type)
        : compute(compute_type), products(product_type) {}
    friend constexpr bool operator==(const Arithmetic&, const Arithmetic&) = default;
};

}  // namespace tutti
