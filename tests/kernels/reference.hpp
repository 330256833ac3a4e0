#pragma once
// Linear and convolution by their definitions, as independent of the kernels as can be: one list of products
// x[i]·w[j] -> y[k] gives the output and all gradients.

#include <cmath>
#include <functional>
#include <vector>

#include "test_tensor.hpp"
#include "tutti/device/ops.hpp"

namespace tutti::test {

/// A sum, and what its rounding errors depend on.
struct Sum {
    double value = 0, magnitude = 0;  // Σ tᵢ, Σ |tᵢ|
    int terms = 0;
    void add(double term) {
        value += term;
        magnitude += std::abs(term);
        ++terms;
    }
};
using Sums = std::vector<Sum>;

/// Calls visit(index in x, index in weight, index in y) for every product in the definition of y.
using VisitProduct = std::function<void(std::size_t, std::size_t, std::size_t)>;
void for_each_product(const LinearShape& shape, std::int64_t batch, const VisitProduct& visit);
void for_each_product(const Conv2dShape& shape, std::int64_t batch, const VisitProduct& visit);

/// Tensor shapes for one batch size.
struct Extents {
    Shape x, weight, bias, y;
    explicit Extents(const LinearShape& shape, std::int64_t batch);
    explicit Extents(const Conv2dShape& shape, std::int64_t batch);
};

struct Gradients {
    Sums dx, dweight, dbias;
};

template <class OpShape>
Sums reference_forward(const OpShape& shape, std::int64_t batch, const TestTensor& x,
                       const TestTensor& weight, const TestTensor& bias) {
    Sums y(static_cast<std::size_t>(Extents(shape, batch).y.count()));
    for_each_product(shape, batch, [&](std::size_t i, std::size_t j, std::size_t k) {
        y[k].add(x.get(i) * weight.get(j));
    });
    if (shape.bias)
        for (std::size_t k = 0; k < y.size(); ++k) y[k].add(bias.get(k % bias.size()));
    return y;
}

template <class OpShape>
Gradients reference_backward(const OpShape& shape, std::int64_t batch, const TestTensor& x,
                             const TestTensor& weight, const TestTensor& dy) {
    Gradients gradients{Sums(x.size()), Sums(weight.size()), Sums(static_cast<std::size_t>(shape.out))};
    for_each_product(shape, batch, [&](std::size_t i, std::size_t j, std::size_t k) {
        gradients.dx[i].add(dy.get(k) * weight.get(j));
        gradients.dweight[j].add(dy.get(k) * x.get(i));
    });
    for (std::size_t k = 0; k < dy.size(); ++k) gradients.dbias[k % gradients.dbias.size()].add(dy.get(k));
    return gradients;
}

/// Sums of n products in any order, with or without fused operations, differ from the exact sum by at most
/// γₙ₊₁ Σ|tᵢ| with γₙ = n·u/(1 − n·u) (Higham, Accuracy and Stability of Numerical Algorithms, 3.1). Twice
/// that, because the reference rounds too.
void expect_sums(const TestTensor& tensor, const Sums& expected, double unit_roundoff);

}  // namespace tutti::test
