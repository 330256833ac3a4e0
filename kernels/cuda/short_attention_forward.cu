#include <cassert>
#include <limits>

#include "attention_tiles.hpp"
#include "short_attention.hpp"
#include "storage.hpp"

namespace tutti::cuda {
using namespace short_attention;

namespace {

/// Of a block, at most. A quarter of a multiprocessor has the registers for five warps of 96, so that four
/// such blocks run at once, as many as shared memory has room for at 197 tokens.
constexpr int most_warps = 5, registers = 96;

/// As few as take no more rounds over the tiles than most_warps would.
constexpr int warps_for(int tiles) {
    const int rounds = (tiles + most_warps - 1) / most_warps;
    return (tiles + rounds - 1) / rounds;
}

/// The four lanes that hold a row.
template <class Combine>
__device__ inline float of_row(float value, const Combine& combine) {
    value = combine(value, __shfl_xor_sync(whole_warp, value, 1));
    return combine(value, __shfl_xor_sync(whole_warp, value, 2));
}

/// Shared memory: k and v, each [T, rounded up to tiles][D].
template <int Width>
__global__ void REGISTERS(registers, 32 * most_warps)
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
                multiply_tile(p[0], p[1], q[part], k);
            }
            if (key + tile > head.count) {
#pragma unroll
                for (int j = 0; j < 2; ++j) {
#pragma unroll
                    for (int i = 0; i < 4; ++i)
                        if (key + 8 * j + lane_index() % 4 * 2 + i % 2 >= head.count)
                            p[j][i] = -std::numeric_limits<float>::infinity();
                }
            }
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
                for (int j = 0; j < 2; ++j) {
#pragma unroll
                    for (int i = 2 * lower; i < 2 * lower + 2; ++i) {
                        p[j][i] = fast_exp2(fmaf(p[j][i], in_powers_of_2, -subtracted));
                        total[lower] += p[j][i];
                    }
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
                multiply_tile(mixed[2 * part], mixed[2 * part + 1], left, v);
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

}  // namespace

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
               geometry_of(shape, samples, warps_for(tiles_of(shape)), shared), stream,
               task_of(shape, existing), elements<const Bf16>(qkv), elements<Bf16>(out),
               statistics.defined() ? statistics.as<float>() : nullptr);
    });
}

}  // namespace tutti::cuda
