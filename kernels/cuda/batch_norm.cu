#include "batch_norm.hpp"

#include "../common/activations.hpp"
#include "../common/batch_norm_math.hpp"
#include "channel_tiles.hpp"
#include "storage.hpp"
#include "vectors.hpp"

namespace tutti::cuda {
namespace {

/// What a gradient passes on its way back: nothing, or a ReLU that passed what the forward's result says, or
/// what the normalisation, computed again from x, says.
enum class Gate { open, by_output, by_input };

Gate gate_of(const BatchNormRelu& relu) {
    if (relu.y.defined()) return Gate::by_output;
    return relu.bias.defined() ? Gate::by_input : Gate::open;
}

/// g of batch_norm_backward_sums.
__device__ inline float through_relu(float y, float dy) {
    return y <= 0 ? 0.0f : dy;
}

/// The normalisation of one channel: all of it only where it is to be computed. Without `bias` there is none.
template <bool all>
__device__ inline BatchNormForward<float> normalisation_of(const double* RESTRICT normalizer,
                                                           const float* RESTRICT weight,
                                                           const float* RESTRICT bias, std::int64_t channels,
                                                           std::int64_t c) {
    const auto mean = static_cast<float>(normalizer[1 + c]);
    if constexpr (!all) return {mean, 0, 0};
    return {mean, static_cast<float>(normalizer[1 + channels + c] * static_cast<double>(weight[c])),
            bias ? bias[c] : 0};
}

/// What one row of a thread's channels has to read, as it lies in memory.
template <class T, int N>
struct Fetched {
    Vector<T, N> x, other, y;
};

/// What backward reads of a row: y only where it is the gate.
template <Gate gate, int N, class T>
__device__ inline Fetched<T, N> fetch_for_backward(const T* x, const T* dy, const T* y, std::int64_t at) {
    Fetched<T, N> row;
    row.x = fetch<N>(x + at);
    row.other = fetch<N>(dy + at);
    if constexpr (gate == Gate::by_output) row.y = fetch<N>(y + at);
    return row;
}

/// x of N elements, and dy from behind the gate.
template <Gate gate, int N, class T>
__device__ inline void unpack_for_backward(const Fetched<T, N>& row,
                                           const BatchNormForward<float> (&forward)[N], float (&values)[N],
                                           float (&gradients)[N]) {
    float outputs[N] = {};
    widen(row.x, values);
    widen(row.other, gradients);
    if constexpr (gate == Gate::by_output) widen(row.y, outputs);
#pragma unroll
    for (int i = 0; i < N; ++i) {
        if constexpr (gate == Gate::by_input) outputs[i] = forward[i](values[i]);
        if constexpr (gate != Gate::open) gradients[i] = through_relu(outputs[i], gradients[i]);
    }
}

// The launch bounds and for_tile_rows below: blocks that a multiprocessor runs at once, and rows whose loads
// a thread has under way together: 48 to 96 KiB per multiprocessor (an H200 needs about 35, by latency times
// bandwidth), with no register spilled.

template <class T, int N>
__global__ void __launch_bounds__(tile_threads, 4)
    moments_of_shares(const T* RESTRICT x, const float* RESTRICT shift, ChannelTiles tiles,
                      double* RESTRICT parts) {
    const TilePlace place = tile_place<N>(tiles);
    float guess[N] = {}, sums[2][N] = {};
    if (place.channel < tiles.channels) load<N>(shift + place.channel, guess);
    for_tile_rows<4>(
        tiles, place, [x](std::int64_t at) { return fetch<N>(x + at); },
        [&](std::int64_t, const Vector<T, N>& row) {
            float values[N];
            widen(row, values);
#pragma unroll
            for (int i = 0; i < N; ++i) {
                const float distance = values[i] - guess[i];
                sums[0][i] += distance;
                sums[1][i] = fmaf(distance, distance, sums[1][i]);
            }
        });
    write_tile_sums<N>(tiles, sums, parts);
}

struct StoreMoments {
    double rows;
    std::int64_t channels;
    double* moments;
    __device__ void operator()(std::int64_t c, double sum, double squares) const {
        if (c == 0) moments[0] = rows;
        moments[1 + c] = sum;
        moments[1 + channels + c] = squares;
    }
};

/// What moments come to.
struct StoreNormalizer {
    double rows;
    const float* shift;
    std::int64_t channels;
    double eps;
    double *normalizer, *statistics;
    __device__ void operator()(std::int64_t c, double sum, double squares) const {
        if (c == 0) {
            normalizer[0] = statistics[0] = rows;
            statistics[1] = rows < 2 ? 0 : rows;
        }
        const BatchNormStatistics s =
            batch_norm_statistics(rows, sum, squares, static_cast<double>(shift[c]), eps);
        normalizer[1 + c] = s.mean;
        normalizer[1 + channels + c] = s.inverse;
        statistics[2 + c] = s.weighted_mean;
        statistics[2 + channels + c] = s.weighted_variance;
    }
};

__global__ void __launch_bounds__(256)
    normalizer_of_channels(const double* RESTRICT moments, std::int64_t channels, StoreNormalizer store) {
    store.rows = moments[0];
    for (std::int64_t c = grid_thread(); c < channels; c += grid_threads())
        store(c, moments[1 + c], moments[1 + channels + c]);
}

__global__ void __launch_bounds__(256)
    running_normalizer(const float* RESTRICT mean, const float* RESTRICT variance, std::int64_t channels,
                       double eps, double* RESTRICT normalizer) {
    const std::int64_t c = grid_thread();
    if (c == 0) normalizer[0] = 0;
    if (c >= channels) return;
    normalizer[1 + c] = static_cast<double>(mean[c]);
    normalizer[1 + channels + c] = 1 / sqrt(static_cast<double>(variance[c]) + eps);
}

// y may be x or residual: none of the three is RESTRICT.
template <class T, int N, bool Add, bool Relu>
__global__ void __launch_bounds__(tile_threads, 4)
    apply(const T* x, const double* RESTRICT normalizer, const float* RESTRICT weight,
          const float* RESTRICT bias, const T* residual, ChannelTiles tiles, T* y) {
    const TilePlace place = tile_place<N>(tiles);
    BatchNormForward<float> forward[N] = {};
    const auto of_channel = [&](std::int64_t c) {
        return normalisation_of<true>(normalizer, weight, bias, tiles.channels, c);
    };
    tile_coefficients(tiles, place, of_channel, forward);
    for_tile_rows<Add ? 2 : 4>(
        tiles, place,
        [x, residual](std::int64_t at) {
            Fetched<T, N> row;
            row.x = fetch<N>(x + at);
            if constexpr (Add) row.other = fetch<N>(residual + at);
            return row;
        },
        [&](std::int64_t at, const Fetched<T, N>& row) {
            float values[N], added[N] = {};
            widen(row.x, values);
            if constexpr (Add) widen(row.other, added);
#pragma unroll
            for (int i = 0; i < N; ++i) {
                values[i] = forward[i](values[i]);
                if constexpr (Add) values[i] += added[i];
                if constexpr (Relu) values[i] = relu(values[i]);
            }
            store<N>(y + at, values);
        });
}

// g may be dy: neither is RESTRICT.
template <class T, int N, Gate gate>
__global__ void __launch_bounds__(tile_threads, 3)
    backward_sums_of_shares(const T* RESTRICT x, const T* dy, const T* RESTRICT y,
                            const double* RESTRICT normalizer, const float* RESTRICT weight,
                            const float* RESTRICT bias, ChannelTiles tiles, T* g, double* RESTRICT parts) {
    const TilePlace place = tile_place<N>(tiles);
    float sums[2][N] = {};
    BatchNormForward<float> forward[N] = {};
    const auto of_channel = [&](std::int64_t c) {
        return normalisation_of<gate == Gate::by_input>(normalizer, weight, bias, tiles.channels, c);
    };
    tile_coefficients(tiles, place, of_channel, forward);
    for_tile_rows<2>(
        tiles, place, [=](std::int64_t at) { return fetch_for_backward<gate, N>(x, dy, y, at); },
        [&](std::int64_t at, const Fetched<T, N>& row) {
            float values[N], gradients[N];
            unpack_for_backward<gate>(row, forward, values, gradients);
            if constexpr (gate != Gate::by_input)
                if (g) store<N>(g + at, gradients);
#pragma unroll
            for (int i = 0; i < N; ++i) {
                sums[0][i] += gradients[i];
                sums[1][i] = fmaf(gradients[i], values[i] - forward[i].mean, sums[1][i]);
            }
        });
    write_tile_sums<N>(tiles, sums, parts);
}

struct StoreGradientSums {
    const double* normalizer;
    std::int64_t channels;
    double* sums;
    float *dweight, *dbias;
    __device__ void operator()(std::int64_t column, double sum) const {
        if (column < channels) {
            sums[column] = sum;
            dbias[column] = static_cast<float>(sum);
        } else {
            sums[column] = sum * normalizer[1 + column];  // 1/√(variance + eps) of this channel
            dweight[column - channels] = static_cast<float>(sums[column]);
        }
    }
};

struct GradientOfChannel {
    BatchNormForward<float> forward;
    float offset, slope;
};

// dx may be dy: neither is RESTRICT.
template <class T, int N, Gate gate>
__global__ void __launch_bounds__(tile_threads, 3)
    input_gradient(const T* RESTRICT x, const T* dy, const double* RESTRICT normalizer,
                   const float* RESTRICT weight, const float* RESTRICT bias, const double* RESTRICT sums,
                   ChannelTiles tiles, T* dx) {
    static_assert(gate != Gate::by_output);  // whose sums write g
    const TilePlace place = tile_place<N>(tiles);
    GradientOfChannel channel[N] = {};
    const auto of_channel = [&](std::int64_t c) -> GradientOfChannel {
        const double rows = normalizer[0];
        const double inverse = normalizer[1 + tiles.channels + c];
        return {normalisation_of<true>(normalizer, weight, gate == Gate::by_input ? bias : nullptr,
                                       tiles.channels, c),
                rows > 0 ? static_cast<float>(sums[c] / rows) : 0,
                rows > 0 ? static_cast<float>(inverse * sums[tiles.channels + c] / rows) : 0};
    };
    tile_coefficients(tiles, place, of_channel, channel);
    BatchNormForward<float> forward[N];
#pragma unroll
    for (int i = 0; i < N; ++i) forward[i] = channel[i].forward;
    for_tile_rows<2>(
        tiles, place, [=](std::int64_t at) { return fetch_for_backward<gate, N, T>(x, dy, nullptr, at); },
        [&](std::int64_t at, const Fetched<T, N>& row) {
            float values[N], gradients[N];
            unpack_for_backward<gate>(row, forward, values, gradients);
#pragma unroll
            for (int i = 0; i < N; ++i) {
                const BatchNormBackward<float> backward{forward[i].mean, forward[i].scale, channel[i].offset,
                                                        channel[i].slope};
                values[i] = backward(values[i], gradients[i]);
            }
            store<N>(dx + at, values);
        });
}

/// Calls body.operator()<gate>() with the gate of `relu`.
template <class Body>
void with_gate(const BatchNormRelu& relu, const Body& body) {
    switch (gate_of(relu)) {
        case Gate::open:
            return body.template operator()<Gate::open>();
        case Gate::by_output:
            return body.template operator()<Gate::by_output>();
        case Gate::by_input:
            return body.template operator()<Gate::by_input>();
    }
}

const float* floats_of(const TensorView& optional) {
    return optional.defined() ? optional.as<float>() : nullptr;
}

/// Calls body(T*, Lanes<N>) with the storage type of x and vectors where `all_wide`.
template <class Body>
void with_storage_and_lanes(DType dtype, bool all_wide, const Body& body) {
    with_storage(dtype, [&]<class T>(Storage<T>) {
        with_lanes<T>(all_wide, [&]<int N>(Lanes<N> lanes) { body(static_cast<T*>(nullptr), lanes); });
    });
}

/// finish(channel, Σ(x − shift), Σ(x − shift)²) for each channel.
template <class Finish>
void sum_moments(const TensorView& x, const TensorView& shift, const TensorView& workspace,
                 const Finish& finish, Stream stream) {
    const std::int64_t channels = shift.count(), rows = rows_of(x, channels);
    assert(workspace.count() >= batch_norm_workspace(x, channels));
    double* parts = workspace.as<double>();
    const bool all_wide = whole_vectors(x.dtype, channels, x.data, shift.data);
    with_storage_and_lanes(x.dtype, all_wide, [&]<class T, int N>(T*, Lanes<N>) {
        const ChannelTiles tiles = tiles_for_sums(rows, channels, N);
        launch("batch_norm_moments", moments_of_shares<T, N>, tiles.geometry(), stream, elements<const T>(x),
               shift.as<float>(), tiles, parts);
        launch("batch_norm_moments sum", add_pairs<Finish>, add_pairs_geometry(channels), stream, parts,
               rows > 0 ? tiles.shares : 0, channels, finish);
    });
}

}  // namespace

std::int64_t batch_norm_workspace(const TensorView& x, std::int64_t channels) {
    const std::int64_t rows = rows_of(x, channels);
    const int width = static_cast<int>(16 / size_of(x.dtype));
    return std::max(tile_workspace(tiles_for_sums(rows, channels, width), 2),
                    tile_workspace(tiles_for_sums(rows, channels, 1), 2));
}

void batch_norm_moments(const TensorView& x, const TensorView& shift, const TensorView& workspace,
                        const TensorView& moments, Stream stream) {
    const std::int64_t channels = shift.count(), rows = rows_of(x, channels);
    assert(moments.count() == 1 + 2 * channels);
    sum_moments(x, shift, workspace, StoreMoments{static_cast<double>(rows), channels, moments.as<double>()},
                stream);
}

void batch_norm_normalizer(const BatchNormShape& shape, const TensorView& moments, const TensorView& shift,
                           const TensorView& normalizer, const TensorView& statistics, Stream stream) {
    const StoreNormalizer store{0,         shift.as<float>(),       shape.channels,
                                shape.eps, normalizer.as<double>(), statistics.as<double>()};
    launch("batch_norm_normalizer", normalizer_of_channels, elementwise(shape.channels), stream,
           moments.as<double>(), shape.channels, store);
}

void batch_norm_normalizer_of_batch(const BatchNormShape& shape, const TensorView& x, const TensorView& shift,
                                    const TensorView& workspace, const TensorView& normalizer,
                                    const TensorView& statistics, Stream stream) {
    const auto rows = static_cast<double>(rows_of(x, shape.channels));
    const StoreNormalizer store{rows,      shift.as<float>(),       shape.channels,
                                shape.eps, normalizer.as<double>(), statistics.as<double>()};
    sum_moments(x, shift, workspace, store, stream);
}

void batch_norm_running_normalizer(const BatchNormShape& shape, const TensorView& running_mean,
                                   const TensorView& running_var, const TensorView& normalizer,
                                   Stream stream) {
    const Geometry a_thread_each{{static_cast<unsigned>(divided_up(shape.channels, 256))}, {256}};
    launch("batch_norm_running_normalizer", running_normalizer, a_thread_each, stream,
           running_mean.as<float>(), running_var.as<float>(), shape.channels, shape.eps,
           normalizer.as<double>());
}

void batch_norm_forward(const TensorView& x, const TensorView& normalizer, const TensorView& weight,
                        const TensorView& bias, const BatchNormFusion& fusion, const TensorView& y,
                        Stream stream) {
    const std::int64_t channels = weight.count(), rows = rows_of(x, channels);
    assert(y.count() == x.count() && (!fusion.residual.defined() || fusion.residual.count() == x.count()));
    const bool all_wide = whole_vectors(x.dtype, channels, x.data, y.data, fusion.residual.data);
    with_storage_and_lanes(x.dtype, all_wide, [&]<class T, int N>(T*, Lanes<N>) {
        const ChannelTiles tiles = tiles_for_rows(rows, channels, N);
        const bool add = fusion.residual.defined();
        auto* kernel = add ? (fusion.relu ? apply<T, N, true, true> : apply<T, N, true, false>)
                           : (fusion.relu ? apply<T, N, false, true> : apply<T, N, false, false>);
        launch("batch_norm_forward", kernel, tiles.geometry(), stream, elements<const T>(x),
               normalizer.as<double>(), weight.as<float>(), bias.as<float>(),
               elements<const T>(fusion.residual), tiles, elements<T>(y));
    });
}

void batch_norm_backward_sums(const TensorView& x, const TensorView& dy, const BatchNormRelu& relu,
                              const TensorView& normalizer, const TensorView& g, const TensorView& workspace,
                              const TensorView& sums, const TensorView& dweight, const TensorView& dbias,
                              Stream stream) {
    const std::int64_t channels = dweight.count(), rows = rows_of(x, channels);
    assert(dy.count() == x.count() && sums.count() == 2 * channels);
    assert(!g.defined() || (g.count() == x.count() && gate_of(relu) != Gate::by_input));
    assert(workspace.count() >= batch_norm_workspace(x, channels));
    double* parts = workspace.as<double>();
    const bool all_wide = whole_vectors(x.dtype, channels, x.data, dy.data, relu.y.data, g.data);
    with_storage_and_lanes(x.dtype, all_wide, [&]<class T, int N>(T*, Lanes<N>) {
        const ChannelTiles tiles = tiles_for_sums(rows, channels, N);
        with_gate(relu, [&]<Gate gate>() {
            launch("batch_norm_backward_sums", backward_sums_of_shares<T, N, gate>, tiles.geometry(), stream,
                   elements<const T>(x), elements<const T>(dy), elements<const T>(relu.y),
                   normalizer.as<double>(), floats_of(relu.weight), floats_of(relu.bias), tiles,
                   elements<T>(g), parts);
        });
        launch("batch_norm_backward_sums sum", add_parts<double, StoreGradientSums>,
               add_parts_geometry(2 * channels), stream, parts, rows > 0 ? tiles.shares : 0, 2 * channels,
               StoreGradientSums{normalizer.as<double>(), channels, sums.as<double>(), dweight.as<float>(),
                                 dbias.as<float>()});
    });
}

void batch_norm_backward(const TensorView& x, const TensorView& dy, const BatchNormRelu& relu,
                         const TensorView& normalizer, const TensorView& weight, const TensorView& sums,
                         const TensorView& dx, Stream stream) {
    const std::int64_t channels = weight.count(), rows = rows_of(x, channels);
    assert(dy.count() == x.count() && dx.count() == x.count() && !relu.y.defined());
    const bool all_wide = whole_vectors(x.dtype, channels, x.data, dy.data, dx.data);
    with_storage_and_lanes(x.dtype, all_wide, [&]<class T, int N>(T*, Lanes<N>) {
        const ChannelTiles tiles = tiles_for_rows(rows, channels, N);
        auto* kernel =
            relu.bias.defined() ? input_gradient<T, N, Gate::by_input> : input_gradient<T, N, Gate::open>;
        launch("batch_norm_backward", kernel, tiles.geometry(), stream, elements<const T>(x),
               elements<const T>(dy), normalizer.as<double>(), weight.as<float>(), floats_of(relu.bias),
               sums.as<double>(), tiles, elements<T>(dx));
    });
}

}  // namespace tutti::cuda
