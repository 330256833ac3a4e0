#include "batch_norm_rows.hpp"

#include "tile_numbers.hpp"
#include "tile_vector.hpp"

namespace tutti {
namespace {

/// Of a vector of a row's numbers; of those that are summed up.
template <class T>
inline constexpr std::int64_t row_lanes = lanes<T>;
template <class S>
inline constexpr std::int64_t sum_lanes = lanes<RowSum<S>>;

/// max(x, 0); a NaN stays.
template <class V>
V rectified(V x) {
    return x <= 0 ? V{} : x;
}

template <class T, std::int64_t Lanes, class Part>
Numbers<T, Lanes> normalized(const RowNormalizer<T>& n, std::int64_t at, Part part, Numbers<T, Lanes> x) {
    return (x - load_numbers<T, Lanes>(n.mean + at, part)) * load_numbers<T, Lanes>(n.scale + at, part) +
           load_numbers<T, Lanes>(n.offset + at, part);
}

/// Keeps the compiler from making one masked load of a load and a choice: that would wait for all that the
/// choice depends on.
template <class V>
V loaded(V x) {
#if defined(__x86_64__)
    asm("" : "+v"(x));
#endif
    return x;
}

/// What a loop over rows reads comes into the cache before it does: some rows of three tensors are read at a
/// time, of which the processor does not see early enough how they go on (measured on Zen 5: sums take a
/// fifth less time).
template <class S>
void ask_ahead(const S* at) {
    constexpr std::uintptr_t bytes = 8192;  // 16 KiB: as good; 4 KiB: half of that; 1 KiB: slower
    __builtin_prefetch(reinterpret_cast<const void*>(reinterpret_cast<std::uintptr_t>(at) + bytes));
}

template <bool Relu, class T, class S>
void normalize(std::int64_t rows, std::int64_t channels, const S* x, const RowNormalizer<T> n, S* y) {
    constexpr std::int64_t L = row_lanes<T>;
    for (std::int64_t row = 0; row < rows; ++row, x += channels, y += channels)
        for_vectors<L>(channels, [&](std::int64_t at, auto part) {
            auto value = normalized<T, L>(n, at, part, load_numbers<T, L>(x + at, part));
            if constexpr (Relu) value = rectified(value);
            store_numbers<L>(value, y + at, part);
        });
}

template <class V, class Sum, class Part>
void add_to(Sum* sums, const V& more, Part part) {
    constexpr auto L = static_cast<std::int64_t>(sizeof(V) / sizeof(Sum));
    store_numbers<L>(load_numbers<Sum, L>(sums, part) + more, sums, part);
}

template <bool Relu, class T, class S>
void add_gradients(std::int64_t rows, std::int64_t channels, const S* x, const S* dy,
                   const RowNormalizer<T> n, const RowSum<S>* mean, RowSum<S>* __restrict first,
                   RowSum<S>* __restrict second) {
    using Sum = RowSum<S>;
    constexpr std::int64_t L = sum_lanes<S>;
    using Sums = Numbers<Sum, L>;
    struct Terms {
        Sums gradient, weighted;
    };
    const auto terms = [&](const S* of_x, const S* of_dy, std::int64_t at, auto part) {
        ask_ahead(of_x + at);
        ask_ahead(of_dy + at);
        const Numbers<T, L> value = load_numbers<T, L>(of_x + at, part);
        Numbers<T, L> g = load_numbers<T, L>(of_dy + at, part);
        if constexpr (Relu) g = normalized<T, L>(n, at, part, value) <= 0 ? Numbers<T, L>{} : loaded(g);
        const Sums gradient = __builtin_convertvector(g, Sums);
        return Terms{gradient, gradient * (__builtin_convertvector(value, Sums) -
                                           load_numbers<Sum, L>(mean + at, part))};
    };
    std::int64_t row = 0;
    for (; row + 2 <= rows; row += 2, x += 2 * channels, dy += 2 * channels)
        for_vectors<L>(channels, [&](std::int64_t at, auto part) {
            const Terms a = terms(x, dy, at, part), b = terms(x + channels, dy + channels, at, part);
            add_to(first + at, a.gradient + b.gradient, part);
            add_to(second + at, a.weighted + b.weighted, part);
        });
    for (; row < rows; ++row, x += channels, dy += channels)
        for_vectors<L>(channels, [&](std::int64_t at, auto part) {
            const Terms a = terms(x, dy, at, part);
            add_to(first + at, a.gradient, part);
            add_to(second + at, a.weighted, part);
        });
}

template <bool Relu, class T, class S>
void gradients(std::int64_t rows, std::int64_t channels, const S* x, const S* dy, const RowNormalizer<T> n,
               const RowGradient<T> to, S* dx) {
    constexpr std::int64_t L = row_lanes<T>;
    for (std::int64_t row = 0; row < rows; ++row, x += channels, dy += channels, dx += channels)
        for_vectors<L>(channels, [&](std::int64_t at, auto part) {
            const auto of = [&](const T* constant) { return load_numbers<T, L>(constant + at, part); };
            ask_ahead(x + at);
            ask_ahead(dy + at);
            const Numbers<T, L> value = load_numbers<T, L>(x + at, part);
            Numbers<T, L> g = load_numbers<T, L>(dy + at, part);
            if constexpr (Relu) g = normalized<T, L>(n, at, part, value) <= 0 ? Numbers<T, L>{} : loaded(g);
            store_numbers<L>(of(to.scale) * ((of(to.mean) - value) * of(to.slope) + (g - of(to.offset))),
                             dx + at, part);
        });
}

}  // namespace

template <class T, class S>
void normalize_rows(std::int64_t rows, std::int64_t channels, const S* x, const RowNormalizer<T>& normalizer,
                    bool relu, S* y) {
    if (relu)
        normalize<true>(rows, channels, x, normalizer, y);
    else
        normalize<false>(rows, channels, x, normalizer, y);
}

template <class T, class S>
void add_row_moments(std::int64_t rows, std::int64_t channels, const S* x, const T* shift,
                     RowSum<S>* __restrict first, RowSum<S>* __restrict second) {
    using Sum = RowSum<S>;
    constexpr std::int64_t L = sum_lanes<S>;
    using Sums = Numbers<Sum, L>;
    const auto distance = [&](const S* row, std::int64_t at, auto part) -> Sums {
        ask_ahead(row + at);
        return __builtin_convertvector(load_numbers<T, L>(row + at, part), Sums) -
               __builtin_convertvector(load_numbers<T, L>(shift + at, part), Sums);
    };
    std::int64_t row = 0;
    for (; row + 4 <= rows; row += 4, x += 4 * channels)
        for_vectors<L>(channels, [&](std::int64_t at, auto part) {
            const Sums a = distance(x, at, part), b = distance(x + channels, at, part),
                       c = distance(x + 2 * channels, at, part), d = distance(x + 3 * channels, at, part);
            add_to(first + at, (a + b) + (c + d), part);
            add_to(second + at, (a * a + b * b) + (c * c + d * d), part);
        });
    for (; row < rows; ++row, x += channels)
        for_vectors<L>(channels, [&](std::int64_t at, auto part) {
            const Sums a = distance(x, at, part);
            add_to(first + at, a, part);
            add_to(second + at, a * a, part);
        });
}

template <class T, class S>
void add_row_gradients(std::int64_t rows, std::int64_t channels, const S* x, const S* dy,
                       const RowNormalizer<T>* relu, const RowSum<S>* mean, RowSum<S>* first,
                       RowSum<S>* second) {
    if (relu)
        add_gradients<true>(rows, channels, x, dy, *relu, mean, first, second);
    else
        add_gradients<false, T>(rows, channels, x, dy, {}, mean, first, second);
}

template <class T, class S>
void gradient_rows(std::int64_t rows, std::int64_t channels, const S* x, const S* dy,
                   const RowNormalizer<T>* relu, const RowGradient<T>& gradient, S* dx) {
    if (relu)
        gradients<true>(rows, channels, x, dy, *relu, gradient, dx);
    else
        gradients<false, T>(rows, channels, x, dy, {}, gradient, dx);
}

template void normalize_rows(std::int64_t, std::int64_t, const float*, const RowNormalizer<float>&, bool,
                             float*);
template void add_row_moments(std::int64_t, std::int64_t, const float*, const float*, RowSum<float>*,
                              RowSum<float>*);
template void add_row_gradients(std::int64_t, std::int64_t, const float*, const float*,
                                const RowNormalizer<float>*, const RowSum<float>*, RowSum<float>*,
                                RowSum<float>*);
template void gradient_rows(std::int64_t, std::int64_t, const float*, const float*,
                            const RowNormalizer<float>*, const RowGradient<float>&, float*);
template void normalize_rows(std::int64_t, std::int64_t, const Bf16Value*, const RowNormalizer<float>&, bool,
                             Bf16Value*);
template void add_row_moments(std::int64_t, std::int64_t, const Bf16Value*, const float*, RowSum<Bf16Value>*,
                              RowSum<Bf16Value>*);
template void add_row_gradients(std::int64_t, std::int64_t, const Bf16Value*, const Bf16Value*,
                                const RowNormalizer<float>*, const RowSum<Bf16Value>*, RowSum<Bf16Value>*,
                                RowSum<Bf16Value>*);
template void gradient_rows(std::int64_t, std::int64_t, const Bf16Value*, const Bf16Value*,
                            const RowNormalizer<float>*, const RowGradient<float>&, Bf16Value*);
template void normalize_rows(std::int64_t, std::int64_t, const double*, const RowNormalizer<double>&, bool,
                             double*);
template void add_row_moments(std::int64_t, std::int64_t, const double*, const double*, RowSum<double>*,
                              RowSum<double>*);
template void add_row_gradients(std::int64_t, std::int64_t, const double*, const double*,
                                const RowNormalizer<double>*, const RowSum<double>*, RowSum<double>*,
                                RowSum<double>*);
template void gradient_rows(std::int64_t, std::int64_t, const double*, const double*,
                            const RowNormalizer<double>*, const RowGradient<double>&, double*);

}  // namespace tutti
