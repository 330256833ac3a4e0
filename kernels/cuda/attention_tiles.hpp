#pragma once
// What the kernels of short attention share: a block's head, its rows in shared memory, and tiles of 16 rows
// as operands of tensor cores' products.
//
// Names follow the operands of a product: its left one has the rows of the result, its right one the columns.
// A warp has a tile of 16 rows of a result at a time.

#include <cassert>
#include <cmath>
#include <cstdint>

#include "launch.hpp"
#include "tutti/device/transformer_ops.hpp"
#include "vectors.hpp"

namespace tutti::cuda::short_attention {

inline constexpr int tile = 16;
inline constexpr float log2_e = 1.44269504f;

constexpr int rounded_up(int count, int by) {
    return (count + by - 1) / by * by;
}

struct Task {
    int tokens, heads;
    const std::int64_t* existing;  ///< null: all of them
    float factor;                  ///< of scores, 1/√D
};

/// The block's head. Places are in elements; they are few, as what lives through the loops costs registers.
template <int Width>
struct Head {
    int tokens, count;  ///< in memory, and that exist
    int plain;          ///< from a token's out to the next one's
    std::int64_t q;     ///< where the first token's is

    __device__ explicit Head(const Task& task) : tokens(task.tokens), plain(task.heads * Width) {
        count = task.existing ? static_cast<int>(task.existing[sample(task)]) : tokens;
        q = sample(task) * tokens * packed() + number(task) * Width;
    }
    // In 32 bits, as longer divisions are slow.
    __device__ static std::int64_t sample(const Task& task) {
        return static_cast<unsigned>(block_index()) / static_cast<unsigned>(task.heads);
    }
    __device__ static std::int64_t number(const Task& task) {
        return static_cast<unsigned>(block_index()) % static_cast<unsigned>(task.heads);
    }
    /// From a token's q, k or v to the next one's.
    __device__ int packed() const { return 3 * plain; }
    __device__ std::int64_t k() const { return q + plain; }
    __device__ std::int64_t v() const { return q + 2 * plain; }
    __device__ std::int64_t out(const Task& task) const {
        return sample(task) * tokens * plain + number(task) * Width;
    }
    /// Of statistics.
    __device__ std::int64_t row() const { return block_index() * tokens; }
};

/// bf16[rows][Width] in shared memory. Pieces of 16 bytes are exchanged within rows so that those of eight
/// rows in one place lie in different banks.
template <int Width>
struct Rows {
    static constexpr int pieces = Width / 8, per_line = 8 / pieces;
    Bf16* data;

    __device__ static int place(int row, int number) {
        return row * Width + (number ^ row / per_line % pieces) * 8;
    }
    __device__ Bf16* piece(int row, int number) const { return data + place(row, number); }
    __device__ void clear(int row, int number) const {
        *reinterpret_cast<Vector<Bf16, 8>*>(piece(row, number)) = {};
    }
    /// The lane's place for load_matrices in rows and columns [0, 16). In this order they are a left operand,
    /// and transposed a right one for two blocks of 8 columns, one after the other.
    __device__ static int upper_first() { return place(lane_index() % 16, lane_index() / 16); }
    /// In this order a right operand, of rows that are the columns of the result.
    __device__ static int left_first() {
        return place(lane_index() / 16 * 8 + lane_index() % 8, lane_index() / 8 % 2);
    }
    /// Of one of these, its address in rows [first, first + 16) and columns [16·part, 16·part + 16): of what
    /// moves pieces only the bits of their numbers change.
    __device__ const Bf16* at(int place, int first, int part) const {
        return data + ((place + first * Width) ^ 16 * part);
    }
};

template <int N>
__device__ inline void clear(float (&sums)[N][4]) {
#pragma unroll
    for (int j = 0; j < N; ++j) {
#pragma unroll
        for (int i = 0; i < 4; ++i) sums[j][i] = 0;
    }
}

/// Rows [first, first + 16) in global memory as left operands, those from `count` on as zeros.
template <int Width>
__device__ inline void load_left(std::uint32_t (&left)[Width / 16][4], const Bf16* rows, int first, int count,
                                 int stride) {
    const int column = lane_index() % 4 * 2;
#pragma unroll
    for (int lower = 0; lower < 2; ++lower) {
        const int row = first + lane_index() / 4 + 8 * lower;
        const Bf16* from = rows + row * stride + column;
#pragma unroll
        for (int part = 0; part < Width / 16; ++part) {
#pragma unroll
            for (int right = 0; right < 2; ++right) {
                const auto pair = row < count ? fetch<2>(from + 16 * part + 8 * right) : Vector<Bf16, 2>{};
                __builtin_memcpy(&left[part][lower + 2 * right], &pair, sizeof pair);
            }
        }
    }
}

/// sums·factor into rows [first, first + 16) of global memory; zeros from `count` to `tokens`.
template <int Width>
__device__ inline void store_rows(const float (&sums)[Width / 8][4], const float (&factor)[2], Bf16* rows,
                                  int first, int count, int tokens, int stride) {
#pragma unroll
    for (int lower = 0; lower < 2; ++lower) {
        const int row = first + lane_index() / 4 + 8 * lower;
        if (row >= tokens) continue;
        Bf16* to = rows + row * stride + lane_index() % 4 * 2;
#pragma unroll
        for (int j = 0; j < Width / 8; ++j) {
            // Selected, as what does not exist may be no number.
            const float values[2] = {row < count ? sums[j][2 * lower] * factor[lower] : 0,
                                     row < count ? sums[j][2 * lower + 1] * factor[lower] : 0};
            store<2>(to + 8 * j, values);
        }
    }
}

/// Two blocks of 8 columns, as a product gives them, as the left operand of the next one.
__device__ inline void round_to_left(const float (&low)[4], const float (&high)[4],
                                     std::uint32_t (&left)[4]) {
    left[0] = round_to_bf16x2(low[0], low[1]);
    left[1] = round_to_bf16x2(low[2], low[3]);
    left[2] = round_to_bf16x2(high[0], high[1]);
    left[3] = round_to_bf16x2(high[2], high[3]);
}

/// low and high, two blocks of 8 columns, += left · `right`, in upper_first's order and transposed, or in
/// left_first's.
__device__ inline void multiply_tile(float (&low)[4], float (&high)[4], const std::uint32_t (&left)[4],
                                     const std::uint32_t (&right)[4]) {
    multiply_matrices(low, left, right[0], right[1]);
    multiply_matrices(high, left, right[2], right[3]);
}

template <int N>
struct HeadWidth {
    static constexpr int value = N;
};
/// body(HeadWidth<D>).
template <class Body>
void with_width(std::int64_t width, const Body& body) {
    assert(width == 32 || width == 64);
    if (width == 32) return body(HeadWidth<32>{});
    body(HeadWidth<64>{});
}

inline Task task_of(const AttentionShape& shape, const TensorView& existing) {
    return {static_cast<int>(shape.tokens), static_cast<int>(shape.heads),
            existing.defined() ? existing.as<std::int64_t>() : nullptr,
            1 / std::sqrt(static_cast<float>(shape.width))};
}

/// Of tokens.
inline int tiles_of(const AttentionShape& shape) {
    return rounded_up(static_cast<int>(shape.tokens), tile) / tile;
}

inline Geometry geometry_of(const AttentionShape& shape, std::int64_t samples, int warps,
                            std::size_t shared) {
    return {{static_cast<unsigned>(samples * shape.heads)}, {static_cast<unsigned>(32 * warps)}, shared};
}

}  // namespace tutti::cuda::short_attention
