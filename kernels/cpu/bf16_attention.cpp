// As attention.cpp, but that both factors of a product are brought into pairs of the summed dimension: rows
// of the left one in bf16 are such pairs already where that dimension is theirs.

#include "bf16_attention.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <utility>

#include "amx_products.hpp"
#include "attention_parts.hpp"
#include "bf16_pairs.hpp"
#include "bf16_softmax_tile.hpp"
#include "bf16_tile.hpp"

namespace tutti {
namespace {

std::int64_t half_up(std::int64_t count) {
    return (count + 1) / 2;
}

/// Pairs of so many rows that products sum over: with zeros up to whole steps of a matrix unit.
std::int64_t pairs_of(std::int64_t rows) {
    constexpr std::int64_t step = 16;
    return has_amx_products() ? (half_up(rows) + step - 1) / step * step : half_up(rows);
}

/// pairs[pairs_of(rows), columns] of neighbouring rows; an odd last one has zeros beside it.
void pair_rows(const float* from, std::int64_t stride, std::int64_t rows, std::int64_t columns,
               Bf16Pair* pairs) {
    make_bf16_pairs(from, from + stride, columns, rows / 2, 2 * stride, pairs);
    if (rows % 2 != 0)
        make_bf16_pairs(from + (rows - 1) * stride, nullptr, columns, 1, 0, pairs + rows / 2 * columns);
    std::fill(pairs + half_up(rows) * columns, pairs + pairs_of(rows) * columns, Bf16Pair{0});
}

/// Pieces of scratch memory, each of whole vectors.
class Pieces {
  public:
    explicit Pieces(float* memory) : next_(memory) {}
    float* floats(std::int64_t count) {
        float* const piece = next_;
        next_ += padded<float>(count);
        return piece;
    }
    Bf16Pair* pairs(std::int64_t count) { return reinterpret_cast<Bf16Pair*>(floats(count)); }

  private:
    float* next_;
};

/// A left factor in bf16, its rows being pairs of the summed dimension.
class Rows {
  public:
    Rows(Pieces& pieces, std::int64_t rows, std::int64_t columns)
        : pairs_(pieces.pairs(rows * columns / 2)), rows_(rows) {}
    void set(const float* from, std::int64_t stride, std::int64_t columns) {
        round_to_bf16(from, stride, rows_, columns, reset(columns));
    }
    /// Where [rows, columns] in bf16 are written.
    std::uint16_t* reset(std::int64_t columns) {
        columns_ = columns;
        return reinterpret_cast<std::uint16_t*>(pairs_);
    }
    /// c[rows, columns] = this · right[length, columns], summed over so many pairs.
    void multiply(std::int64_t length, const Bf16Pair* right, std::int64_t columns, float* c,
                  std::int64_t c_row, bool add, MemoryAhead& ahead) const {
        constexpr std::int64_t most = bf16_lanes * most_bf16_vectors;
        for (std::int64_t at = 0; at < columns; at += most)
            multiply_bf16_pairs(rows_, std::min(most, columns - at),
                                {1, length, 0, 0, 1, columns, columns_ / 2}, pairs_, right + at,
                                {c + at, c_row, add, nullptr, &ahead});
    }

  private:
    Bf16Pair* pairs_;
    std::int64_t rows_, columns_ = 0;
};

/// c[rows, columns] = leftᵀ · right, of left[tokens, row] and right[tokens, columns] in pairs of tokens.
void multiply_transposed(std::int64_t rows, std::int64_t columns, std::int64_t tokens, const Bf16Pair* left,
                         std::int64_t row, const Bf16Pair* right, float* c, std::int64_t c_row,
                         MemoryAhead& ahead) {
    constexpr std::int64_t most = bf16_lanes * most_bf16_vectors;
    for (std::int64_t at = 0; at < columns; at += most)
        multiply_bf16_pairs(rows, std::min(most, columns - at), {1, pairs_of(tokens), 0, 0, row, columns},
                            left, right + at, {c + at, c_row, false, nullptr, &ahead});
}

/// The sizes of one head. Scores are held transposed, [keys, queries of a block].
struct Head {
    /// existing: so many of the tokens are not padding.
    Head(const AttentionShape& shape, std::int64_t existing)
        : tokens(existing),
          width(shape.width),
          block(std::min(query_block, padded<float>(existing))),
          stride(3 * shape.heads * shape.width),
          out_stride(shape.heads * shape.width),
          scale(1 / std::sqrt(static_cast<float>(shape.width))) {}

    // Of at least what Pieces hands out.
    std::int64_t forward_scratch() const {
        return (width + tokens) * block * 2 + tokens * width * 2 + 16 * lanes<float> + steps_filled();
    }
    std::int64_t backward_scratch() const {
        return (2 * width + tokens) * block * 4 + (tokens + block) * width * 4 + 32 * lanes<float> +
               steps_filled();
    }
    /// What pairs_of adds.
    std::int64_t steps_filled() const { return 16 * (block + 2 * width); }

    /// A block of queries, scaled, in pairs of their width: [width / 2, columns].
    void pair_width(const float* from, std::int64_t from_stride, std::int64_t rows, Bf16Pair* pairs) const {
        const std::int64_t columns = padded<float>(rows);
        for (std::int64_t r = 0; r < columns; r += bf16_lanes)
            transpose_bf16_pairs(from + r * from_stride, from_stride, std::min(bf16_lanes, rows - r), width,
                                 scale, pairs + r, columns);
    }

    /// Zeros for the keys that there are not.
    void fill_step(Bf16Pair* pairs, std::int64_t columns) const {
        std::fill(pairs + half_up(tokens) * columns, pairs + pairs_of(tokens) * columns, Bf16Pair{0});
    }

    void forward(const float* q, const float* k, const float* v, float* out, float* scratch,
                 MemoryAhead ahead) const {
        Pieces pieces(scratch);
        float* const p = pieces.floats(tokens * block);
        Bf16Pair *const queries = pieces.pairs(width / 2 * block),
                        *const weights = pieces.pairs(pairs_of(tokens) * block),
                        *const values = pieces.pairs(pairs_of(tokens) * width);
        Rows keys(pieces, tokens, width);
        keys.set(k, stride, width);
        pair_rows(v, stride, tokens, width, values);
        for (std::int64_t first = 0; first < tokens; first += block) {
            const std::int64_t rows = std::min(block, tokens - first), columns = padded<float>(rows);
            pair_width(q + first * stride, stride, rows, queries);
            keys.multiply(width / 2, queries, columns, p, columns, false, ahead);
            softmax_to_bf16_pairs(p, tokens, columns, weights);
            fill_step(weights, columns);
            multiply_transposed(rows, width, tokens, weights, columns, values, out + first * out_stride,
                                out_stride, ahead);
        }
    }

    /// See attention.cpp's for the formulas.
    void backward(const float* q, const float* k, const float* v, const float* dout, float* dq, float* dk,
                  float* dv, float* scratch, MemoryAhead ahead) const {
        Pieces pieces(scratch);
        float *const p = pieces.floats(tokens * block), *const ds = pieces.floats(tokens * block);
        Bf16Pair *const of_block = pieces.pairs(width / 2 * block),
                        *const rows_of_block = pieces.pairs(pairs_of(block) * width),
                        *const slopes = pieces.pairs(pairs_of(tokens) * block),
                        *const key_pairs = pieces.pairs(pairs_of(tokens) * width);
        Rows keys(pieces, tokens, width), values(pieces, tokens, width), scores(pieces, tokens, block);
        keys.set(k, stride, width);
        values.set(v, stride, width);
        pair_rows(k, stride, tokens, width, key_pairs);
        for (std::int64_t first = 0; first < tokens; first += block) {
            const std::int64_t rows = std::min(block, tokens - first), columns = padded<float>(rows);
            const float *const queries = q + first * stride, *const douts = dout + first * out_stride;
            const std::int64_t summed = std::min(pairs_of(rows), columns / 2);
            const bool add = first > 0;
            pair_width(queries, stride, rows, of_block);
            keys.multiply(width / 2, of_block, columns, p, columns, false, ahead);
            softmax_to_bf16_rows(p, tokens, columns, scores.reset(columns));
            pair_rows(douts, out_stride, rows, width, rows_of_block);
            scores.multiply(summed, rows_of_block, width, dv, stride, add, ahead);
            pair_width(douts, out_stride, rows, of_block);
            values.multiply(width / 2, of_block, columns, ds, columns, false, ahead);
            softmax_gradient_to_bf16(p, ds, tokens, columns, slopes, scores.reset(columns));
            fill_step(slopes, columns);
            multiply_transposed(rows, width, tokens, slopes, columns, key_pairs, dq + first * stride, stride,
                                ahead);
            pair_rows(queries, stride, rows, width, rows_of_block);
            scores.multiply(summed, rows_of_block, width, dk, stride, add, ahead);
        }
    }

    std::int64_t tokens, width, block, stride, out_stride;
    float scale;
};

/// What the next sample's tensors are, one share with each head of this one: a head touches pieces of some
/// cache lines, too short for the processor to see what comes next, and asked for at once they would keep it
/// waiting for what it needs now.
MemoryAhead next_sample(const AttentionShape& shape, std::int64_t samples, std::int64_t out_at,
                        std::initializer_list<std::pair<const float*, std::int64_t>> tensors) {
    const std::int64_t size = shape.tokens * shape.heads * shape.width;
    const std::int64_t next = out_at / size + 1, head = out_at % size / shape.width;
    MemoryAhead ahead;
    if (next == samples) return ahead;
    MemoryAhead::Range* range = ahead.ranges;
    for (const auto& [tensor, sizes] : tensors) {
        const std::int64_t lines = sizes * size / bf16_lanes, begin = share_begin(lines, shape.heads, head);
        *range++ = {tensor + next * sizes * size + begin * bf16_lanes,
                    share_begin(lines, shape.heads, head + 1) - begin};
    }
    return ahead;
}

}  // namespace

bool takes_bf16_attention(const AttentionShape& shape) {
    // Blocks of queries are padded to this build's vectors.
    return lanes<float> % bf16_lanes == 0 && has_bf16_tiles() && shape.width % bf16_lanes == 0;
}

void bf16_attention_forward(const AttentionShape& shape, const TensorView& qkv, const TensorView& out,
                            const TensorView& mask, Workspace& workspace) {
    const std::int64_t samples = qkv.shape[0], channels = shape.heads * shape.width;
    assert(qkv.count() == samples * shape.tokens * 3 * channels && 3 * out.count() == qkv.count());
    const Head longest(shape, shape.tokens);
    const ExistingTokens<float> existing(mask, samples, shape.tokens);
    const float* in = qkv.as<float>();
    float* result = out.as<float>();
    for_heads<float>(shape, samples, padded<float>(longest.forward_scratch()), workspace, {},
                     [&](std::int64_t n, std::int64_t at, std::int64_t out_at, float* scratch) {
                         const float* q = in + at;
                         float* const to = result + out_at;
                         const Head head(shape, existing.of(n));
                         if (head.tokens > 0)
                             head.forward(q, q + channels, q + 2 * channels, to, scratch,
                                          next_sample(shape, samples, out_at, {{in, 3}, {result, 1}}));
                         clear_rows(to + head.tokens * channels, channels, shape.tokens - head.tokens,
                                    shape.width);
                     });
}

void bf16_attention_backward(const AttentionShape& shape, const TensorView& qkv, const TensorView& dout,
                             const TensorView& dqkv, const TensorView& mask, Workspace& workspace) {
    const std::int64_t samples = qkv.shape[0], channels = shape.heads * shape.width;
    assert(qkv.count() == samples * shape.tokens * 3 * channels && 3 * dout.count() == qkv.count());
    assert(dqkv.count() == qkv.count());
    const Head longest(shape, shape.tokens);
    const ExistingTokens<float> existing(mask, samples, shape.tokens);
    const float *in = qkv.as<float>(), *out_gradient = dout.as<float>();
    float* gradient = dqkv.as<float>();
    for_heads<float>(shape, samples, padded<float>(longest.backward_scratch()), workspace, {},
                     [&](std::int64_t n, std::int64_t at, std::int64_t out_at, float* scratch) {
                         const float* q = in + at;
                         float* dq = gradient + at;
                         const Head head(shape, existing.of(n));
                         if (head.tokens > 0)
                             head.backward(q, q + channels, q + 2 * channels, out_gradient + out_at, dq,
                                           dq + channels, dq + 2 * channels, scratch,
                                           next_sample(shape, samples, out_at,
                                                       {{in, 3}, {out_gradient, 1}, {gradient, 3}}));
                         for (float* part : {dq, dq + channels, dq + 2 * channels})
                             clear_rows(part + 3 * head.tokens * channels, 3 * channels,
                                        shape.tokens - head.tokens, shape.width);
                     });
}

}  // namespace tutti
