#include "masking.hpp"

#include <limits>

#include "../common/masking_math.hpp"
#include "channel_tiles.hpp"
#include "map.hpp"
#include "pixels.hpp"
#include "row_groups.hpp"

namespace tutti::cuda {
namespace {

constexpr int mask_threads = 256;

/// What a kernel needs of DropoutPlace.
struct MaskAddress {
    std::int64_t seed;
    const std::int64_t *epoch, *positions;
    __device__ RandomStream stream(std::int64_t sample) const {
        return mask_stream(seed, *epoch, positions[sample]);
    }
};

/// How many of the block's threads before this one say `hidden`, and how many of all; called by all of them.
struct HiddenCount {
    int before, all;
};
__device__ inline HiddenCount count_hidden(bool hidden) {
    SHARED(unsigned, words, [mask_threads / 32]);
    const int warp = thread_index() / 32;
    const unsigned mine = __ballot_sync(whole_warp, hidden);
    if (lane_index() == 0) words[warp] = mine;
    __syncthreads();
    HiddenCount count{__popc(mine & ((1u << lane_index()) - 1)), 0};
    for (int w = 0; w < mask_threads / 32; ++w) {
        const int of_warp = __popc(words[w]);
        if (w < warp) count.before += of_warp;
        count.all += of_warp;
    }
    __syncthreads();  // the next call writes where this one reads
    return count;
}

/// A block has a sample, a thread one place at a time, of which it counts how many are hidden before it.
__global__ void __launch_bounds__(mask_threads)
    order_places(MaskAddress address, std::int64_t samples, int places, int hidden, int repeats,
                 std::int64_t* RESTRICT order) {
    SHARED(std::uint64_t, keys, [mask_threads]);
    for (std::int64_t sample = block_index(); sample < samples; sample += gridDim.x) {
        const RandomStream random = address.stream(sample);
        std::int64_t* const out = order + sample * places * repeats;
        int hidden_before_all = 0;
        for (int first = 0; first < places; first += mask_threads) {
            const int place = first + thread_index();
            const std::uint64_t mine = mask_key(random, place);
            int rank = 0;
            for (int tile = 0; tile < places; tile += mask_threads) {
                keys[thread_index()] = mask_key(random, tile + thread_index());
                __syncthreads();
                const int count = places - tile < mask_threads ? places - tile : mask_threads;
                for (int i = 0; i < count; ++i) rank += hidden_before(keys[i], tile + i, mine, place);
                __syncthreads();
            }
            const bool is_hidden = place < places && rank < hidden;
            const HiddenCount count = count_hidden(is_hidden);
            const int before = hidden_before_all + count.before;
            if (place < places) {
                const std::int64_t row = is_hidden ? places - hidden + before : place - before;
                for (int r = 0; r < repeats; ++r)
                    out[row * repeats + r] = static_cast<std::int64_t>(place) * repeats + r;
            }
            hidden_before_all += count.all;
        }
    }
}

/// What a thread has to know of TubeMask and RunningCells to write one token.
struct DecodedRow {
    unsigned items, tokens, visible, all;  ///< all: of `order`
    unsigned places, repeats, columns, dropped, each;
};

__global__ void __launch_bounds__(256)
    decode_kept(MaskAddress address, DecodedRow s, std::int64_t first, const std::int64_t* RESTRICT order,
                std::int64_t* RESTRICT decoded) {
    for_items(s.items, [&](unsigned item) {
        const unsigned sample = item / s.tokens, token = item % s.tokens;
        const std::int64_t* const from = order + static_cast<std::int64_t>(sample) * s.all;
        if (token < s.visible) {
            decoded[item] = from[token];
            return;
        }
        const unsigned kept = token - s.visible;
        const std::int64_t place = from[kept / s.each * s.repeats] / s.repeats;
        const std::int64_t start = cell_start(address.stream(first + sample), s.places);
        decoded[item] = kept_token(place, s.repeats, s.columns, s.dropped, start, kept % s.each);
    });
}

/// Sizes in vectors of N elements; `tokens` are those that are written.
struct Rows {
    unsigned items, tokens, groups;
    /// Of an item.
    struct Place {
        unsigned group, token, sample;
    };
    __device__ Place place(unsigned item) const {
        const unsigned row = item / groups;
        return {item % groups, row % tokens, row / tokens};
    }
};

/// `from` are x's tokens, and those of an order.
template <class In, class Out, int N>
__global__ void __launch_bounds__(256)
    take(Rows s, unsigned from, const In* RESTRICT x, const std::int64_t* RESTRICT order, Out* RESTRICT y) {
    for_items(s.items, [&](unsigned item) {
        const auto [group, token, sample] = s.place(item);
        const std::int64_t row = static_cast<std::int64_t>(sample) * from;
        float value[N];
        load(x + ((row + order[row + token]) * s.groups + group) * N, value);
        store(y + std::int64_t{item} * N, value);
    });
}

template <class T, int N>
__global__ void __launch_bounds__(256)
    fill_rows(Rows s, unsigned visible, unsigned all, const T* RESTRICT x, const T* RESTRICT mask_token,
              const T* RESTRICT positions, const std::int64_t* RESTRICT order, T* RESTRICT y) {
    for_items(s.items, [&](unsigned item) {
        const auto [group, token, sample] = s.place(item);
        const std::int64_t from = static_cast<std::int64_t>(sample) * visible + token;
        const std::int64_t place = order[static_cast<std::int64_t>(sample) * all + token];
        float value[N], position[N];
        if (token < visible)
            load(x + (from * s.groups + group) * N, value);
        else
            load(mask_token + group * N, value);
        load(positions + (place * s.groups + group) * N, position);
#pragma unroll
        for (int k = 0; k < N; ++k) value[k] += position[k];
        store(y + std::int64_t{item} * N, value);
    });
}

/// y[n, k] = x[n, k + shift], of `from` tokens, or zeros where there is none.
template <class T, int N>
__global__ void __launch_bounds__(256)
    shift_rows(Rows s, std::int64_t from, std::int64_t shift, const T* RESTRICT x, T* RESTRICT y) {
    for_items(s.items, [&](unsigned item) {
        const auto [group, token, sample] = s.place(item);
        const std::int64_t place = token + shift;
        float value[N] = {};
        if (place >= 0 && place < from) load(x + ((sample * from + place) * s.groups + group) * N, value);
        store(y + std::int64_t{item} * N, value);
    });
}

/// Rows are the hidden tokens of dy, `hidden` behind the visible ones of each sample.
template <class T, int N>
__global__ void __launch_bounds__(tile_threads)
    sum_hidden(const T* RESTRICT dy, unsigned visible, unsigned hidden, ChannelTiles tiles,
               double* RESTRICT parts) {
    const TilePlace place = tile_place<N>(tiles);
    float sums[1][N] = {};
    for (std::int64_t row = place.row; row < place.end; row += place.step) {
        const unsigned sample = static_cast<unsigned>(row) / hidden;
        const std::int64_t token = row + static_cast<std::int64_t>(sample + 1) * visible;
        float value[N];
        load(dy + token * tiles.channels + place.channel, value);
#pragma unroll
        for (int k = 0; k < N; ++k) sums[0][k] += value[k];
    }
    write_tile_sums<N>(tiles, sums, parts);
}

struct StoreGradient {
    float* gradient;
    __device__ void operator()(std::int64_t channel, double sum) const {
        gradient[channel] = static_cast<float>(sum);
    }
};

struct PatchRows {
    std::int64_t rows, tokens, listed;  ///< hidden tokens of all samples; all tokens of one; of its order
    unsigned hidden;                    ///< tokens of one sample
    int width, channels;
};

/// A warp has a patch, and a lane elements of one channel at a time: with few channels several lanes share
/// each.
// differences may be prediction: neither is RESTRICT, and each element is read and written by one lane.
__global__ void __launch_bounds__(row_threads)
    subtract_patches(PatchRows s, const float* prediction, const float* RESTRICT patches,
                     const std::int64_t* RESTRICT order, const float* RESTRICT epsilon, float* differences) {
    using Group = RowGroup<32>;
    const int lane = Group::member(), count = s.width / s.channels;
    const int sharing = s.channels < 32 ? 32 / s.channels : 1, step = sharing * s.channels;
    const auto sum_of_channel = [&](double value) {
        double sum = 0;
        const int first = sharing > 1 ? lane % s.channels : lane;
        for (int i = 0; i < sharing; ++i) sum += __shfl_sync(whole_warp, value, first + i * s.channels);
        return sum;
    };
    for (std::int64_t row = Group::first_row(); row < s.rows; row += Group::row_step()) {
        const unsigned sample = static_cast<unsigned>(row) / s.hidden;
        // The row's place among the last of its sample's order.
        const std::int64_t place = row + static_cast<std::int64_t>(sample + 1) * (s.listed - s.hidden);
        const float* const patch = patches + (sample * s.tokens + order[place]) * s.width;
        for (int round = 0; round < step; round += 32) {
            const int first = round + lane, end = first < step ? s.width : 0;
            double sum = 0, squares = 0;
#pragma unroll 4
            for (int i = first; i < end; i += step) sum += static_cast<double>(patch[i]);
            const double mean = sum_of_channel(sum) / count;
#pragma unroll 4
            for (int i = first; i < end; i += step) {
                const double d = static_cast<double>(patch[i]) - mean;
                squares += d * d;
            }
            const PatchScale scale = PatchScale::of(mean, sum_of_channel(squares), count,
                                                    static_cast<double>(epsilon[first % s.channels]));
#pragma unroll 4
            for (int i = first; i < end; i += step)
                differences[row * s.width + i] =
                    prediction[row * s.width + i] - static_cast<float>(scale(static_cast<double>(patch[i])));
        }
    }
}

ChannelTiles hidden_tiles(const TensorView& dy, std::int64_t visible, int width) {
    return tiles_for_sums(dy.shape[0] * (dy.shape[1] - visible), dy.shape[2], width);
}

void shift_tokens(const char* name, const TensorView& x, std::int64_t shift, const TensorView& y,
                  Stream stream) {
    const std::int64_t samples = y.shape[0], from = x.shape[1], tokens = y.shape[1], width = y.shape[2];
    assert(x.shape[0] == samples && x.shape[2] == width && x.dtype == y.dtype);
    with_storage(x.dtype, [&]<class T>(Storage<T>) {
        with_lanes<T>(whole_vectors<T>(width, x.data, y.data), [&]<int N>(Lanes<N>) {
            for_samples(samples, tokens * width / N, [&](std::int64_t first, std::int64_t, unsigned items) {
                launch(name, shift_rows<T, N>, elementwise(items), stream,
                       Rows{items, narrow(tokens), narrow(width / N)}, from, shift,
                       elements<const T>(x) + first * from * width, elements<T>(y) + first * tokens * width);
            });
        });
    });
}

template <class In, class Out>
void take_as(const TensorView& x, const TensorView& order, const TensorView& y, Stream stream) {
    const std::int64_t samples = y.shape[0], tokens = y.shape[1], width = y.shape[2], from = x.shape[1];
    with_lanes<Narrower<In, Out>>(
        whole_vectors<Narrower<In, Out>>(width, x.data, y.data), [&]<int N>(Lanes<N>) {
            for_samples(samples, tokens * width / N, [&](std::int64_t first, std::int64_t, unsigned items) {
                launch("take_tokens", take<In, Out, N>, elementwise(items), stream,
                       Rows{items, narrow(tokens), narrow(width / N)}, narrow(from),
                       elements<const In>(x) + first * from * width, order.as<std::int64_t>() + first * from,
                       elements<Out>(y) + first * tokens * width);
            });
        });
}

}  // namespace

void mask_tokens(const DropoutPlace& address, const TubeMask& mask, const TensorView& order, Stream stream) {
    const std::int64_t samples = order.shape[0];
    assert(order.shape[1] == mask.tokens() && address.positions.count() == samples);
    assert(0 <= mask.hidden && mask.hidden < mask.places && address.epoch.count() == 1);
    // A thread's place, and the next, beyond the last one.
    assert(mask.places <= std::numeric_limits<int>::max() - 2 * mask_threads);
    assert(mask.repeats <= std::numeric_limits<int>::max());
    launch("mask_tokens", order_places,
           Geometry{{static_cast<unsigned>(std::min(samples, most_blocks))}, {mask_threads}}, stream,
           MaskAddress{address.seed, address.epoch.as<std::int64_t>(), address.positions.as<std::int64_t>()},
           samples, static_cast<int>(mask.places), static_cast<int>(mask.hidden),
           static_cast<int>(mask.repeats), order.as<std::int64_t>());
}

void running_cells(const DropoutPlace& address, const TubeMask& mask, const RunningCells& cells,
                   const TensorView& order, const TensorView& decoded, Stream stream) {
    const std::int64_t samples = order.shape[0], all = mask.tokens(), visible = mask.visible_tokens();
    const std::int64_t tokens = visible + cells.kept_tokens(mask);
    assert(order.shape[1] == all && address.positions.count() == samples && mask.repeats % 4 == 0);
    assert(decoded.shape[0] == samples && decoded.shape[1] == tokens && address.epoch.count() == 1);
    for_samples(samples, tokens, [&](std::int64_t first, std::int64_t, unsigned items) {
        const DecodedRow row{items,
                             narrow(tokens),
                             narrow(visible),
                             narrow(all),
                             narrow(mask.places),
                             narrow(mask.repeats),
                             narrow(cells.columns),
                             narrow(cells.dropped),
                             narrow(cells.kept_per_place(mask))};
        launch(
            "running_cells", decode_kept, elementwise(items), stream,
            MaskAddress{address.seed, address.epoch.as<std::int64_t>(), address.positions.as<std::int64_t>()},
            row, first, order.as<std::int64_t>() + first * all, decoded.as<std::int64_t>() + first * tokens);
    });
}

void take_tokens(const TensorView& x, const TensorView& order, const TensorView& y, Stream stream) {
    assert(x.shape[0] == y.shape[0] && y.shape[1] <= x.shape[1] && x.shape[2] == y.shape[2]);
    assert(order.count() == x.shape[0] * x.shape[1] && (x.dtype == DType::f32 || x.dtype == y.dtype));
    with_storage(y.dtype, [&]<class T>(Storage<T>) {
        if (x.dtype == DType::f32) return take_as<float, T>(x, order, y, stream);
        take_as<T, T>(x, order, y, stream);
    });
}

void fill_tokens_forward(const TensorView& x, const TensorView& mask_token, const TensorView& positions,
                         const TensorView& order, const TensorView& y, Stream stream) {
    const std::int64_t samples = y.shape[0], tokens = y.shape[1], width = y.shape[2], visible = x.shape[1];
    const std::int64_t all = order.shape[1];
    assert(x.shape[0] == samples && x.shape[2] == width && visible <= tokens && tokens <= all);
    assert(order.shape[0] == samples && (visible == tokens || mask_token.count() == width));
    assert(x.dtype == y.dtype && positions.dtype == y.dtype);
    assert(!mask_token.defined() || mask_token.dtype == y.dtype);
    with_storage(y.dtype, [&]<class T>(Storage<T>) {
        with_lanes<T>(
            whole_vectors<T>(width, x.data, mask_token.data, positions.data, y.data), [&]<int N>(Lanes<N>) {
                for_samples(
                    samples, tokens * width / N, [&](std::int64_t first, std::int64_t, unsigned items) {
                        launch("fill_tokens_forward", fill_rows<T, N>, elementwise(items), stream,
                               Rows{items, narrow(tokens), narrow(width / N)}, narrow(visible), narrow(all),
                               elements<const T>(x) + first * visible * width, elements<const T>(mask_token),
                               elements<const T>(positions), order.as<std::int64_t>() + first * all,
                               elements<T>(y) + first * tokens * width);
                    });
            });
    });
}

std::int64_t fill_tokens_workspace(const TensorView& dy, std::int64_t visible) {
    const int width = static_cast<int>(16 / size_of(dy.dtype));
    return std::max(tile_workspace(hidden_tiles(dy, visible, width), 1),
                    tile_workspace(hidden_tiles(dy, visible, 1), 1));
}

void fill_tokens_backward(const TensorView& dy, const TensorView& workspace, const TensorView& dx,
                          const TensorView& dmask_token, std::int64_t visible, Stream stream) {
    const std::int64_t hidden = dy.shape[1] - visible, width = dy.shape[2];
    assert(hidden >= 0 && dmask_token.defined() == (hidden > 0));
    if (dx.defined()) shift_tokens("fill_tokens_backward", dy, 0, dx, stream);
    if (!dmask_token.defined()) return;
    assert(dmask_token.count() == width && workspace.count() >= fill_tokens_workspace(dy, visible));
    double* parts = workspace.as<double>();
    with_storage(dy.dtype, [&]<class T>(Storage<T>) {
        with_lanes<T>(whole_vectors<T>(width, dy.data), [&]<int N>(Lanes<N>) {
            const ChannelTiles tiles = hidden_tiles(dy, visible, N);
            launch("fill_tokens_backward rows", sum_hidden<T, N>, tiles.geometry(), stream,
                   elements<const T>(dy), narrow(visible), narrow(hidden), tiles, parts);
            launch("fill_tokens_backward sum", add_parts<double, StoreGradient>, add_parts_geometry(width),
                   stream, parts, narrow(tiles.rows) > 0 ? tiles.shares : 0, width,
                   StoreGradient{dmask_token.as<float>()});
        });
    });
}

void last_tokens_forward(const TensorView& x, const TensorView& y, Stream stream) {
    assert(y.shape[1] <= x.shape[1]);
    shift_tokens("last_tokens_forward", x, x.shape[1] - y.shape[1], y, stream);
}
void last_tokens_backward(const TensorView& dy, const TensorView& dx, Stream stream) {
    assert(dy.shape[1] <= dx.shape[1]);
    shift_tokens("last_tokens_backward", dy, dy.shape[1] - dx.shape[1], dx, stream);
}

void patch_differences(const TensorView& prediction, const TensorView& patches, const TensorView& order,
                       const TensorView& epsilon, const TensorView& differences, Stream stream) {
    const std::int64_t samples = prediction.shape[0], hidden = prediction.shape[1];
    const std::int64_t tokens = patches.shape[1], width = patches.shape[2], channels = epsilon.count();
    assert(patches.shape[0] == samples && hidden <= tokens && prediction.shape[2] == width);
    assert(order.shape[0] == samples && hidden <= order.shape[1]);
    assert(differences.count() == prediction.count());
    assert(width % channels == 0 && width <= std::numeric_limits<int>::max());
    const PatchRows rows{samples * hidden,        tokens,
                         order.shape[1],          narrow(hidden),
                         static_cast<int>(width), static_cast<int>(channels)};
    launch("patch_differences", subtract_patches, row_geometry(narrow(rows.rows), RowGroup<32>::per_block),
           stream, rows, prediction.as<float>(), patches.as<float>(), order.as<std::int64_t>(),
           epsilon.as<float>(), differences.as<float>());
}

}  // namespace tutti::cuda
