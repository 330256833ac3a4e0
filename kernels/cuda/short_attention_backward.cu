#include <cassert>
#include <limits>

#include "attention_tiles.hpp"
#include "short_attention.hpp"
#include "storage.hpp"

namespace tutti::cuda {
using namespace short_attention;

namespace {

constexpr int most_tokens = 256;
/// How many warps a block has at most, of so many registers, by how many tiles each has: shared memory has
/// room for one block of many tokens, and a warp with two reads q and dout for both at once.
template <int Tiles>
struct Warps;
template <>
struct Warps<1> {
    static constexpr int most = 12, registers = 168;
};
template <>
struct Warps<2> {
    static constexpr int most = 8, registers = 255;
};
static_assert(most_tokens <= 2 * tile * Warps<2>::most);

/// What backward has in shared memory, T rounded up to tiles.
template <int Width>
struct BackwardMemory {
    int padded;
    Rows<Width> queries, gradients, keys;  ///< q, dout, k
    /// dS by tiles of 16 queries × 16 keys, 512 bytes each, all keys of a query's first.
    std::uint32_t* dscores;
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

/// The first row of a warp's tile t. The second one may have nothing that exists, as of the last warp where
/// the number of tiles is odd: then it reads the last tile that has, and nothing becomes of it.
__device__ inline int rows_to_read(int first, int t, int end) {
    const int row = first + t * tile;
    return row < end ? row : end - tile;
}

/// A warp's tiles of 16 keys: dk and dv, and their columns of dS, over all queries. Scores are [key, query],
/// so that they are left operands of dv += Pᵀ·dout and dk += dSᵀ·q as they are.
template <int Width, int Tiles>
__device__ inline void differentiate_keys(const BackwardMemory<Width>& memory, const Head<Width>& head,
                                          int first, const std::uint32_t (&v)[Tiles][Width / 16][4],
                                          float in_powers_of_2, float (&dk)[Tiles][Width / 8][4],
                                          float (&dv)[Tiles][Width / 8][4]) {
    const int rows = Rows<Width>::upper_first(), columns = Rows<Width>::left_first();
    std::uint32_t k[Width / 16][4];
#pragma unroll
    for (int part = 0; part < Width / 16; ++part) load_matrices(k[part], memory.keys.at(rows, first, part));
    const int key = first + lane_index() / 4;
    for (int query = 0; query < head.count; query += tile) {
        const auto pair = [&](const float* of_queries, int j) {
            return fetch<2>(of_queries + query + 8 * j + lane_index() % 4 * 2);
        };
        float p[Tiles][2][4];
#pragma unroll
        for (int t = 0; t < Tiles; ++t) clear(p[t]);
#pragma unroll
        for (int part = 0; part < Width / 16; ++part) {
            std::uint32_t q[4];
            load_matrices(q, memory.queries.at(columns, query, part));
#pragma unroll
            for (int t = 0; t < Tiles; ++t) {
                // Kept for one tile only, as registers are scarce.
                std::uint32_t other[4];
                if (t > 0)
                    load_matrices(
                        other,
                        memory.keys.at(rows, rows_to_read(first, t, rounded_up(head.count, tile)), part));
                multiply_tile(p[t][0], p[t][1], t > 0 ? other : k[part], q);
            }
        }
        std::uint32_t left[Tiles][4];
#pragma unroll
        for (int t = 0; t < Tiles; ++t) {
#pragma unroll
            for (int j = 0; j < 2; ++j) {
                const auto sums = pair(memory.sums, j);
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    const float power = fast_exp2(fmaf(p[t][j][i], in_powers_of_2, -sums.at[i % 2]));
                    p[t][j][i] = key + t * tile + i / 2 * 8 < head.count ? power : 0;
                }
            }
            round_to_left(p[t][0], p[t][1], left[t]);
        }
#pragma unroll
        for (int part = 0; part < Width / 16; ++part) {
            std::uint32_t dout[4];
            load_transposed_matrices(dout, memory.gradients.at(rows, query, part));
#pragma unroll
            for (int t = 0; t < Tiles; ++t)
                multiply_tile(dv[t][2 * part], dv[t][2 * part + 1], left[t], dout);
        }

        float ds[Tiles][2][4];
#pragma unroll
        for (int t = 0; t < Tiles; ++t) clear(ds[t]);
#pragma unroll
        for (int part = 0; part < Width / 16; ++part) {
            std::uint32_t dout[4];
            load_matrices(dout, memory.gradients.at(columns, query, part));
#pragma unroll
            for (int t = 0; t < Tiles; ++t) multiply_tile(ds[t][0], ds[t][1], v[t][part], dout);
        }
#pragma unroll
        for (int t = 0; t < Tiles; ++t) {
#pragma unroll
            for (int j = 0; j < 2; ++j) {
                const auto slopes = pair(memory.slopes, j);
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    // The rounded one: to keep both costs registers.
                    const std::uint32_t both = left[t][2 * j + i / 2];
                    const float probability =
                        __builtin_bit_cast(float, i % 2 == 0 ? both << 16 : both & 0xffff0000u);
                    ds[t][j][i] = probability * (ds[t][j][i] - slopes.at[i % 2]);
                }
            }
            round_to_left(ds[t][0], ds[t][1], left[t]);
            // As matrices of the transposed tile, a left operand [query, key].
            if (first + t * tile < head.count) {
                std::uint32_t* const scores = memory.scores_of(query, first + t * tile) + lane_index();
                scores[0] = left[t][0];
                scores[32] = left[t][2];
                scores[64] = left[t][1];
                scores[96] = left[t][3];
            }
        }
#pragma unroll
        for (int part = 0; part < Width / 16; ++part) {
            std::uint32_t q[4];
            load_transposed_matrices(q, memory.queries.at(rows, query, part));
#pragma unroll
            for (int t = 0; t < Tiles; ++t) multiply_tile(dk[t][2 * part], dk[t][2 * part + 1], left[t], q);
        }
    }
}

/// A warp's tiles of 16 queries: dq += dS·k over all keys. dS is there of tiles in which a query exists.
template <int Width, int Tiles>
__device__ inline void differentiate_queries(const BackwardMemory<Width>& memory, const Head<Width>& head,
                                             int first, float (&dq)[Tiles][Width / 8][4]) {
    const int rows = Rows<Width>::upper_first(), written = rounded_up(head.count, tile);
    for (int key = 0; key < head.count; key += tile) {
        std::uint32_t left[Tiles][4];
#pragma unroll
        for (int t = 0; t < Tiles; ++t)
            load_transposed_matrices(
                left[t], memory.scores_of(rows_to_read(first, t, written), key) + lane_index() * 4);
#pragma unroll
        for (int part = 0; part < Width / 16; ++part) {
            std::uint32_t k[4];
            load_transposed_matrices(k, memory.keys.at(rows, key, part));
#pragma unroll
            for (int t = 0; t < Tiles; ++t) multiply_tile(dq[t][2 * part], dq[t][2 * part + 1], left[t], k);
        }
    }
}

template <int Width, int Tiles>
__global__ void REGISTERS(Warps<Tiles>::registers, 32 * Warps<Tiles>::most)
    differentiate(Task task, const Bf16* RESTRICT qkv, const Bf16* RESTRICT out,
                  const float* RESTRICT statistics, const Bf16* RESTRICT dout, Bf16* RESTRICT dqkv) {
    const Head<Width> head(task);
    const BackwardMemory<Width> memory(head.tokens);
    const int first = thread_index() / 32 * Tiles * tile;
    std::uint32_t v[Tiles][Width / 16][4];
#pragma unroll
    for (int t = 0; t < Tiles; ++t)
        load_left<Width>(v[t], qkv + head.v(), first + t * tile, head.count, head.packed());
    load_for_backward(task, memory, head, qkv, out, statistics, dout);
    wait_for_copies();
    __syncthreads();

    const auto store_tiles = [&](const float(&sums)[Tiles][Width / 8][4], float factor, std::int64_t place) {
        const float factors[2] = {factor, factor};
#pragma unroll
        for (int t = 0; t < Tiles; ++t)
            store_rows<Width>(sums[t], factors, dqkv + place, first + t * tile, head.count, head.tokens,
                              head.packed());
    };
    {
        float dk[Tiles][Width / 8][4], dv[Tiles][Width / 8][4];
#pragma unroll
        for (int t = 0; t < Tiles; ++t) {
            clear(dk[t]);
            clear(dv[t]);
        }
        if (first < head.count)
            differentiate_keys<Width, Tiles>(memory, head, first, v, task.factor * log2_e, dk, dv);
        store_tiles(dk, task.factor, head.k());
        store_tiles(dv, 1, head.v());
    }
    __syncthreads();
    float dq[Tiles][Width / 8][4];
#pragma unroll
    for (int t = 0; t < Tiles; ++t) clear(dq[t]);
    if (first < head.count) differentiate_queries<Width, Tiles>(memory, head, first, dq);
    store_tiles(dq, task.factor, head.q);
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

void short_attention_backward(const AttentionShape& shape, const TensorView& qkv, const TensorView& existing,
                              const TensorView& out, const TensorView& statistics, const TensorView& dout,
                              const TensorView& dqkv, Stream stream) {
    const std::int64_t samples = qkv.shape[0];
    assert(qkv.count() == dqkv.count() && 3 * dout.count() == qkv.count() && out.count() == dout.count());
    assert(aligned(qkv.data, out.data, dout.data) &&
           statistics.count() == samples * shape.heads * shape.tokens);
    const int tiles = tiles_of(shape);
    const auto start = [&](auto* kernel, int warps) {
        launch("short_attention_backward", kernel, geometry_of(shape, samples, warps, backward_bytes(shape)),
               stream, task_of(shape, existing), elements<const Bf16>(qkv), elements<const Bf16>(out),
               statistics.as<const float>(), elements<const Bf16>(dout), elements<Bf16>(dqkv));
    };
    with_width(shape.width, [&]<class Width>(Width) {
        if (tiles <= Warps<1>::most)
            start(differentiate<Width::value, 1>, tiles);
        else
            start(differentiate<Width::value, 2>, (tiles + 1) / 2);
    });
}

}  // namespace tutti::cuda
