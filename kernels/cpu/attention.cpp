// Attention head by head: each (sample, head) is one piece of work, so that results do not depend on the
// number of threads. A block of queries meets all keys at once; its scores lie in the cache and are never
// stored, which keeps memory at O(T) per thread (after Dao et al. 2022, "FlashAttention", without the online
// softmax: a row of scores is short enough to be held whole).

#include <algorithm>
#include <cmath>
#include <limits>

#include "attention_parts.hpp"
#include "eigen_ops.hpp"
#include "tile_product.hpp"
#include "tile_transpose.hpp"

namespace tutti {
namespace {

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

/// to[rows, padded(columns)] = from, with zeros behind each row.
template <class T>
void pack(const T* from, std::int64_t stride, std::int64_t rows, std::int64_t columns, T* to) {
    const std::int64_t row_size = padded<T>(columns);
    for (std::int64_t r = 0; r < rows; ++r) {
        std::copy_n(from + r * stride, columns, to + r * row_size);
        std::fill(to + r * row_size + columns, to + (r + 1) * row_size, T(0));
    }
}

template <class T>
void unpack(const T* from, std::int64_t rows, std::int64_t columns, T* to, std::int64_t stride) {
    const std::int64_t row_size = padded<T>(columns);
    for (std::int64_t r = 0; r < rows; ++r) std::copy_n(from + r * row_size, columns, to + r * stride);
}

/// The sizes of one head's tiles, and where its vectors lie in the packed tensors. Scores are held
/// transposed, [keys, queries of a block].
template <class T>
struct Head {
    /// existing: so many of the tokens are not padding.
    Head(const AttentionShape& shape, std::int64_t existing)
        : tokens(existing),
          width(shape.width),
          width_row(padded<T>(shape.width)),
          block(std::min(query_block, padded<T>(existing))),
          stride(3 * shape.heads * shape.width),
          out_stride(shape.heads * shape.width),
          scale(T(1) / std::sqrt(static_cast<T>(shape.width))),
          in_place(width == width_row) {}

    std::int64_t forward_scratch() const { return (width + tokens) * block + 2 * tokens * width_row; }
    std::int64_t backward_scratch() const { return 2 * (width + tokens) * block + 7 * tokens * width_row; }

    /// A matrix whose rows are whole vectors.
    struct Rows {
        T* data;
        std::int64_t stride;
    };
    struct ConstRows {
        const T* data;
        std::int64_t stride;
        const T* row(std::int64_t index) const { return data + index * stride; }
    };
    /// A copy of from[tokens, width], row behind row, with zeros that make whole vectors. Where they lie, the
    /// rows of q, k and v begin a multiple of some hundred bytes apart, so that they share a few sets of the
    /// first cache: all those that backward takes would push each other out of it.
    ConstRows gather(const T* from, std::int64_t from_stride, Tiles<T>& tiles) const {
        T* const tile = tiles.take(tokens, width_row);
        pack(from, from_stride, tokens, width, tile);
        return {tile, width_row};
    }
    Rows target(T* result, std::int64_t result_stride, Tiles<T>& tiles) const {
        if (in_place) return {result, result_stride};
        return {tiles.take(tokens, width_row), width_row};
    }
    void finish(const Rows& rows, T* result, std::int64_t result_stride) const {
        if (!in_place) unpack(rows.data, tokens, width, result, result_stride);
    }

    /// p[tokens, columns] of `rows` queries, with as many columns of no meaning behind them as make whole
    /// vectors.
    void probabilities(const ConstRows& queries, std::int64_t first, std::int64_t rows, const ConstRows& keys,
                       T* queries_t, T* p) const {
        const std::int64_t columns = padded<T>(rows);
        transpose_tile(queries.row(first), queries.stride, rows, width, scale, queries_t);
        multiply_tiles<T>(tokens, columns, width, {keys.data, keys.stride, 1}, queries_t, columns, p, columns,
                          false);
        softmax(p, tokens, columns);
    }

    void forward(const T* q, const T* k, const T* v, T* out, T* scratch) const {
        Tiles<T> tiles(scratch);
        T* const queries_t = tiles.take(width, block);
        T* const p = tiles.take(tokens, block);
        const ConstRows values = in_place ? ConstRows{v, stride} : gather(v, stride, tiles);
        const Rows sums = target(out, out_stride, tiles);
        for (std::int64_t first = 0; first < tokens; first += block) {
            const std::int64_t rows = std::min(block, tokens - first);
            probabilities({q, stride}, first, rows, {k, stride}, queries_t, p);
            multiply_tiles<T>(rows, width_row, tokens, {p, 1, padded<T>(rows)}, values.data, values.stride,
                              sums.data + first * sums.stride, sums.stride, false);
        }
        finish(sums, out, out_stride);
    }

    /// With S = scale·q·kᵀ, P = softmax(S): dV = Pᵀ·dO, dP = dO·Vᵀ, dQ = scale·dS·K, dK = scale·dSᵀ·Q.
    void backward(const T* q, const T* k, const T* v, const T* dout, T* dq, T* dk, T* dv, T* scratch) const {
        Tiles<T> tiles(scratch);
        T* const queries_t = tiles.take(width, block);
        T* const douts_t = tiles.take(width, block);
        T* const p = tiles.take(tokens, block);
        T* const ds = tiles.take(tokens, block);
        const ConstRows queries = gather(q, stride, tiles), keys = gather(k, stride, tiles),
                        values = gather(v, stride, tiles), douts = gather(dout, out_stride, tiles);
        const Rows dqueries = target(dq, stride, tiles), dkeys = target(dk, stride, tiles),
                   dvalues = target(dv, stride, tiles);
        for (std::int64_t first = 0; first < tokens; first += block) {
            const std::int64_t rows = std::min(block, tokens - first), columns = padded<T>(rows);
            const bool add = first > 0;
            probabilities(queries, first, rows, keys, queries_t, p);
            multiply_tiles<T>(tokens, width_row, rows, {p, columns, 1}, douts.row(first), douts.stride,
                              dvalues.data, dvalues.stride, add);
            // Scaled, so that dS is, too.
            transpose_tile(douts.row(first), douts.stride, rows, width, scale, douts_t);
            multiply_tiles<T>(tokens, columns, width, {values.data, values.stride, 1}, douts_t, columns, ds,
                              columns, false);
            softmax_backward(p, ds, tokens, columns);
            multiply_tiles<T>(rows, width_row, tokens, {ds, 1, columns}, keys.data, keys.stride,
                              dqueries.data + first * dqueries.stride, dqueries.stride, false);
            multiply_tiles<T>(tokens, width_row, rows, {ds, columns, 1}, queries.row(first), queries.stride,
                              dkeys.data, dkeys.stride, add);
        }
        finish(dqueries, dq, stride);
        finish(dkeys, dk, stride);
        finish(dvalues, dv, stride);
    }

    std::int64_t tokens, width, width_row, block, stride, out_stride;
    T scale;
    bool in_place;
};

}  // namespace

template <class T>
void EigenOps<T>::attention_forward(const AttentionShape& shape, const TensorView& qkv, const TensorView& out,
                                    const TensorView&, const TensorView& mask) {
    const std::int64_t samples = qkv.shape[0], channels = shape.heads * shape.width;
    assert(qkv.count() == samples * shape.tokens * 3 * channels && 3 * out.count() == qkv.count());
    const Head<T> longest(shape, shape.tokens);
    const ExistingTokens<T> existing(mask, samples, shape.tokens);
    const T* in = qkv.as<T>();
    T* result = out.as<T>();
    const std::int64_t sample_bytes = shape.tokens * channels * static_cast<std::int64_t>(sizeof(T));
    for_heads<T>(shape, samples, longest.forward_scratch(), *workspace_,
                 {{in, 3 * sample_bytes}, {result, sample_bytes, true}},
                 [&](std::int64_t n, std::int64_t at, std::int64_t out_at, T* scratch) {
                     const T* q = in + at;
                     T* const to = result + out_at;
                     const Head<T> head(shape, existing.of(n));
                     if (head.tokens > 0) head.forward(q, q + channels, q + 2 * channels, to, scratch);
                     clear_rows(to + head.tokens * channels, channels, shape.tokens - head.tokens,
                                shape.width);
                 });
}

template <class T>
void EigenOps<T>::attention_backward(const AttentionShape& shape, const TensorView& qkv, const TensorView&,
                                     const TensorView&, const TensorView& dout, const TensorView& dqkv,
                                     const TensorView& mask) {
    const std::int64_t samples = qkv.shape[0], channels = shape.heads * shape.width;
    assert(qkv.count() == samples * shape.tokens * 3 * channels && 3 * dout.count() == qkv.count());
    assert(dqkv.count() == qkv.count());
    const Head<T> longest(shape, shape.tokens);
    const ExistingTokens<T> existing(mask, samples, shape.tokens);
    const T* in = qkv.as<T>();
    const T* out_gradient = dout.as<T>();
    T* gradient = dqkv.as<T>();
    const std::int64_t sample_bytes = shape.tokens * channels * static_cast<std::int64_t>(sizeof(T));
    for_heads<T>(shape, samples, longest.backward_scratch(), *workspace_,
                 {{in, 3 * sample_bytes}, {out_gradient, sample_bytes}, {gradient, 3 * sample_bytes, true}},
                 [&](std::int64_t n, std::int64_t at, std::int64_t out_at, T* scratch) {
                     const T* q = in + at;
                     T* dq = gradient + at;
                     const Head<T> head(shape, existing.of(n));
                     if (head.tokens > 0)
                         head.backward(q, q + channels, q + 2 * channels, out_gradient + out_at, dq,
                                       dq + channels, dq + 2 * channels, scratch);
                     for (T* part : {dq, dq + channels, dq + 2 * channels})
                         clear_rows(part + 3 * head.tokens * channels, 3 * channels,
                                    shape.tokens - head.tokens, shape.width);
                 });
}

#define TUTTI_INSTANTIATE(T)                                                                               \
    template void EigenOps<T>::attention_forward(const AttentionShape&, const TensorView&,                 \
                                                 const TensorView&, const TensorView&, const TensorView&); \
    template void EigenOps<T>::attention_backward(const AttentionShape&, const TensorView&,                \
                                                  const TensorView&, const TensorView&, const TensorView&, \
                                                  const TensorView&, const TensorView&)
TUTTI_INSTANTIATE(float);
TUTTI_INSTANTIATE(double);
#undef TUTTI_INSTANTIATE

}  // namespace tutti
