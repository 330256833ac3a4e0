#include "bf16_pairs.hpp"

#include <immintrin.h>

#include <cstddef>

#include "bf16_interleave.hpp"
#include "bf16_transpose.hpp"
#include "bf16_vectors.hpp"

// The operands of products: rounding and pairing. As in bf16_tile.cpp, only what lies in the unnamed
// namespace may be inlined here.

namespace tutti {
namespace {

/// bf16_lanes numbers of a row in memory, and two rows in bf16, one in each half.
template <class Value>
struct Row;
template <>
struct Row<float> {
    using Numbers = __m512;
    static Numbers load(const float* from, __mmask16 lanes) { return _mm512_maskz_loadu_ps(lanes, from); }
    static Numbers zeros() { return _mm512_setzero_ps(); }
    static __m512 widened(Numbers row) { return row; }
    static __m512i both(Numbers first, Numbers second) {
        return reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(second, first));
    }
};
template <>
struct Row<std::uint16_t> {
    using Numbers = __m256i;
    /// Whole rows without a mask, as they are stored.
    static Numbers load(const std::uint16_t* from, __mmask16 lanes) {
        return lanes == 0xffff ? _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from))
                               : _mm256_maskz_loadu_epi16(lanes, from);
    }
    static Numbers zeros() { return _mm256_setzero_si256(); }
    static __m512 widened(Numbers row) { return widened_values(row); }
    static __m512i both(Numbers first, Numbers second) {
        return _mm512_inserti64x4(_mm512_castsi256_si512(first), second, 1);
    }
};

template <bool HasFirst, bool HasSecond, class Value>
__m512i round_both(const Value* first, const Value* second, std::int64_t at, __mmask16 lanes) {
    using R = Row<Value>;
    return R::both(HasFirst ? R::load(first + at, lanes) : R::zeros(),
                   HasSecond ? R::load(second + at, lanes) : R::zeros());
}

__mmask16 lanes_from(std::int64_t at, std::int64_t count) {
    return count - at >= bf16_lanes ? __mmask16(0xffff) : static_cast<__mmask16>((1u << (count - at)) - 1);
}

template <bool HasFirst, bool HasSecond, class Value>
void make_pairs(const Value* first, const Value* second, std::int64_t count, Bf16Pair* pairs) {
    std::int64_t at = 0;
    for (; at + bf16_lanes <= count; at += bf16_lanes)
        _mm512_storeu_si512(pairs + at,
                            interleave(round_both<HasFirst, HasSecond>(first, second, at, 0xffff)));
    if (at == count) return;
    const __mmask16 lanes = lanes_from(at, count);
    _mm512_mask_storeu_epi32(pairs + at, lanes,
                             interleave(round_both<HasFirst, HasSecond>(first, second, at, lanes)));
}

/// Vectors of channels, the last of them with these lanes only, of rows one after the other. Whole vectors
/// are stored without a mask: masked stores of 16 bits take tens of cycles.
template <std::size_t Vectors, bool HasSecond, bool Whole, bool Rounded, class Value>
void make_pairs_of_rows(const Value* first, const Value* second, std::int64_t times, std::int64_t step,
                        __mmask16 last_lanes, Bf16Pair* pairs, std::int64_t pairs_step,
                        const RoundedRows& rounded) {
    using R = Row<Value>;
    const auto lanes = [&](std::size_t v) {
        return Whole || v + 1 < Vectors ? __mmask16(0xffff) : last_lanes;
    };
    const std::int64_t between = HasSecond ? second - first : 0;
    std::uint16_t* low = rounded.first;
    __m512 sums[Vectors];
#pragma GCC unroll 4
    for (std::size_t v = 0; v < Vectors; ++v)
        sums[v] = Rounded && rounded.sums ? _mm512_maskz_loadu_ps(lanes(v), rounded.sums + v * bf16_lanes)
                                          : _mm512_setzero_ps();
    for (std::int64_t i = 0; i < times; ++i, first += step, pairs += pairs_step) {
#pragma GCC unroll 4
        for (std::size_t v = 0; v < Vectors; ++v) {
            const Value* const from = first + v * bf16_lanes;
            const auto a = R::load(from, lanes(v));
            const auto b = HasSecond ? R::load(from + between, lanes(v)) : R::zeros();
            const __m512i rows = R::both(a, b);
            if (Whole || v + 1 < Vectors)
                _mm512_storeu_si512(pairs + v * bf16_lanes, interleave(rows));
            else
                _mm512_mask_storeu_epi32(pairs + v * bf16_lanes, last_lanes, interleave(rows));
            if constexpr (!Rounded) continue;
            sums[v] = _mm512_add_ps(sums[v],
                                    HasSecond ? _mm512_add_ps(R::widened(a), R::widened(b)) : R::widened(a));
            if (!low) continue;
            const auto store = [&](std::uint16_t* to, __m256i row) {
                if (Whole || v + 1 < Vectors)
                    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), row);
                else
                    _mm256_mask_storeu_epi16(to, last_lanes, row);
            };
            store(low + v * bf16_lanes, _mm512_castsi512_si256(rows));
            if constexpr (HasSecond)
                store(low + v * bf16_lanes + between, _mm512_extracti64x4_epi64(rows, 1));
        }
        if (low) low += step;
    }
    if (!Rounded || !rounded.sums) return;
#pragma GCC unroll 4
    for (std::size_t v = 0; v < Vectors; ++v)
        _mm512_mask_storeu_ps(rounded.sums + v * bf16_lanes, lanes(v), sums[v]);
}

template <std::size_t Vectors, bool HasSecond, class Value>
void make_pairs_of_rows(const Value* first, const Value* second, std::int64_t times, std::int64_t step,
                        __mmask16 last, Bf16Pair* pairs, std::int64_t pairs_step,
                        const RoundedRows& rounded) {
    const bool more = rounded.first || rounded.sums;
    if (last == 0xffff && !more)
        make_pairs_of_rows<Vectors, HasSecond, true, false>(first, second, times, step, last, pairs,
                                                            pairs_step, rounded);
    else if (last == 0xffff)
        make_pairs_of_rows<Vectors, HasSecond, true, true>(first, second, times, step, last, pairs,
                                                           pairs_step, rounded);
    else
        make_pairs_of_rows<Vectors, HasSecond, false, true>(first, second, times, step, last, pairs,
                                                            pairs_step, rounded);
}

template <std::size_t Vectors, bool HasSecond, bool Rounded, class Value>
void make_pairs_in_slabs(const Value* first, const Value* second, std::int64_t slabs, std::int64_t times,
                         std::int64_t step, Bf16Pair* pairs, std::int64_t slab_step,
                         const RoundedRows& rounded) {
    using R = Row<Value>;
    constexpr std::int64_t slab = static_cast<std::int64_t>(Vectors) * bf16_lanes;
    const std::int64_t between = HasSecond ? second - first : 0;
    std::uint16_t* low = rounded.first;
    float* const sums = rounded.sums;
    for (std::int64_t i = 0; i < times; ++i, first += step, pairs += slab) {
        for (std::int64_t s = 0; s < slabs; ++s) {
            const Value* const from = first + s * slab;
            Bf16Pair* const to = pairs + s * slab_step;
#pragma GCC unroll 4
            for (std::size_t v = 0; v < Vectors; ++v) {
                const std::int64_t at = static_cast<std::int64_t>(v) * bf16_lanes;
                const auto a = R::load(from + at, 0xffff);
                const auto b = HasSecond ? R::load(from + between + at, 0xffff) : R::zeros();
                const __m512i rows = R::both(a, b);
                _mm512_storeu_si512(to + at, interleave(rows));
                if constexpr (!Rounded) continue;
                if (float* const sum = sums ? sums + s * slab + at : nullptr)
                    _mm512_storeu_ps(
                        sum, _mm512_add_ps(
                                 _mm512_loadu_ps(sum),
                                 HasSecond ? _mm512_add_ps(R::widened(a), R::widened(b)) : R::widened(a)));
                if (!low) continue;
                auto* const row = reinterpret_cast<__m256i*>(low + s * slab + at);
                _mm256_storeu_si256(row, _mm512_castsi512_si256(rows));
                if constexpr (HasSecond)
                    _mm256_storeu_si256(reinterpret_cast<__m256i*>(low + s * slab + at + between),
                                        _mm512_extracti64x4_epi64(rows, 1));
            }
        }
        if (low) low += step;
    }
}

template <std::size_t Vectors, class Value>
void make_pairs_in_slabs(const Value* first, const Value* second, std::int64_t slabs, std::int64_t times,
                         std::int64_t step, Bf16Pair* pairs, std::int64_t slab_step,
                         const RoundedRows& rounded) {
    if (second && !rounded.first && !rounded.sums)
        make_pairs_in_slabs<Vectors, true, false>(first, second, slabs, times, step, pairs, slab_step,
                                                  rounded);
    else if (second)
        make_pairs_in_slabs<Vectors, true, true>(first, second, slabs, times, step, pairs, slab_step,
                                                 rounded);
    else
        make_pairs_in_slabs<Vectors, false, true>(first, second, slabs, times, step, pairs, slab_step,
                                                  rounded);
}

template <class Value>
void make_any_pairs(const Value* first, const Value* second, std::int64_t count, Bf16Pair* pairs) {
    if (first && second) return make_pairs<true, true>(first, second, count, pairs);
    if (first) return make_pairs<true, false>(first, second, count, pairs);
    if (second) return make_pairs<false, true>(first, second, count, pairs);
    make_pairs<false, false>(first, second, count, pairs);
}

template <class Value>
void make_pairs_of_rows(const Value* first, const Value* second, std::int64_t count, std::int64_t times,
                        std::int64_t step, Bf16Pair* pairs, const RoundedRows& rounded) {
    constexpr std::int64_t most = most_bf16_vectors * bf16_lanes;
    for (std::int64_t at = 0; at < count; at += most) {
        const std::int64_t now = count - at < most ? count - at : most;
        const std::int64_t vectors = (now + bf16_lanes - 1) / bf16_lanes;
        const __mmask16 last = lanes_from((vectors - 1) * bf16_lanes, now);
        const RoundedRows part{rounded.first ? rounded.first + at : nullptr,
                               rounded.sums ? rounded.sums + at : nullptr};
        const auto make = [&]<std::size_t Vectors>() {
            if (second)
                make_pairs_of_rows<Vectors, true>(first + at, second + at, times, step, last, pairs + at,
                                                  count, part);
            else
                make_pairs_of_rows<Vectors, false, Value>(first + at, nullptr, times, step, last, pairs + at,
                                                          count, part);
        };
        switch (vectors) {
            case 1:
                make.template operator()<1>();
                break;
            case 2:
                make.template operator()<2>();
                break;
            case 3:
                make.template operator()<3>();
                break;
            default:
                make.template operator()<4>();
        }
    }
}

template <class Value>
void make_pairs_in_slabs(const Value* first, const Value* second, std::int64_t slab, std::int64_t slabs,
                         std::int64_t times, std::int64_t step, Bf16Pair* pairs, std::int64_t slab_step,
                         const RoundedRows& rounded) {
    if (slab == 3 * bf16_lanes)
        make_pairs_in_slabs<3>(first, second, slabs, times, step, pairs, slab_step, rounded);
    else
        make_pairs_in_slabs<4>(first, second, slabs, times, step, pairs, slab_step, rounded);
}

}  // namespace

void make_bf16_pairs(const float* first, const float* second, std::int64_t count, Bf16Pair* pairs) {
    make_any_pairs(first, second, count, pairs);
}
void make_bf16_pairs(const float* first, const float* second, std::int64_t count, std::int64_t times,
                     std::int64_t step, Bf16Pair* pairs, const RoundedRows& rounded) {
    make_pairs_of_rows(first, second, count, times, step, pairs, rounded);
}
void make_bf16_pairs_in_slabs(const float* first, const float* second, std::int64_t slab, std::int64_t slabs,
                              std::int64_t times, std::int64_t step, Bf16Pair* pairs, std::int64_t slab_step,
                              const RoundedRows& rounded) {
    make_pairs_in_slabs(first, second, slab, slabs, times, step, pairs, slab_step, rounded);
}

void make_bf16_pairs(const std::uint16_t* first, const std::uint16_t* second, std::int64_t count,
                     Bf16Pair* pairs) {
    make_any_pairs(first, second, count, pairs);
}
void make_bf16_pairs(const std::uint16_t* first, const std::uint16_t* second, std::int64_t count,
                     std::int64_t times, std::int64_t step, Bf16Pair* pairs, const RoundedRows& rounded) {
    make_pairs_of_rows(first, second, count, times, step, pairs, rounded);
}
void make_bf16_pairs_in_slabs(const std::uint16_t* first, const std::uint16_t* second, std::int64_t slab,
                              std::int64_t slabs, std::int64_t times, std::int64_t step, Bf16Pair* pairs,
                              std::int64_t slab_step, const RoundedRows& rounded) {
    make_pairs_in_slabs(first, second, slab, slabs, times, step, pairs, slab_step, rounded);
}

void round_to_bf16(const float* from, std::int64_t step, std::int64_t rows, std::int64_t count,
                   std::uint16_t* to) {
    for (std::int64_t r = 0; r < rows; ++r, from += step, to += count) {
        std::int64_t at = 0;
        for (; at + 2 * bf16_lanes <= count; at += 2 * bf16_lanes)
            _mm512_storeu_si512(to + at,
                                reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(
                                    _mm512_loadu_ps(from + at + bf16_lanes), _mm512_loadu_ps(from + at))));
        for (; at < count; at += bf16_lanes) {
            const __mmask16 lanes = lanes_from(at, count);
            const auto row =
                reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(_mm512_maskz_loadu_ps(lanes, from + at)));
            if (lanes == 0xffff)
                _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + at), row);
            else
                _mm256_mask_storeu_epi16(to + at, lanes, row);
        }
    }
}

void transpose_bf16_pairs(const float* from, std::int64_t step, std::int64_t there, std::int64_t count,
                          float factor, Bf16Pair* to, std::int64_t pair_step) {
    const __m512 factors = _mm512_set1_ps(factor);
    __m256i rows[bf16_lanes] = {};
    const auto read = [&](std::size_t r, std::int64_t at) {
        const __m512 row = _mm512_loadu_ps(from + static_cast<std::int64_t>(r) * step + at);
        rows[r] = reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(_mm512_mul_ps(factors, row)));
    };
    for (std::int64_t at = 0; at < count; at += bf16_lanes, to += bf16_lanes / 2 * pair_step) {
        if (there == bf16_lanes) {
#pragma GCC unroll 16
            for (std::size_t r = 0; r < bf16_lanes; ++r) read(r, at);
        } else {
            for (std::size_t r = 0; r < static_cast<std::size_t>(there); ++r) read(r, at);
        }
        transpose_pairs(rows, to, pair_step);
    }
}

void turn_bf16_pairs(const float* first, const float* second, std::int64_t count, std::int64_t times,
                     std::int64_t step, Bf16Pair* to, std::int64_t to_row, const RoundedRows& rounded) {
    const auto rounded_second = second ? rounded.first + (second - first) : nullptr;
    // Along the rows, as memory is read ahead.
    for (std::int64_t time = 0; time < times; time += bf16_lanes)
        for (std::int64_t at = 0; at < count; at += bf16_lanes) {
            const std::int64_t numbers = count - at < bf16_lanes ? count - at : bf16_lanes,
                               there = times - time < bf16_lanes ? times - time : bf16_lanes;
            const auto mask = static_cast<__mmask16>((1u << numbers) - 1);
            __m256i rows[2][bf16_lanes] = {};
            __m512 sums = rounded.sums ? _mm512_maskz_loadu_ps(mask, rounded.sums + at) : _mm512_setzero_ps();
            for (std::int64_t t = 0; t < there; ++t) {
                const std::int64_t from = (time + t) * step + at;
                const __m512 a = _mm512_maskz_loadu_ps(mask, first + from);
                const __m512 b = second ? _mm512_maskz_loadu_ps(mask, second + from) : _mm512_setzero_ps();
                const __m512i pairs = interleaved(a, b);
                rows[0][t] = _mm512_castsi512_si256(pairs);
                rows[1][t] = _mm512_extracti64x4_epi64(pairs, 1);
                sums = _mm512_add_ps(sums, _mm512_add_ps(a, b));
                if (!rounded.first) continue;
                _mm256_mask_storeu_epi16(rounded.first + from, mask,
                                         reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(a)));
                if (second)
                    _mm256_mask_storeu_epi16(rounded_second + from, mask,
                                             reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(b)));
            }
            if (rounded.sums) _mm512_mask_storeu_ps(rounded.sums + at, mask, sums);
            Bf16Pair* const turned = to + at * to_row + time;
            if (numbers == bf16_lanes && there == bf16_lanes) {
                for (std::size_t half = 0; half < 2; ++half)
                    transpose_pairs(rows[half], turned + static_cast<std::int64_t>(half) * 8 * to_row,
                                    to_row);
                continue;
            }
            alignas(64) Bf16Pair block[bf16_lanes * bf16_lanes];
            for (std::size_t half = 0; half < 2; ++half)
                transpose_pairs(rows[half], block + half * 8 * bf16_lanes, bf16_lanes);
            const auto these = static_cast<__mmask16>((1u << there) - 1);
            for (std::int64_t n = 0; n < numbers; ++n)
                _mm512_mask_storeu_epi32(turned + n * to_row, these,
                                         _mm512_load_si512(block + n * bf16_lanes));
        }
}

}  // namespace tutti
