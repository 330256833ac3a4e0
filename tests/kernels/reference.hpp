#pragma once
// Linear and convolution by their definitions, as independent of the kernels as can be: one list of products
// x[i]·w[j] -> y[k] gives the output and all gradients. Some tests sum a hundred million of them, also under
// the sanitizers: an element is read once, and the list has a call for each dot product instead of each
// product.

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

/// ‖tensor − expected‖ / ‖expected‖: for kernels that spread errors, so that a single small element has no
/// bound of its own.
template <class Number>
double relative_error(const Number& number, const Sums& expected) {
    double errors = 0, squares = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
        errors += std::pow(number(i) - expected[i].value, 2);
        squares += std::pow(expected[i].value, 2);
    }
    return std::sqrt(errors / squares);
}
inline double relative_error(const TestTensor& tensor, const Sums& expected) {
    const std::vector<double> values = tensor.values();
    return relative_error([&](std::size_t i) { return values[i]; }, expected);
}
inline double relative_error(const Sums& sums, const Sums& expected) {
    return relative_error([&](std::size_t i) { return sums[i].value; }, expected);
}

/// Calls visit(i, j, k, n) for every dot product in the definition of y: y[k] has x[i + c]·w[j + c], 0 ≤ c <
/// n.
using VisitDotProduct = std::function<void(std::size_t, std::size_t, std::size_t, std::size_t)>;
void for_each_dot_product(const LinearShape& shape, std::int64_t batch, const VisitDotProduct& visit);
void for_each_dot_product(const Conv2dShape& shape, std::int64_t batch, const VisitDotProduct& visit);

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
    const std::vector<double> xs = x.values(), weights = weight.values();
    for_each_dot_product(shape, batch, [&](std::size_t i, std::size_t j, std::size_t k, std::size_t n) {
        const double *x_row = &xs[i], *weight_row = &weights[j];
        Sum sum = y[k];
        for (std::size_t c = 0; c < n; ++c) sum.add(x_row[c] * weight_row[c]);
        y[k] = sum;
    });
    if (shape.bias) {
        const std::vector<double> biases = bias.values();
        for (std::size_t k = 0; k < y.size(); ++k) y[k].add(biases[k % biases.size()]);
    }
    return y;
}

template <class OpShape>
Gradients reference_backward(const OpShape& shape, std::int64_t batch, const TestTensor& x,
                             const TestTensor& weight, const TestTensor& dy) {
    Gradients gradients{Sums(x.size()), Sums(weight.size()), Sums(static_cast<std::size_t>(shape.out))};
    const std::vector<double> xs = x.values(), weights = weight.values(), dys = dy.values();
    for_each_dot_product(shape, batch, [&](std::size_t i, std::size_t j, std::size_t k, std::size_t n) {
        const double *x_row = &xs[i], *weight_row = &weights[j], gradient = dys[k];
        Sum *dx_row = &gradients.dx[i], *dweight_row = &gradients.dweight[j];
        for (std::size_t c = 0; c < n; ++c) {
            dx_row[c].add(gradient * weight_row[c]);
            dweight_row[c].add(gradient * x_row[c]);
        }
    });
    for (std::size_t k = 0; k < dys.size(); ++k) gradients.dbias[k % gradients.dbias.size()].add(dys[k]);
    return gradients;
}

/// Sums of n products in any order, with or without fused operations, differ from the exact sum by at most
/// γₙ₊₁ Σ|tᵢ| with γₙ = n·u/(1 − n·u) (Higham, Accuracy and Stability of Numerical Algorithms, 3.1). Twice
/// that, because the reference rounds too.
void expect_sums(const TestTensor& tensor, const Sums& expected, double unit_roundoff);

}  // namespace tutti::test
