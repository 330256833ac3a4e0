#pragma once
// Batch normalisation's loops over rows of channels, in vectors of channels: what batch_norm.cpp hands out to
// threads. Rows lie in memory in T, or as Bf16Value where T is float.

#include <cstdint>
#include <type_traits>

#include "bf16_value.hpp"

namespace tutti {

/// In which values that lie in memory as S are summed up: bf16, whose rounding is far coarser, in fp32 over
/// some rows at a time.
template <class S>
using RowSum = std::conditional_t<std::is_same_v<S, Bf16Value>, float, double>;

/// Per channel: y = (x − mean)·scale + offset.
template <class T>
struct RowNormalizer {
    const T *mean, *scale, *offset;
};

/// y[rows, channels], or with relu the greater of that and 0 (a NaN stays).
template <class T, class S>
void normalize_rows(std::int64_t rows, std::int64_t channels, const S* x, const RowNormalizer<T>& normalizer,
                    bool relu, S* y);

/// first[channels] += Σ (x − shift), second[channels] += Σ (x − shift)².
template <class T, class S>
void add_row_moments(std::int64_t rows, std::int64_t channels, const S* x, const T* shift, RowSum<S>* first,
                     RowSum<S>* second);

/// first += Σ g, second += Σ g·(x − mean) with g = dy, or with `relu` 0 where y of that normalizer is not
/// above 0 (nor NaN). `mean` is that of the sums.
template <class T, class S>
void add_row_gradients(std::int64_t rows, std::int64_t channels, const S* x, const S* dy,
                       const RowNormalizer<T>* relu, const RowSum<S>* mean, RowSum<S>* first,
                       RowSum<S>* second);

/// dx = scale·(g − offset − (x − mean)·slope), with the same g. dx may be dy.
template <class T>
struct RowGradient {
    const T *mean, *scale, *offset, *slope;
};
template <class T, class S>
void gradient_rows(std::int64_t rows, std::int64_t channels, const S* x, const S* dy,
                   const RowNormalizer<T>* relu, const RowGradient<T>& gradient, S* dx);

}  // namespace tutti
