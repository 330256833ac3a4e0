#include <algorithm>
#include <cmath>

#include "../common/layer_norm_math.hpp"
#include "eigen_ops.hpp"
#include "parallel.hpp"

namespace tutti {
namespace {

template <class T>
T sum_of(const T* x, std::int64_t count) {
    T sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t i = 0; i < count; ++i) sum += x[i];
    return sum;
}

/// Σ (x − mean)²: around the mean, because Σ x² − (Σ x)² cancels.
template <class T>
T squares_around(const T* x, std::int64_t count, T mean) {
    T sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t i = 0; i < count; ++i) sum += (x[i] - mean) * (x[i] - mean);
    return sum;
}

/// One row of backward. With x̂ = (x − mean)·scale and g = dy·gamma:
/// dx = scale·(g − mean(g) − x̂·mean(g·x̂)) + addend, where there is one; dgamma += dy·x̂; dbeta += dy.
template <class T>
void backward_row(const T* x, const T* gamma, const T* dy, std::int64_t width, T mean, T scale,
                  const T* addend, T* dx, T* dgamma, T* dbeta) {
    const LayerNormRow<T> norm{mean, scale};
#pragma omp simd
    for (std::int64_t i = 0; i < width; ++i) {
        dgamma[i] += dy[i] * norm.normalized(x[i]);
        dbeta[i] += dy[i];
    }
    if (!dx) return;
    T sum = 0, product_sum = 0;
#pragma omp simd reduction(+ : sum, product_sum)
    for (std::int64_t i = 0; i < width; ++i) {
        const T g = dy[i] * gamma[i];
        sum += g;
        product_sum += g * norm.normalized(x[i]);
    }
    const T g_mean = sum / static_cast<T>(width), g_slope = product_sum / static_cast<T>(width);
    if (!addend) {
#pragma omp simd
        for (std::int64_t i = 0; i < width; ++i)
            dx[i] = norm.backward(x[i], dy[i] * gamma[i], g_mean, g_slope);
        return;
    }
#pragma omp simd
    for (std::int64_t i = 0; i < width; ++i)
        dx[i] = norm.backward(x[i], dy[i] * gamma[i], g_mean, g_slope) + addend[i];
}

}  // namespace

template <class T>
void EigenOps<T>::layer_norm_forward(const TensorView& x, const TensorView& gamma, const TensorView& beta,
                                     double eps, const TensorView& y, const TensorView& statistics) {
    const std::int64_t width = gamma.count();
    const std::int64_t rows = x.count() / width;
    assert(x.count() == rows * width && y.count() == x.count() && beta.count() == width);
    assert(statistics.count() == 2 * rows);
    const T* in = x.as<T>();
    const T* g = gamma.as<T>();
    const T* b = beta.as<T>();
    T* out = y.as<T>();
    double* kept = statistics.as<double>();
    for_ranges(
        rows,
        [=](std::int64_t begin, std::int64_t end) {
            for (std::int64_t row = begin; row < end; ++row) {
                const T* from = in + row * width;
                T* to = out + row * width;
                const T mean = sum_of(from, width) / static_cast<T>(width);
                const T variance = squares_around(from, width, mean) / static_cast<T>(width);
                const T scale = T(1) / std::sqrt(variance + static_cast<T>(eps));
                kept[2 * row] = static_cast<double>(mean);
                kept[2 * row + 1] = static_cast<double>(scale);
                const LayerNormRow<T> norm{mean, scale};
#pragma omp simd
                for (std::int64_t i = 0; i < width; ++i) to[i] = norm.forward(from[i], g[i], b[i]);
            }
        },
        width);
}

template <class T>
void EigenOps<T>::layer_norm_backward(const TensorView& x, const TensorView& gamma,
                                      const TensorView& statistics, const TensorView& dy,
                                      const TensorView& dx, const TensorView& dgamma, const TensorView& dbeta,
                                      const TensorView& addend) {
    const std::int64_t width = gamma.count();
    const std::int64_t rows = x.count() / width;
    assert(dy.count() == x.count() && statistics.count() == 2 * rows && dgamma.count() == width &&
           dbeta.count() == width && (!dx.defined() || dx.count() == x.count()) &&
           (!addend.defined() || addend.count() == x.count()));
    const T* in = x.as<T>();
    const T* g = gamma.as<T>();
    const T* dout = dy.as<T>();
    T* din = dx.defined() ? dx.as<T>() : nullptr;
    const T* added = addend.defined() ? addend.as<T>() : nullptr;
    const double* kept = statistics.as<double>();
    // Each share sums its rows into its own row of `partial`, and these are added in order.
    const std::int64_t shares = rows * width > elements_worth_threads ? omp_get_max_threads() : 1;
    T* partial = workspace_->reserve_elements<T>(static_cast<std::size_t>(2 * width * shares));
    for_shares(rows, shares, [=](std::int64_t share, std::int64_t begin, std::int64_t end) {
        T* sums = partial + 2 * width * share;
        std::fill_n(sums, 2 * width, T(0));
        run_parts(
            [=](std::int64_t first, std::int64_t last) {
                for (std::int64_t row = first; row < last; ++row)
                    backward_row(in + row * width, g, dout + row * width, width,
                                 static_cast<T>(kept[2 * row]), static_cast<T>(kept[2 * row + 1]),
                                 added ? added + row * width : nullptr, din ? din + row * width : nullptr,
                                 sums, sums + width);
            },
            begin, end, width);
    });
    T* gamma_sum = dgamma.as<T>();
    T* beta_sum = dbeta.as<T>();
    std::copy_n(partial, width, gamma_sum);
    std::copy_n(partial + width, width, beta_sum);
    for (std::int64_t share = 1; share < shares; ++share) {
        const T* sums = partial + 2 * width * share;
#pragma omp simd
        for (std::int64_t i = 0; i < width; ++i) {
            gamma_sum[i] += sums[i];
            beta_sum[i] += sums[width + i];
        }
    }
}

#define TUTTI_INSTANTIATE(T)                                                                                \
    template void EigenOps<T>::layer_norm_forward(const TensorView&, const TensorView&, const TensorView&,  \
                                                  double, const TensorView&, const TensorView&);            \
    template void EigenOps<T>::layer_norm_backward(const TensorView&, const TensorView&, const TensorView&, \
                                                   const TensorView&, const TensorView&, const TensorView&, \
                                                   const TensorView&, const TensorView&)
TUTTI_INSTANTIATE(float);
TUTTI_INSTANTIATE(double);
#undef TUTTI_INSTANTIATE

}  // namespace tutti
