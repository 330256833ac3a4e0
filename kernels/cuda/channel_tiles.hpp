#pragma once
// Work on x[rows, C] by channels: a block covers a tile of neighbouring channels and a share of the rows; a
// thread has the same N channels in each of its rows, so what belongs to a channel stays in registers.

#include <algorithm>

#include "column_sums.hpp"
#include "launch.hpp"

namespace tutti::cuda {

inline constexpr int tile_threads = 256;

/// The plan; the same numbers in the launch and in the kernel.
struct ChannelTiles {
    std::int64_t rows, channels;
    std::int64_t rows_per_share;
    int lanes;  ///< threads side by side, a power of two up to 32, each with N channels
    unsigned tiles, shares;
    HOST_DEVICE int rows_at_once() const { return tile_threads / lanes; }
    Geometry geometry() const { return {{rows > 0 ? tiles : 0, shares}, {tile_threads}}; }
};

/// `width` channels per thread. Enough shares for about `blocks` blocks, of at most `longest` rows per
/// thread.
inline ChannelTiles channel_tiles(std::int64_t rows, std::int64_t channels, int width, std::int64_t longest,
                                  std::int64_t blocks) {
    constexpr std::int64_t most_shares = 65535;  // a grid's second dimension has 16 bits
    const std::int64_t groups = divided_up(channels, width);
    int lanes = 1;
    while (lanes < 32 && lanes < groups) lanes *= 2;
    const std::int64_t tiles = divided_up(groups, lanes), at_once = tile_threads / lanes;
    std::int64_t per_thread = std::min(divided_up(rows * tiles, at_once * blocks), longest);
    per_thread = std::max({std::int64_t{1}, per_thread, divided_up(rows, at_once * most_shares)});
    const std::int64_t per_share = at_once * per_thread;
    return {rows,
            channels,
            per_share,
            lanes,
            static_cast<unsigned>(tiles),
            static_cast<unsigned>(std::max<std::int64_t>(1, divided_up(rows, per_share)))};
}

/// Of work that leaves nothing to add.
inline ChannelTiles tiles_for_rows(std::int64_t rows, std::int64_t channels, int width) {
    return channel_tiles(rows, channels, width, rows, 1024);
}

/// Of sums, of which each block writes a part: one round of four blocks on a multiprocessor, so that a small
/// image's parts are not as many bytes as the image. (With 1024 blocks those of 4 × 4 × 512 and batch 256, of
/// a ResNet, would write 4.2 MB for its 4.2 of bf16.) A thread adds at most 64 rows in fp32; what is beyond
/// is in double.
inline ChannelTiles tiles_for_sums(std::int64_t rows, std::int64_t channels, int width) {
    return channel_tiles(rows, channels, width, 64, 512);
}

/// Where a thread of the tiles works. A thread beyond the last channel has no rows.
struct TilePlace {
    std::int64_t channel;   ///< the first of N
    std::int64_t row, end;  ///< its rows: row, row + step, … below end
    int step, lane, line;
};

template <int N>
__device__ inline TilePlace tile_place(const ChannelTiles& tiles) {
    const int lane = thread_index() % tiles.lanes, line = thread_index() / tiles.lanes;
    const std::int64_t channel = (block_index() * tiles.lanes + lane) * N;
    const std::int64_t begin = static_cast<std::int64_t>(blockIdx.y) * tiles.rows_per_share;
    const std::int64_t end =
        begin + tiles.rows_per_share < tiles.rows ? begin + tiles.rows_per_share : tiles.rows;
    return {channel, begin + line, channel < tiles.channels ? end : 0, tiles.rows_at_once(), lane, line};
}

/// body(at, fetch(at)) for each row of the thread, `at` being the place of its channels in x. The fetches of
/// `AtOnce` rows, a power of two, come before the first body, so that memory works on all of them: one after
/// the other they would wait for each other, as no compiler may move a load past a store to what may be the
/// same place. A body may write to where its own row's fetch has read.
template <int AtOnce, class Fetch, class Body>
__device__ inline void for_tile_rows(const ChannelTiles& tiles, TilePlace place, const Fetch& fetch,
                                     const Body& body) {
    for (; place.row + (AtOnce - 1) * place.step < place.end; place.row += AtOnce * place.step) {
        const std::int64_t first = place.row * tiles.channels + place.channel,
                           step = place.step * tiles.channels;
        decltype(fetch(first)) fetched[AtOnce];
#pragma unroll
        for (int i = 0; i < AtOnce; ++i) fetched[i] = fetch(first + i * step);
#pragma unroll
        for (int i = 0; i < AtOnce; ++i) body(first + i * step, fetched[i]);
    }
    if constexpr (AtOnce > 1) for_tile_rows<AtOnce / 2>(tiles, place, fetch, body);
}

/// Per channel the floats of an Each, of(channel): computed by one thread of the block, used by all who have
/// the channel. Called by all threads, once.
template <int N, class Each, class Of>
__device__ inline void tile_coefficients(const ChannelTiles& tiles, const TilePlace& place, const Of& of,
                                         Each (&mine)[N]) {
    constexpr int words = sizeof(Each) / sizeof(float);
    static_assert(32 * N <= tile_threads);
    SHARED(float, shared, [words][32 * N]);
    const int thread = thread_index();
    const std::int64_t channel = block_index() * tiles.lanes * N + thread;
    if (thread < tiles.lanes * N && channel < tiles.channels) {
        const Each each = of(channel);
        float values[words];
        __builtin_memcpy(values, &each, sizeof each);
#pragma unroll
        for (int word = 0; word < words; ++word)
            shared[word][thread % N * tiles.lanes + thread / N] = values[word];
    }
    __syncthreads();
    if (place.channel >= tiles.channels) return;
#pragma unroll
    for (int i = 0; i < N; ++i) {
        float values[words];
#pragma unroll
        for (int word = 0; word < words; ++word) values[word] = shared[word][i * tiles.lanes + place.lane];
        __builtin_memcpy(&mine[i], values, sizeof mine[i]);
    }
}

/// Doubles of workspace for `sums` sums per channel.
inline std::int64_t tile_workspace(const ChannelTiles& tiles, int sums) {
    return sums * tiles.channels * tiles.shares;
}

/// Adds the values of the block's threads for each channel and writes parts[share][S][C]. Called by all
/// threads; values[s][i] is sum s of the thread's channel i.
template <int N, int S>
__device__ inline void write_tile_sums(const ChannelTiles& tiles, const float (&values)[S][N],
                                       double* RESTRICT parts) {
    SHARED(float, tile, [S * N * tile_threads]);
#pragma unroll
    for (int s = 0; s < S; ++s) {
#pragma unroll
        for (int i = 0; i < N; ++i) tile[(s * N + i) * tile_threads + thread_index()] = values[s][i];
    }
    __syncthreads();
    const int columns = S * N * tiles.lanes;
    for (int column = thread_index(); column < columns; column += tile_threads) {
        const int lane = column % tiles.lanes, value = column / tiles.lanes;
        double sum = 0;
        for (int line = 0; line < tiles.rows_at_once(); ++line)
            sum += static_cast<double>(tile[value * tile_threads + line * tiles.lanes + lane]);
        const std::int64_t channel = (block_index() * tiles.lanes + lane) * N + value % N;
        if (channel < tiles.channels)
            parts[(static_cast<std::int64_t>(blockIdx.y) * S + value / N) * tiles.channels + channel] = sum;
    }
}

}  // namespace tutti::cuda
