#pragma once
// In which types a model computes.

#include "tutti/base/dtype.hpp"

namespace tutti {

/// Everything is stored and computed in `compute`; only the inputs of the products in linear layers,
/// convolutions and attention, forward and backward, are first rounded to `products`. Their sums and results
/// are in `compute`; a GPU keeps the values between layers, and their gradients, in `products`
/// (Ops::activations), and its convolutions' weight gradients are rounded to it on their way. A DType alone
/// is both.
struct Arithmetic {
    DType compute, products;
    /// Inputs of f32 products, attention's too, may be rounded to TF32: fp32's range, 10 bits of mantissa.
    bool rounds_to_tf32 = false;

    constexpr Arithmetic(DType type) : compute(type), products(type) {}
    constexpr Arithmetic(DType compute_type, DType product_type)
        : compute(compute_type), products(product_type) {}
    static constexpr Arithmetic tf32() {
        Arithmetic result(DType::f32);
        result.rounds_to_tf32 = true;
        return result;
    }
    friend constexpr bool operator==(const Arithmetic&, const Arithmetic&) = default;
};

}  // namespace tutti
