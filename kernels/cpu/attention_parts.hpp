#pragma once
// What attention in fp32 and in bf16 have in common: the softmax of a block of queries and its gradient, and
// the way through the heads.

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <initializer_list>

#include "../common/vector_math.hpp"
#include "host_memory.hpp"
#include "parallel.hpp"
#include "prefetch.hpp"
#include "tile_vector.hpp"
#include "tutti/device/transformer_ops.hpp"

namespace tutti {

/// So many queries meet all keys at a time.
inline constexpr std::int64_t query_block = 64;

/// Each column of scores[keys, columns], a query's, becomes its softmax. Queries lie side by side so that
/// neither their maxima nor their sums are taken across a vector.
template <class T>
void softmax(T* scores, std::int64_t keys, std::int64_t columns) {
    const std::int64_t whole = columns / lanes<T> * lanes<T>;
    alignas(vector_bytes) T maximum[query_block], sum[query_block];
    std::copy_n(scores, whole, maximum);
    std::fill_n(sum, whole, T(0));
    const T* const end = scores + keys * columns;
    const T* row = scores + columns;
    // The maxima go through memory once in four rows.
    for (; end - row >= 4 * columns; row += 4 * columns) {
#pragma omp simd
        for (std::int64_t i = 0; i < whole; ++i) {
            const T a = row[i], b = row[columns + i], c = row[2 * columns + i], d = row[3 * columns + i];
            const T ab = a > b ? a : b, cd = c > d ? c : d, all = ab > cd ? ab : cd;
            maximum[i] = all > maximum[i] ? all : maximum[i];
        }
    }
    for (; row < end; row += columns)
#pragma omp simd
        for (std::int64_t i = 0; i < whole; ++i) maximum[i] = row[i] > maximum[i] ? row[i] : maximum[i];
    for (T* score = scores; score < end; score += columns)
#pragma omp simd
        for (std::int64_t i = 0; i < whole; ++i) {
            score[i] = exp_nonpositive(score[i] - maximum[i]);
            sum[i] += score[i];
        }
#pragma omp simd
    for (std::int64_t i = 0; i < whole; ++i) sum[i] = T(1) / sum[i];
    for (T* score = scores; score < end; score += columns)
#pragma omp simd
        for (std::int64_t i = 0; i < whole; ++i) score[i] *= sum[i];
}

/// Column by column, from p and dp[keys, columns]: dscores = p ∘ (dp − Σ p·dp), written over dp.
template <class T>
void softmax_backward(const T* p, T* dp, std::int64_t keys, std::int64_t columns) {
    const std::int64_t whole = columns / lanes<T> * lanes<T>;
    alignas(vector_bytes) T sum[query_block];
    std::fill_n(sum, whole, T(0));
    for (std::int64_t at = 0; at < keys * columns; at += columns)
#pragma omp simd
        for (std::int64_t i = 0; i < whole; ++i) sum[i] += p[at + i] * dp[at + i];
    for (std::int64_t at = 0; at < keys * columns; at += columns)
#pragma omp simd
        for (std::int64_t i = 0; i < whole; ++i) dp[at + i] = p[at + i] * (dp[at + i] - sum[i]);
}

/// A tensor of which a sample's head touches pieces of some cache lines: too short for the processor to see
/// what comes next.
struct SampleAhead {
    const void* data;
    std::int64_t bytes;  ///< of one sample
    bool written = false;
};
inline void prefetch(const SampleAhead& tensor, std::int64_t sample, std::int64_t part, std::int64_t parts) {
    const auto* const first = static_cast<const char*>(tensor.data) + sample * tensor.bytes;
    tensor.written ? prefetch_part<true>(first, tensor.bytes, part, parts)
                   : prefetch_part<false>(first, tensor.bytes, part, parts);
}

/// How many tokens of a sample exist: those before the first 0 of its row of mask[N, T], or of an undefined
/// one all.
template <class T>
class ExistingTokens {
  public:
    ExistingTokens(const TensorView& mask, [[maybe_unused]] std::int64_t samples, std::int64_t tokens)
        : mask_(mask.defined() ? mask.as<T>() : nullptr), tokens_(tokens) {
        assert(!mask.defined() || mask.count() == samples * tokens);
    }
    std::int64_t of(std::int64_t sample) const {
        if (!mask_) return tokens_;
        const T* const first = mask_ + sample * tokens_;
        return std::find(first, first + tokens_, T(0)) - first;
    }

  private:
    const T* mask_;
    std::int64_t tokens_;
};

/// to[rows, columns] = 0, rows `stride` elements apart.
template <class T>
void clear_rows(T* to, std::int64_t stride, std::int64_t rows, std::int64_t columns) {
    for (std::int64_t r = 0; r < rows; ++r) std::fill_n(to + r * stride, columns, T(0));
}

/// Calls work(sample, first element of q in qkv, first element in out, scratch) for each head of each sample,
/// and prefetches the next sample's part of `tensors` meanwhile.
template <class T, class Work>
void for_heads(const AttentionShape& shape, std::int64_t samples, std::int64_t scratch_size,
               Workspace& workspace, std::initializer_list<SampleAhead> tensors, const Work& work) {
    const std::int64_t count = samples * shape.heads;
    const std::int64_t shares =
        count * shape.tokens * shape.tokens > elements_worth_threads ? omp_get_max_threads() : 1;
    T* const scratch = workspace.reserve_elements<T>(static_cast<std::size_t>(scratch_size * shares));
    for_parts(count, static_cast<int>(shares), [&](int caller, std::int64_t i) {
        const std::int64_t n = i / shape.heads, head = i % shape.heads;
        const std::int64_t size = shape.tokens * shape.heads * shape.width;
        if (n + 1 < samples)
            for (const SampleAhead& tensor : tensors) prefetch(tensor, n + 1, head, shape.heads);
        work(n, 3 * n * size + head * shape.width, n * size + head * shape.width,
             scratch + caller * scratch_size);
        offer_progress();
    });
}

}  // namespace tutti
