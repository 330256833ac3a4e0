#include "layer_norm.hpp"

#include "../common/layer_norm_math.hpp"
#include "column_sums.hpp"
#include "row_groups.hpp"
#include "storage.hpp"
#include "vectors.hpp"

namespace tutti::cuda {
namespace {

// Rows of up to longest_row_of_a_warp elements in whole vectors lie in the registers of one warp: `V` vectors
// per lane, lane, lane + 32, …, each read once and before the first is needed. Other rows take the kernels
// with loops, which read a row once per pass.

template <class T, int V>
__device__ void hold_row(const T* row, int vectors, Vector<T, vector_size<T>> (&held)[V]) {
#pragma unroll
    for (int i = 0; i < V; ++i) {
        held[i] = {};
        if (const int v = lane_index() + 32 * i; v < vectors)
            held[i] = reinterpret_cast<const Vector<T, vector_size<T>>*>(row)[v];
    }
}

// Statistics are f64[rows, 2]: mean and scale of each row.

__device__ inline LayerNormRow<float> row_of(const double* RESTRICT statistics, std::int64_t row) {
    return {static_cast<float>(statistics[2 * row]), static_cast<float>(statistics[2 * row + 1])};
}

__device__ inline void write_statistics(const LayerNormRow<float>& norm, double* RESTRICT statistics,
                                        std::int64_t row) {
    statistics[2 * row] = static_cast<double>(norm.mean);
    statistics[2 * row + 1] = static_cast<double>(norm.scale);
}

/// y from `at` on of N columns with these x; leaves it in `values`, too.
template <class T, int N>
__device__ inline void write_normalized(const LayerNormRow<float>& norm, float (&values)[N],
                                        const float* RESTRICT gamma, const float* RESTRICT beta,
                                        std::int64_t at, T* y) {
    float scales[N], offsets[N];
    load<N>(gamma + at, scales);
    load<N>(beta + at, offsets);
#pragma unroll
    for (int k = 0; k < N; ++k) values[k] = norm.forward(values[k], scales[k], offsets[k]);
    store<N>(y + at, values);
}

/// The first pass of backward: what an element adds to the sums of its row, Σ dy·gamma and Σ dy·gamma·x̂, and
/// of its column.
__device__ inline void add_element(const LayerNormRow<float>& norm, float x, float dy, float gamma,
                                   float& sum, float& product_sum, float& dgamma, float& dbeta) {
    const float normalized = norm.normalized(x), g = dy * gamma;
    sum += g;
    product_sum = fmaf(g, normalized, product_sum);
    dgamma = fmaf(dy, normalized, dgamma);
    dbeta += dy;
}

/// In bf16 with four blocks on a multiprocessor: 32 warps, which leaves 64 registers to a thread.
template <class T, int V>
__global__ void __launch_bounds__(row_threads, sizeof(T) == 2 ? 4 : 2)
    normalize_held_rows(const T* RESTRICT x, const float* RESTRICT gamma, const float* RESTRICT beta,
                        std::int64_t rows, std::int64_t width, float eps, T* RESTRICT y,
                        double* RESTRICT statistics) {
    using Group = RowGroup<32>;
    constexpr int N = vector_size<T>;
    const int vectors = static_cast<int>(width) / N;
    for (std::int64_t row = Group::first_row(); row < rows; row += Group::row_step()) {
        Vector<T, N> held[V];
        hold_row(x + row * width, vectors, held);
        float values[V][N], sum = 0, squares = 0;
#pragma unroll
        for (int i = 0; i < V; ++i) {
            widen(held[i], values[i]);
#pragma unroll
            for (int k = 0; k < N; ++k) sum += values[i][k];
        }
        const float mean = Group::sum(sum) / static_cast<float>(width);
#pragma unroll
        for (int i = 0; i < V; ++i)
            if (lane_index() + 32 * i < vectors) {
#pragma unroll
                for (int k = 0; k < N; ++k) squares = fmaf(values[i][k] - mean, values[i][k] - mean, squares);
            }
        const float variance = Group::sum(squares) / static_cast<float>(width);
        const LayerNormRow<float> norm{mean, 1.0f / sqrtf(variance + eps)};
        if (lane_index() == 0) write_statistics(norm, statistics, row);
#pragma unroll
        for (int i = 0; i < V; ++i)
            if (const int v = lane_index() + 32 * i; v < vectors) {
                write_normalized(norm, values[i], gamma, beta, v * N, y + row * width);
            }
    }
}

template <class T, int N, class Group>
__global__ void __launch_bounds__(row_threads)
    normalize_rows(const T* RESTRICT x, const float* RESTRICT gamma, const float* RESTRICT beta,
                   std::int64_t rows, std::int64_t width, float eps, T* RESTRICT y,
                   double* RESTRICT statistics) {
    const std::int64_t first = Group::member() * N, step = row_threads / Group::per_block * N;
    for (std::int64_t row = Group::first_row(); row < rows; row += Group::row_step()) {
        const T* from = x + row * width;
        float values[N], sum = 0, squares = 0;
        for (std::int64_t i = first; i < width; i += step) {
            load<N>(from + i, values);
#pragma unroll
            for (int k = 0; k < N; ++k) sum += values[k];
        }
        const float mean = Group::sum(sum) / static_cast<float>(width);
        // Around the mean, because Σ x² − (Σ x)² cancels.
        for (std::int64_t i = first; i < width; i += step) {
            load<N>(from + i, values);
#pragma unroll
            for (int k = 0; k < N; ++k) squares = fmaf(values[k] - mean, values[k] - mean, squares);
        }
        const float variance = Group::sum(squares) / static_cast<float>(width);
        const LayerNormRow<float> norm{mean, 1.0f / sqrtf(variance + eps)};
        if (Group::member() == 0) write_statistics(norm, statistics, row);
        for (std::int64_t i = first; i < width; i += step) {
            load<N>(from + i, values);
            write_normalized(norm, values, gamma, beta, i, y + row * width);
        }
    }
}

/// dx, and parts[block][2][width]: Σ dy·x̂ and Σ dy over the block's rows. Each group has its own sums in
/// shared memory, [2][N][width/N] so that neighbours lie in different banks; only their owner touches them
/// until the end.
// dx may be dy or the addend: none of them is RESTRICT.
template <class T, int N, class Group>
__global__ void __launch_bounds__(row_threads)
    differentiate_rows(const T* RESTRICT x, const float* RESTRICT gamma, const double* RESTRICT statistics,
                       const T* dy, const T* addend, std::int64_t rows, std::int64_t width, T* dx,
                       float* RESTRICT parts) {
    constexpr int threads = row_threads / Group::per_block;
    const std::int64_t vectors = width / N;
    float* sums = dynamic_shared<float>() + Group::number() * 2 * width;
    for (std::int64_t v = Group::member(); v < vectors; v += threads) {
#pragma unroll
        for (int k = 0; k < 2 * N; ++k) sums[k * vectors + v] = 0;
    }

    for (std::int64_t row = Group::first_row(); row < rows; row += Group::row_step()) {
        const LayerNormRow<float> norm = row_of(statistics, row);
        const T *from = x + row * width, *gradient = dy + row * width;
        float values[N], gradients[N], scales[N], sum = 0, product_sum = 0;
        for (std::int64_t v = Group::member(); v < vectors; v += threads) {
            load<N>(from + v * N, values);
            load<N>(gradient + v * N, gradients);
            load<N>(gamma + v * N, scales);
#pragma unroll
            for (int k = 0; k < N; ++k)
                add_element(norm, values[k], gradients[k], scales[k], sum, product_sum, sums[k * vectors + v],
                            sums[(N + k) * vectors + v]);
        }
        if (!dx) continue;
        const float g_mean = Group::sum(sum) / static_cast<float>(width);
        const float slope = Group::sum(product_sum) / static_cast<float>(width);
        for (std::int64_t v = Group::member(); v < vectors; v += threads) {
            load<N>(from + v * N, values);
            load<N>(gradient + v * N, gradients);
            load<N>(gamma + v * N, scales);
#pragma unroll
            for (int k = 0; k < N; ++k)
                values[k] = norm.backward(values[k], gradients[k] * scales[k], g_mean, slope);
            if (addend) {
                float added[N];
                load<N>(addend + row * width + v * N, added);
#pragma unroll
                for (int k = 0; k < N; ++k) values[k] += added[k];
            }
            store<N>(dx + row * width + v * N, values);
        }
    }

    __syncthreads();
    const float* all = dynamic_shared<float>();
    // What fits into shared memory has few columns; a division of 64-bit numbers would be a call.
    const int columns = static_cast<int>(width), rest = static_cast<int>(vectors);
    for (int column = thread_index(); column < 2 * columns; column += row_threads) {
        const int which = column < columns ? 0 : 1, channel = column - which * columns;
        const int at = (which * N + channel % N) * rest + channel / N;
        float sum = 0;
        for (int group = 0; group < Group::per_block; ++group) sum += all[group * 2 * width + at];
        parts[block_index() * 2 * width + column] = sum;
    }
}

constexpr int held_threads = 128;  ///< of a block of differentiate_held_rows

/// Blocks of it on a multiprocessor of 65536 registers. A lane has two fp32 sums, x̂ and dy·gamma for each of
/// its columns, and the addend as it is in memory; 40 registers are for the rest.
template <class T, int V>
constexpr int held_blocks = 65536 / held_threads / (V * vector_size<T> * 4 + V * 4 + 40);

/// As differentiate_rows; a lane has the same columns of each row, and their sums in registers.
template <class T, int V>
__global__ void __launch_bounds__(held_threads, held_blocks<T, V>)
    differentiate_held_rows(const T* RESTRICT x, const float* RESTRICT gamma,
                            const double* RESTRICT statistics, const T* dy, const T* addend,
                            std::int64_t rows, std::int64_t width, T* dx, float* RESTRICT parts) {
    constexpr int N = vector_size<T>, warps = held_threads / 32;
    const int vectors = static_cast<int>(width) / N, warp = thread_index() / 32;
    float sums[2][V][N] = {};
    for (std::int64_t row = block_index() * warps + warp; row < rows; row += grid_threads() / 32) {
        Vector<T, N> xs[V], dys[V], added[V] = {};
        hold_row(x + row * width, vectors, xs);
        hold_row(dy + row * width, vectors, dys);
        if (addend) hold_row(addend + row * width, vectors, added);
        const LayerNormRow<float> norm = row_of(statistics, row);
        float values[N], gradients[N], scales[N], sum = 0, product_sum = 0;
#pragma unroll
        for (int i = 0; i < V; ++i)
            if (const int v = lane_index() + 32 * i; v < vectors) {
                widen(xs[i], values);
                widen(dys[i], gradients);
                load<N>(gamma + v * N, scales);
#pragma unroll
                for (int k = 0; k < N; ++k)
                    add_element(norm, values[k], gradients[k], scales[k], sum, product_sum, sums[0][i][k],
                                sums[1][i][k]);
            }
        if (!dx) continue;
        const float g_mean = warp_sum(sum) / static_cast<float>(width);
        const float slope = warp_sum(product_sum) / static_cast<float>(width);
#pragma unroll
        for (int i = 0; i < V; ++i)
            if (const int v = lane_index() + 32 * i; v < vectors) {
                widen(xs[i], values);
                widen(dys[i], gradients);
                load<N>(gamma + v * N, scales);
#pragma unroll
                for (int k = 0; k < N; ++k)
                    values[k] = norm.backward(values[k], gradients[k] * scales[k], g_mean, slope);
                if (addend) {
                    widen(added[i], gradients);
#pragma unroll
                    for (int k = 0; k < N; ++k) values[k] += gradients[k];
                }
                store<N>(dx + row * width + v * N, values);
            }
    }

    // The warps add theirs one after the other.
    float* all = dynamic_shared<float>();
    for (int turn = 0; turn < warps; ++turn) {
        if (turn == warp) {
#pragma unroll
            for (int i = 0; i < 2 * V; ++i)
                if (const int v = lane_index() + 32 * (i % V); v < vectors) {
                    float *at = all + i / V * width + v * N, before[N] = {};
                    if (turn > 0) load<N>(at, before);
#pragma unroll
                    for (int k = 0; k < N; ++k) before[k] += sums[i / V][i % V][k];
                    store<N>(at, before);
                }
        }
        __syncthreads();
    }
    for (int column = thread_index(); column < 2 * static_cast<int>(width); column += held_threads)
        parts[block_index() * 2 * width + column] = all[column];
}

struct StoreGradients {
    std::int64_t width;
    float *dgamma, *dbeta;
    __device__ void operator()(std::int64_t column, double sum) const {
        (column < width ? dgamma[column] : dbeta[column - width]) = static_cast<float>(sum);
    }
};

/// Blocks of the backward kernel: enough for any GPU with the shared memory that they take, few enough to
/// add.
Geometry backward_geometry(std::int64_t rows, std::int64_t width) {
    const int groups = width <= longest_row_of_a_warp ? RowGroup<32>::per_block : 1;
    Geometry geometry = row_geometry(rows, groups, 512);
    geometry.dynamic_shared = static_cast<std::size_t>(groups * 2 * width) * sizeof(float);
    return geometry;
}

/// One round of blocks on the 132 multiprocessors of an H100 or H200, of which 128 are a rounder number.
template <class T, int V>
Geometry held_geometry(std::int64_t rows, std::int64_t width) {
    return {{static_cast<unsigned>(
                std::min<std::int64_t>(divided_up(rows, held_threads / 32), 128 * held_blocks<T, V>))},
            {held_threads},
            static_cast<std::size_t>(2 * width) * sizeof(float)};
}

/// Calls held(T*, Lanes<V>) for rows that a warp holds, V vectors per lane, else
/// looped(T*, Lanes<N>, RowGroup<Threads>).
template <class Held, class Looped>
void with_kind(DType dtype, bool all_wide, std::int64_t width, const Held& held, const Looped& looped) {
    with_storage(dtype, [&]<class T>(Storage<T>) {
        T* const type = nullptr;
        if (width > longest_row_of_a_warp)
            return with_lanes<T>(all_wide, [&](auto lanes) { looped(type, lanes, RowGroup<row_threads>{}); });
        if (!all_wide) return looped(type, Lanes<1>{}, RowGroup<32>{});
        // By eights of elements per lane, so that there are four kinds for each type.
        constexpr int vectors = 8 / vector_size<T>;
        static_assert(longest_row_of_a_warp == 4 * 32 * 8);
        if (width <= 256) return held(type, Lanes<vectors>{});
        if (width <= 512) return held(type, Lanes<2 * vectors>{});
        if (width <= 768) return held(type, Lanes<3 * vectors>{});
        held(type, Lanes<4 * vectors>{});
    });
}

}  // namespace

void layer_norm_forward(const TensorView& x, const TensorView& gamma, const TensorView& beta, double eps,
                        const TensorView& y, const TensorView& statistics, Stream stream) {
    const std::int64_t width = gamma.count(), rows = x.count() / width;
    assert(x.count() == rows * width && y.count() == x.count() && statistics.count() == 2 * rows);
    const bool all_wide = whole_vectors(x.dtype, width, x.data, gamma.data, beta.data, y.data);
    const auto start = [&]<class T>(T*, auto* kernel, int rows_of_a_block) {
        launch("layer_norm_forward", kernel, row_geometry(rows, rows_of_a_block), stream,
               elements<const T>(x), gamma.as<float>(), beta.as<float>(), rows, width,
               static_cast<float>(eps), elements<T>(y), statistics.as<double>());
    };
    with_kind(
        x.dtype, all_wide, width,
        [&]<class T, int V>(T* type, Lanes<V>) {
            start(type, normalize_held_rows<T, V>, RowGroup<32>::per_block);
        },
        [&]<class T, int N, class Group>(T* type, Lanes<N>, Group) {
            start(type, normalize_rows<T, N, Group>, Group::per_block);
        });
}

std::int64_t layer_norm_workspace(std::int64_t rows, std::int64_t width) {
    // Of the kernels for that width, whatever the type, the one with the most blocks.
    std::int64_t blocks = backward_geometry(rows, width).grid.x;
    if (width <= longest_row_of_a_warp)
        blocks = std::max<std::int64_t>(blocks, held_geometry<Bf16, 1>(rows, width).grid.x);
    return blocks * 2 * width;
}

void layer_norm_backward(const TensorView& x, const TensorView& gamma, const TensorView& statistics,
                         const TensorView& dy, const TensorView& workspace, const TensorView& dx,
                         const TensorView& dgamma, const TensorView& dbeta, const TensorView& addend,
                         Stream stream) {
    const std::int64_t width = gamma.count(), rows = x.count() / width;
    assert(dy.count() == x.count() && statistics.count() == 2 * rows);
    assert(!addend.defined() || addend.count() == x.count());
    assert(workspace.count() >= layer_norm_workspace(rows, width));
    Geometry geometry = backward_geometry(rows, width);
    // The sums over a block have 128 bytes of their own.
    if (geometry.dynamic_shared > 227 * 1024 - 128)
        throw UsageError(
            "layer_norm: rows of " + std::to_string(width) + " channels are too long for the GPU",
            "at most 29040 are possible, and fewer where a block has less than 227 KiB of shared memory");
    const bool all_wide = whole_vectors(x.dtype, width, x.data, gamma.data, dy.data, dx.data, addend.data);
    const auto start = [&]<class T>(T*, auto* kernel) {
        launch("layer_norm_backward", kernel, geometry, stream, elements<const T>(x), gamma.as<float>(),
               statistics.as<double>(), elements<const T>(dy), elements<const T>(addend), rows, width,
               elements<T>(dx), workspace.as<float>());
    };
    with_kind(
        x.dtype, all_wide, width,
        [&]<class T, int V>(T* type, Lanes<V>) {
            geometry = held_geometry<T, V>(rows, width);
            start(type, differentiate_held_rows<T, V>);
        },
        [&]<class T, int N, class Group>(T* type, Lanes<N>, Group) {
            start(type, differentiate_rows<T, N, Group>);
        });
    launch("layer_norm_backward sum", add_parts<float, StoreGradients>, add_parts_geometry(2 * width), stream,
           workspace.as<float>(), static_cast<std::int64_t>(geometry.grid.x), 2 * width,
           StoreGradients{width, dgamma.as<float>(), dbeta.as<float>()});
}

}  // namespace tutti::cuda
