// Attention head by head: each (sample, head) is one piece of work, so that results do not depend on the
// number of threads. A block of queries meets all keys at once; its scores lie in the cache and are never
// stored, which keeps memory at O(T) per thread (after Dao et al. 2022, "FlashAttention", without the online
// softmax: a row of scores is short enough to be held whole).

#include <algorithm>
#include <cmath>
#include <limits>

#include "../common/vector_math.hpp"
#include "eigen_ops.hpp"
#include "parallel.hpp"
#include "tile_product.hpp"
#include "tile_transpose.hpp"

namespace tutti {
namespace {

constexpr std::int64_t query_block = 64;

/// Cuts scratch memory into tiles whose rows are whole vectors.
template <class T>
class Tiles {
  public:
    explicit Tiles(T* memory) : next_(memory) {}
    T* take(std::int64_t rows, std::int64_t row) {
        T* const tile = next_;
        next_ += rows * row;
        return tile;
    }

  private:
    T* next_;
};

/// to[rows, padded(columns)] = factor · from, with zeros behind each row.
template <class T>
void pack(const T* from, std::int64_t stride, std::int64_t rows, std::int64_t columns, T factor, T* to) {
    const std::int64_t row_size = padded<T>(columns);
    for (std::int64_t r = 0; r < rows; ++r) {
#pragma omp simd
        for (std::int64_t i = 0; i < columns; ++i) to[r * row_size + i] = factor * from[r * stride + i];
        std::fill(to + r * row_size + columns, to + (r + 1) * row_size, T(0));
    }
}

template <class T>
void unpack(const T* from, std::int64_t rows, std::int64_t columns, T* to, std::int64_t stride) {
    const std::int64_t row_size = padded<T>(columns);
    for (std::int64_t r = 0; r < rows; ++r) std::copy_n(from + r * row_size, columns, to + r * stride);
}

/// row[count, padded(count)) = value, in one vector: narrower stores would hold up the loads that follow.
template <class T>
void set_behind(T* row, std::int64_t count, T value) {
    const std::int64_t last = padded<T>(count) - lanes<T>;
    T* const vector = row + last;
    const std::int64_t inside = count - last;
#pragma omp simd
    for (std::int64_t i = 0; i < lanes<T>; ++i) {
        const T old = vector[i];
        vector[i] = i < inside ? old : value;
    }
}

/// Whole vectors, so that no loop has a remainder: row[padded(count)] becomes the softmax of its first
/// `count` elements, with zeros behind.
template <class T>
void softmax(T* row, std::int64_t count) {
    const std::int64_t whole = padded<T>(count);
    set_behind(row, count, std::numeric_limits<T>::lowest());
    T maximum = row[0];
#pragma omp simd reduction(max : maximum)
    for (std::int64_t i = 0; i < whole; ++i) maximum = row[i] > maximum ? row[i] : maximum;
    T sum = 0;
    // What lies behind is e^lowest, nothing beside the greatest element's 1.
#pragma omp simd reduction(+ : sum)
    for (std::int64_t i = 0; i < whole; ++i) {
        row[i] = exp_nonpositive(row[i] - maximum);
        sum += row[i];
    }
    set_behind(row, count, T(0));
    const T scale = T(1) / sum;
#pragma omp simd
    for (std::int64_t i = 0; i < whole; ++i) row[i] *= scale;
}

/// From p and dp of a row of whole vectors: dscores = p ∘ (dp − Σ p·dp), written over dp.
template <class T>
void softmax_backward(const T* p, T* dp, std::int64_t whole) {
    T sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t i = 0; i < whole; ++i) sum += p[i] * dp[i];
#pragma omp simd
    for (std::int64_t i = 0; i < whole; ++i) dp[i] = p[i] * (dp[i] - sum);
}

/// Brings a sample into the cache: the processor does not foresee the heads' reads, which are a token apart.
template <class T>
void fetch(const T* from, std::int64_t count) {
    constexpr std::int64_t line = 64 / sizeof(T);
    for (std::int64_t i = 0; i < count; i += line) __builtin_prefetch(from + i, 0, 2);
}

/// The sizes of one head's tiles, and where its vectors lie in the packed tensors.
template <class T>
struct Head {
    explicit Head(const AttentionShape& shape)
        : tokens(shape.tokens),
          width(shape.width),
          token_row(padded<T>(shape.tokens)),
          width_row(padded<T>(shape.width)),
          block(std::min(query_block, shape.tokens)),
          stride(3 * shape.heads * shape.width),
          out_stride(shape.heads * shape.width),
          scale(T(1) / std::sqrt(static_cast<T>(shape.width))) {}

    std::int64_t forward_scratch() const {
        return width * token_row + tokens * width_row + block * (token_row + width_row);
    }
    std::int64_t backward_scratch() const {
        return 2 * width * token_row + 3 * tokens * width_row + block * (2 * token_row + 3 * width_row);
    }

    /// probabilities[rows, token_row] of the queries from `query` on; keys_t: scaled.
    void probabilities(const T* query, std::int64_t rows, const T* keys_t, T* result) const {
        multiply_tiles<T>(rows, token_row, width, {query, stride, 1}, keys_t, token_row, result, token_row,
                          false);
        for (std::int64_t r = 0; r < rows; ++r) softmax(result + r * token_row, tokens);
    }

    void forward(const T* q, const T* k, const T* v, T* out, T* scratch) const {
        Tiles<T> tiles(scratch);
        T* const keys_t = tiles.take(width, token_row);
        T* const values = tiles.take(tokens, width_row);
        T* const scores = tiles.take(block, token_row);
        T* const sums = tiles.take(block, width_row);
        transpose_tile(k, stride, tokens, width, scale, keys_t);
        pack(v, stride, tokens, width, T(1), values);
        for (std::int64_t first = 0; first < tokens; first += block) {
            const std::int64_t rows = std::min(block, tokens - first);
            probabilities(q + first * stride, rows, keys_t, scores);
            multiply_tiles<T>(rows, width_row, tokens, {scores, token_row, 1}, values, width_row, sums,
                              width_row, false);
            unpack(sums, rows, width, out + first * out_stride, out_stride);
        }
    }

    /// With S = scale·q·kᵀ, P = softmax(S): dV = Pᵀ·dO, dP = dO·Vᵀ, dQ = scale·dS·K, dK = scale·dSᵀ·Q.
    void backward(const T* q, const T* k, const T* v, const T* dout, T* dq, T* dk, T* dv, T* scratch) const {
        Tiles<T> tiles(scratch);
        T* const keys_t = tiles.take(width, token_row);
        T* const values_t = tiles.take(width, token_row);
        T* const keys = tiles.take(tokens, width_row);
        T* const dkeys = tiles.take(tokens, width_row);
        T* const dvalues = tiles.take(tokens, width_row);
        T* const p = tiles.take(block, token_row);
        T* const ds = tiles.take(block, token_row);
        T* const queries = tiles.take(block, width_row);
        T* const douts = tiles.take(block, width_row);
        T* const dqueries = tiles.take(block, width_row);
        transpose_tile(k, stride, tokens, width, scale, keys_t);
        transpose_tile(v, stride, tokens, width, T(1), values_t);
        pack(k, stride, tokens, width, scale, keys);
        for (std::int64_t first = 0; first < tokens; first += block) {
            const std::int64_t rows = std::min(block, tokens - first);
            const bool add = first > 0;
            const T* const block_dout = dout + first * out_stride;
            probabilities(q + first * stride, rows, keys_t, p);
            pack(block_dout, out_stride, rows, width, T(1), douts);
            multiply_tiles<T>(tokens, width_row, rows, {p, 1, token_row}, douts, width_row, dvalues,
                              width_row, add);
            multiply_tiles<T>(rows, token_row, width, {block_dout, out_stride, 1}, values_t, token_row, ds,
                              token_row, false);
            for (std::int64_t r = 0; r < rows; ++r)
                softmax_backward(p + r * token_row, ds + r * token_row, token_row);
            multiply_tiles<T>(rows, width_row, tokens, {ds, token_row, 1}, keys, width_row, dqueries,
                              width_row, false);
            unpack(dqueries, rows, width, dq + first * stride, stride);
            pack(q + first * stride, stride, rows, width, scale, queries);
            multiply_tiles<T>(tokens, width_row, rows, {ds, 1, token_row}, queries, width_row, dkeys,
                              width_row, add);
        }
        unpack(dkeys, tokens, width, dk, stride);
        unpack(dvalues, tokens, width, dv, stride);
    }

    std::int64_t tokens, width, token_row, width_row, block, stride, out_stride;
    T scale;
};

/// Calls work(first element of q in qkv, first element in out, scratch) for each head of each sample.
template <class T, class Work, class Announce>
void for_heads(const AttentionShape& shape, std::int64_t samples, std::int64_t scratch_size,
               Workspace& workspace, const Work& work, const Announce& announce) {
    const std::int64_t count = samples * shape.heads;
    const std::int64_t shares =
        count * shape.tokens * shape.tokens > elements_worth_threads ? omp_get_max_threads() : 1;
    T* const scratch = workspace.reserve_elements<T>(static_cast<std::size_t>(scratch_size * shares));
    for_shares(count, shares, [&](std::int64_t share, std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
            const std::int64_t n = i / shape.heads, head = i % shape.heads;
            if (head == 0 || i == begin) announce(n);
            const std::int64_t size = shape.tokens * shape.heads * shape.width;
            work(3 * n * size + head * shape.width, n * size + head * shape.width,
                 scratch + share * scratch_size);
        }
    });
}

}  // namespace

template <class T>
void EigenOps<T>::attention_forward(const AttentionShape& shape, const TensorView& qkv,
                                    const TensorView& out) {
    const std::int64_t samples = qkv.shape[0], channels = shape.heads * shape.width;
    assert(qkv.count() == samples * shape.tokens * 3 * channels && 3 * out.count() == qkv.count());
    const Head<T> head(shape);
    const T* in = qkv.as<T>();
    T* result = out.as<T>();
    for_heads<T>(
        shape, samples, head.forward_scratch(), *workspace_,
        [&](std::int64_t at, std::int64_t out_at, T* scratch) {
            const T* q = in + at;
            head.forward(q, q + channels, q + 2 * channels, result + out_at, scratch);
        },
        [&](std::int64_t n) { fetch(in + n * shape.tokens * 3 * channels, shape.tokens * 3 * channels); });
}

template <class T>
void EigenOps<T>::attention_backward(const AttentionShape& shape, const TensorView& qkv,
                                     const TensorView& dout, const TensorView& dqkv) {
    const std::int64_t samples = qkv.shape[0], channels = shape.heads * shape.width;
    assert(qkv.count() == samples * shape.tokens * 3 * channels && 3 * dout.count() == qkv.count());
    assert(dqkv.count() == qkv.count());
    const Head<T> head(shape);
    const T* in = qkv.as<T>();
    const T* out_gradient = dout.as<T>();
    T* gradient = dqkv.as<T>();
    for_heads<T>(
        shape, samples, head.backward_scratch(), *workspace_,
        [&](std::int64_t at, std::int64_t out_at, T* scratch) {
            const T* q = in + at;
            T* dq = gradient + at;
            head.backward(q, q + channels, q + 2 * channels, out_gradient + out_at, dq, dq + channels,
                          dq + 2 * channels, scratch);
        },
        [&](std::int64_t n) {
            fetch(in + n * shape.tokens * 3 * channels, shape.tokens * 3 * channels);
            fetch(out_gradient + n * shape.tokens * channels, shape.tokens * channels);
        });
}

template void EigenOps<float>::attention_forward(const AttentionShape&, const TensorView&, const TensorView&);
template void EigenOps<double>::attention_forward(const AttentionShape&, const TensorView&,
                                                  const TensorView&);
template void EigenOps<float>::attention_backward(const AttentionShape&, const TensorView&, const TensorView&,
                                                  const TensorView&);
template void EigenOps<double>::attention_backward(const AttentionShape&, const TensorView&,
                                                   const TensorView&, const TensorView&);

}  // namespace tutti
