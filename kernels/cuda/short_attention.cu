#include "short_attention.hpp"

#include <cassert>
#include <cmath>
#include <limits>

#include "storage.hpp"
#include "vectors.hpp"

namespace tutti::cuda {
namespace {

// Names follow the operands of a product: its left one has the rows of the result, its right one the columns.
// A warp has a tile of 16 rows of a result at a time.
constexpr int tile = 16;
constexpr int most_tokens = 256;
// Of a block, at most. Forward: three blocks of a multiprocessor have the registers that each wants;
// backward: so many for one, as shared memory has room for one.
constexpr int forward_warps = 7, backward_warps = 13;

constexpr int rounded_up(int count, int by) {
    return (count + by - 1) / by * by;
}
/// As few as take no more rounds over the tiles than `most` would.
constexpr int warps_for(int tiles, int most) {
    const int rounds = (tiles + most - 1) / most;
    return (tiles + rounds - 1) / rounds;
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
    for (int j = 0; j < N; ++j)
#pragma unroll
        for (int i = 0; i < 4; ++i) sums[j][i] = 0;
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
        for (int part = 0; part < Width / 16; ++part)
#pragma unroll
            for (int right = 0; right < 2; ++right) {
                const auto pair = row < count ? fetch<2>(from + 16 * part + 8 * right) : Vector<Bf16, 2>{};
                __builtin_memcpy(&left[part][lower + 2 * right], &pair, sizeof pair);
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

/// The four lanes that hold a row.
template <class Combine>
__device__ inline float of_row(float value, const Combine& combine) {
    value = combine(value, __shfl_xor_sync(whole_warp, value, 1));
    return combine(value, __shfl_xor_sync(whole_warp, value, 2));
}

constexpr float log2_e = 1.44269504f;

/// Shared memory: k and v, each [T, rounded up to tiles][D].
template <int Width>
__global__ void REGISTERS(96, 32 * forward_warps)
    attend(Task task, const Bf16* RESTRICT qkv, Bf16* RESTRICT out, float* RESTRICT statistics) {
    const Head<Width> head(task);
    const int padded = rounded_up(head.tokens, tile);
    const Rows<Width> keys{dynamic_shared<Bf16>()}, values{keys.data + padded * Width};
    for (int i = thread_index(); i < padded * Rows<Width>::pieces; i += block_threads()) {
        const int row = i / Rows<Width>::pieces, number = i % Rows<Width>::pieces;
        if (row < head.count) {
            begin_copy(keys.piece(row, number), qkv + head.k() + row * head.packed() + number * 8);
            begin_copy(values.piece(row, number), qkv + head.v() + row * head.packed() + number * 8);
        } else {
            keys.clear(row, number);
            values.clear(row, number);
        }
    }
    wait_for_copies();
    __syncthreads();

    const int rows = Rows<Width>::upper_first(), columns = Rows<Width>::left_first();
    const float in_powers_of_2 = task.factor * log2_e;
    for (int first = thread_index() / 32 * tile; first < head.tokens; first += block_threads() / 32 * tile) {
        std::uint32_t q[Width / 16][4];
        load_left<Width>(q, qkv + head.q, first, head.count, head.packed());
        float mixed[Width / 8][4];
        clear(mixed);
        // Of rows g and g + 8; totals are the lane's part.
        float most[2] = {-std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity()};
        float total[2] = {0, 0};
        for (int key = 0; key < head.count; key += tile) {
            float p[2][4];
            clear(p);
#pragma unroll
            for (int part = 0; part < Width / 16; ++part) {
                std::uint32_t k[4];
                load_matrices(k, keys.at(columns, key, part));
                multiply_matrices(p[0], q[part], k[0], k[1]);
                multiply_matrices(p[1], q[part], k[2], k[3]);
            }
            if (key + tile > head.count)
#pragma unroll
                for (int j = 0; j < 2; ++j)
#pragma unroll
                    for (int i = 0; i < 4; ++i)
                        if (key + 8 * j + lane_index() % 4 * 2 + i % 2 >= head.count)
                            p[j][i] = -std::numeric_limits<float>::infinity();
#pragma unroll
            for (int lower = 0; lower < 2; ++lower) {
                float highest = most[lower];
#pragma unroll
                for (int j = 0; j < 2; ++j)
                    highest = fmaxf(highest, fmaxf(p[j][2 * lower], p[j][2 * lower + 1]));
                highest = of_row(highest, [](float a, float b) { return fmaxf(a, b); });
                const float subtracted = highest * in_powers_of_2;
                const float shrunk = fast_exp2(fmaf(most[lower], in_powers_of_2, -subtracted));
                most[lower] = highest;
                total[lower] *= shrunk;
#pragma unroll
                for (int j = 0; j < 2; ++j)
#pragma unroll
                    for (int i = 2 * lower; i < 2 * lower + 2; ++i) {
                        p[j][i] = fast_exp2(fmaf(p[j][i], in_powers_of_2, -subtracted));
                        total[lower] += p[j][i];
                    }
#pragma unroll
                for (int j = 0; j < Width / 8; ++j) {
                    mixed[j][2 * lower] *= shrunk;
                    mixed[j][2 * lower + 1] *= shrunk;
                }
            }
            std::uint32_t left[4];
            round_to_left(p[0], p[1], left);
#pragma unroll
            for (int part = 0; part < Width / 16; ++part) {
                std::uint32_t v[4];
                load_transposed_matrices(v, values.at(rows, key, part));
                multiply_matrices(mixed[2 * part], left, v[0], v[1]);
                multiply_matrices(mixed[2 * part + 1], left, v[2], v[3]);
            }
        }
        float inverse[2];
#pragma unroll
        for (int lower = 0; lower < 2; ++lower) {
            const float sum = of_row(total[lower], [](float a, float b) { return a + b; });
            inverse[lower] = 1 / sum;
            const int row = first + lane_index() / 4 + 8 * lower;
            if (statistics && lane_index() % 4 == 0 && row < head.tokens)
                statistics[head.row() + row] =
                    row < head.count ? fmaf(most[lower], task.factor, logf(sum)) : 0;
        }
        store_rows<Width>(mixed, inverse, out + head.out(task), first, head.count, head.tokens, head.plain);
    }
}

/// What backward has in shared memory, T rounded up to tiles.
template <int Width>
struct BackwardMemory {
    int padded;
    Rows<Width> queries, gradients, keys;  ///< q, dout, k
    std::uint32_t*
        dscores;    ///< dS by tiles of 16 queries × 16 keys, 512 bytes each, all keys of a query's first
    float* sums;    ///< of each query: log Σ exp of its scores, in powers of 2
    float* slopes;  ///< Σ dout·out

    __host__ __device__ static constexpr std::size_t bytes(std::size_t padded) {
        return padded * (3 * Width * sizeof(Bf16) + padded * sizeof(Bf16) + 2 * sizeof(float));
    }
    __device__ explicit BackwardMemory(int tokens)
        : padded(rounded_up(tokens, tile)),
          queries{dynamic_shared<Bf16>()},
          gradients{queries.data + padded * Width},
          keys{gradients.data + padded * Width},
          dscores(reinterpret_cast<std::uint32_t*>(keys.data + padded * Width)),
          sums(reinterpret_cast<float*>(dscores + padded * padded / 2)),
          slopes(sums + padded) {}
    __device__ std::uint32_t* scores_of(int query, int key) const {
        return dscores + (query / tile * (padded / tile) + key / tile) * 128;
    }
};

template <int Width>
__device__ inline void load_for_backward(const Task& task, const BackwardMemory<Width>& memory,
                                         const Head<Width>& head, const Bf16* qkv, const Bf16* out,
                                         const float* statistics, const Bf16* dout) {
    constexpr int pieces = Rows<Width>::pieces;
    // Whole warps: `pieces` lanes have a row.
    for (int i = thread_index(); i < memory.padded * pieces; i += block_threads()) {
        const int row = i / pieces, number = i % pieces;
        float slope = 0;
        if (row < head.count) {
            begin_copy(memory.queries.piece(row, number), qkv + head.q + row * head.packed() + number * 8);
            begin_copy(memory.keys.piece(row, number), qkv + head.k() + row * head.packed() + number * 8);
            const std::int64_t place = head.out(task) + row * head.plain + number * 8;
            const auto gradient = fetch<8>(dout + place), result = fetch<8>(out + place);
            *reinterpret_cast<Vector<Bf16, 8>*>(memory.gradients.piece(row, number)) = gradient;
#pragma unroll
            for (int j = 0; j < 8; ++j) slope = fmaf(to_float(gradient.at[j]), to_float(result.at[j]), slope);
        } else {
            memory.queries.clear(row, number);
            memory.gradients.clear(row, number);
            memory.keys.clear(row, number);
        }
#pragma unroll
        for (int distance = 1; distance < pieces; distance *= 2)
            slope += __shfl_xor_sync(whole_warp, slope, distance);
        if (number == 0) {
            memory.slopes[row] = slope;
            // Nothing has a part in what does not exist: 2^-infinity.
            memory.sums[row] = row < head.count ? statistics[head.row() + row] * log2_e
                                                : std::numeric_limits<float>::infinity();
        }
    }
}

/// A warp's 16 keys: dk and dv, and their columns of dS, over all queries. Scores are [key, query], so that
/// they are left operands of dv += Pᵀ·dout and dk += dSᵀ·q as they are.
template <int Width>
__device__ inline void differentiate_keys(const BackwardMemory<Width>& memory, const Head<Width>& head,
                                          int first, const std::uint32_t (&v)[Width / 16][4],
                                          float in_powers_of_2, float (&dk)[Width / 8][4],
                                          float (&dv)[Width / 8][4]) {
    const int rows = Rows<Width>::upper_first(), columns = Rows<Width>::left_first();
    std::uint32_t k[Width / 16][4];
#pragma unroll
    for (int part = 0; part < Width / 16; ++part) load_matrices(k[part], memory.keys.at(rows, first, part));
    const int key = first + lane_index() / 4;
    for (int query = 0; query < head.count; query += tile) {
        const auto pair = [&](const float* of_queries, int j) {
            return fetch<2>(of_queries + query + 8 * j + lane_index() % 4 * 2);
        };
        float p[2][4];
        clear(p);
#pragma unroll
        for (int part = 0; part < Width / 16; ++part) {
            std::uint32_t q[4];
            load_matrices(q, memory.queries.at(columns, query, part));
            multiply_matrices(p[0], k[part], q[0], q[1]);
            multiply_matrices(p[1], k[part], q[2], q[3]);
        }
#pragma unroll
        for (int j = 0; j < 2; ++j) {
            const auto sums = pair(memory.sums, j);
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const float power = fast_exp2(fmaf(p[j][i], in_powers_of_2, -sums.at[i % 2]));
                p[j][i] = key + i / 2 * 8 < head.count ? power : 0;
            }
        }
        std::uint32_t left[4];
        round_to_left(p[0], p[1], left);
#pragma unroll
        for (int part = 0; part < Width / 16; ++part) {
            std::uint32_t dout[4];
            load_transposed_matrices(dout, memory.gradients.at(rows, query, part));
            multiply_matrices(dv[2 * part], left, dout[0], dout[1]);
            multiply_matrices(dv[2 * part + 1], left, dout[2], dout[3]);
        }

        float ds[2][4];
        clear(ds);
#pragma unroll
        for (int part = 0; part < Width / 16; ++part) {
            std::uint32_t dout[4];
            load_matrices(dout, memory.gradients.at(columns, query, part));
            multiply_matrices(ds[0], v[part], dout[0], dout[1]);
            multiply_matrices(ds[1], v[part], dout[2], dout[3]);
        }
#pragma unroll
        for (int j = 0; j < 2; ++j) {
            const auto slopes = pair(memory.slopes, j);
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                // The rounded one: to keep both costs registers.
                const std::uint32_t both = left[2 * j + i / 2];
                const float probability =
                    __builtin_bit_cast(float, i % 2 == 0 ? both << 16 : both & 0xffff0000u);
                ds[j][i] = probability * (ds[j][i] - slopes.at[i % 2]);
            }
        }
        round_to_left(ds[0], ds[1], left);
        // As matrices of the transposed tile, a left operand [query, key].
        std::uint32_t* const scores = memory.scores_of(query, first) + lane_index();
        scores[0] = left[0];
        scores[32] = left[2];
        scores[64] = left[1];
        scores[96] = left[3];
#pragma unroll
        for (int part = 0; part < Width / 16; ++part) {
            std::uint32_t q[4];
            load_transposed_matrices(q, memory.queries.at(rows, query, part));
            multiply_matrices(dk[2 * part], left, q[0], q[1]);
            multiply_matrices(dk[2 * part + 1], left, q[2], q[3]);
        }
    }
}

template <int Width>
__global__ void REGISTERS(144, 32 * backward_warps)
    differentiate(Task task, const Bf16* RESTRICT qkv, const Bf16* RESTRICT out,
                  const float* RESTRICT statistics, const Bf16* RESTRICT dout, Bf16* RESTRICT dqkv) {
    const Head<Width> head(task);
    const BackwardMemory<Width> memory(head.tokens);
    const int own = thread_index() / 32 * tile, next = block_threads() / 32 * tile;
    std::uint32_t v[Width / 16][4];
    load_left<Width>(v, qkv + head.v(), own, head.count, head.packed());
    load_for_backward(task, memory, head, qkv, out, statistics, dout);
    wait_for_copies();
    __syncthreads();

    const float factors[2] = {task.factor, task.factor}, ones[2] = {1, 1};
    for (int first = own; first < head.tokens; first += next) {
        float dk[Width / 8][4], dv[Width / 8][4];
        clear(dk);
        clear(dv);
        if (first != own) load_left<Width>(v, qkv + head.v(), first, head.count, head.packed());
        if (first < head.count)
            differentiate_keys<Width>(memory, head, first, v, task.factor * log2_e, dk, dv);
        store_rows<Width>(dk, factors, dqkv + head.k(), first, head.count, head.tokens, head.packed());
        store_rows<Width>(dv, ones, dqkv + head.v(), first, head.count, head.tokens, head.packed());
    }
    __syncthreads();
    const int rows = Rows<Width>::upper_first();
    for (int first = own; first < head.tokens; first += next) {
        float dq[Width / 8][4];
        clear(dq);
        if (first < head.count)
            for (int key = 0; key < head.count; key += tile) {
                std::uint32_t left[4];
                load_transposed_matrices(left, memory.scores_of(first, key) + lane_index() * 4);
#pragma unroll
                for (int part = 0; part < Width / 16; ++part) {
                    std::uint32_t k[4];
                    load_transposed_matrices(k, memory.keys.at(rows, key, part));
                    multiply_matrices(dq[2 * part], left, k[0], k[1]);
                    multiply_matrices(dq[2 * part + 1], left, k[2], k[3]);
                }
            }
        store_rows<Width>(dq, factors, dqkv + head.q, first, head.count, head.tokens, head.packed());
    }
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

Task task_of(const AttentionShape& shape, const TensorView& existing) {
    return {static_cast<int>(shape.tokens), static_cast<int>(shape.heads),
            existing.defined() ? existing.as<std::int64_t>() : nullptr,
            1 / std::sqrt(static_cast<float>(shape.width))};
}

Geometry geometry_of(const AttentionShape& shape, std::int64_t samples, int most_warps, std::size_t shared) {
    const int tiles = rounded_up(static_cast<int>(shape.tokens), tile) / tile;
    return {{static_cast<unsigned>(samples * shape.heads)},
            {static_cast<unsigned>(32 * warps_for(tiles, most_warps))},
            shared};
}

std::size_t backward_bytes(const AttentionShape& shape) {
    const auto padded = static_cast<std::size_t>(rounded_up(static_cast<int>(shape.tokens), tile));
    return shape.width == 32 ? BackwardMemory<32>::bytes(padded) : BackwardMemory<64>::bytes(padded);
}

}  // namespace

bool takes_short_attention(const AttentionShape& shape, std::size_t shared_memory) {
    return (shape.width == 32 || shape.width == 64) && shape.tokens <= most_tokens &&
           backward_bytes(shape) <= shared_memory;
}

void short_attention_forward(const AttentionShape& shape, const TensorView& qkv, const TensorView& existing,
                             const TensorView& out, const TensorView& statistics, Stream stream) {
    const std::int64_t samples = qkv.shape[0];
    assert(qkv.count() == samples * shape.tokens * 3 * shape.heads * shape.width &&
           3 * out.count() == qkv.count());
    assert(aligned(qkv.data) && (!existing.defined() || existing.count() == samples));
    const auto shared =
        static_cast<std::size_t>(rounded_up(static_cast<int>(shape.tokens), tile) * shape.width) * 2 *
        sizeof(Bf16);
    with_width(shape.width, [&]<class Width>(Width) {
        launch("short_attention_forward", attend<Width::value>,
               geometry_of(shape, samples, forward_warps, shared), stream, task_of(shape, existing),
               elements<const Bf16>(qkv), elements<Bf16>(out),
               statistics.defined() ? statistics.as<float>() : nullptr);
    });
}

void short_attention_backward(const AttentionShape& shape, const TensorView& qkv, const TensorView& existing,
                              const TensorView& out, const TensorView& statistics, const TensorView& dout,
                              const TensorView& dqkv, Stream stream) {
    const std::int64_t samples = qkv.shape[0];
    assert(qkv.count() == dqkv.count() && 3 * dout.count() == qkv.count() && out.count() == dout.count());
    assert(aligned(qkv.data, out.data, dout.data) &&
           statistics.count() == samples * shape.heads * shape.tokens);
    with_width(shape.width, [&]<class Width>(Width) {
        launch("short_attention_backward", differentiate<Width::value>,
               geometry_of(shape, samples, backward_warps, backward_bytes(shape)), stream,
               task_of(shape, existing), elements<const Bf16>(qkv), elements<const Bf16>(out),
               statistics.as<const float>(), elements<const Bf16>(dout), elements<Bf16>(dqkv));
    });
}

}  // namespace tutti::cuda
