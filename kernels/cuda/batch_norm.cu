#include "batch_norm.hpp"

#include "../common/batch_norm_math.hpp"
#include "channel_tiles.hpp"
#include "storage.hpp"
#include "vectors.hpp"

namespace tutti::cuda {
namespace {

/// Rows whose terms one thread adds in fp32; everything beyond is in double.
constexpr std::int64_t longest_sum = 64;

/// g of batch_norm_backward_sums.
__device__ inline float through_relu(float y, float dy) {
    return y <= 0 ? 0.0f : dy;
}

template <class T, int N>
__global__ void __launch_bounds__(tile_threads)
    moments_of_shares(const T* RESTRICT x, const float* RESTRICT shift, ChannelTiles tiles,
                      double* RESTRICT parts) {
    const TilePlace place = tile_place<N>(tiles);
    float guess[N] = {}, sums[2][N] = {};
    if (place.channel < tiles.channels) load<N>(shift + place.channel, guess);
    for (std::int64_t row = place.row; row < place.end; row += place.step) {
        float values[N];
        load<N>(x + row * tiles.channels + place.channel, values);
#pragma unroll
        for (int i = 0; i < N; ++i) {
            const float distance = values[i] - guess[i];
            sums[0][i] += distance;
            sums[1][i] = fmaf(distance, distance, sums[1][i]);
        }
    }
    write_tile_sums<N>(tiles, sums, parts);
}

struct StoreMoments {
    double rows;
    double* moments;
    __device__ void operator()(std::int64_t column, double sum) const {
        if (column == 0) moments[0] = rows;
        moments[1 + column] = sum;
    }
};

__global__ void __launch_bounds__(256)
    normalizer_of_channels(const double* RESTRICT moments, const float* RESTRICT shift, std::int64_t channels,
                           double eps, double* RESTRICT normalizer, double* RESTRICT statistics) {
    const double rows = moments[0];
    if (grid_thread() == 0) {
        normalizer[0] = statistics[0] = rows;
        statistics[1] = rows < 2 ? 0 : rows;
    }
    for (std::int64_t c = grid_thread(); c < channels; c += grid_threads()) {
        const BatchNormStatistics s = batch_norm_statistics(rows, moments[1 + c], moments[1 + channels + c],
                                                            static_cast<double>(shift[c]), eps);
        normalizer[1 + c] = s.mean;
        normalizer[1 + channels + c] = s.inverse;
        statistics[2 + c] = s.weighted_mean;
        statistics[2 + channels + c] = s.weighted_variance;
    }
}

__global__ void __launch_bounds__(256)
    running_normalizer(const float* RESTRICT mean, const float* RESTRICT variance, std::int64_t channels,
                       double eps, double* RESTRICT normalizer) {
    if (grid_thread() == 0) normalizer[0] = 0;
    for (std::int64_t c = grid_thread(); c < channels; c += grid_threads()) {
        normalizer[1 + c] = static_cast<double>(mean[c]);
        normalizer[1 + channels + c] = 1 / sqrt(static_cast<double>(variance[c]) + eps);
    }
}

/// One block: whether any value is not finite decides for all channels.
__global__ void __launch_bounds__(256)
    track_statistics(const double* RESTRICT statistics, std::int64_t channels, double momentum,
                     float* RESTRICT mean, float* RESTRICT variance, std::int64_t* RESTRICT batches) {
    const double rows = statistics[0], weight = statistics[1];
    bool finite = true;
    for (std::int64_t i = thread_index(); i < 2 * channels; i += block_threads())
        finite = finite && isfinite(statistics[2 + i]);
    // A batch that is not finite would spoil the running statistics for good.
    if (!__syncthreads_and(finite) || rows <= 0) return;
    for (std::int64_t c = thread_index(); c < channels; c += block_threads()) {
        mean[c] = static_cast<float>(follow(static_cast<double>(mean[c]), statistics[2 + c], rows, momentum));
        if (weight > 0)
            variance[c] = static_cast<float>(
                follow(static_cast<double>(variance[c]), statistics[2 + channels + c], weight, momentum));
    }
    if (thread_index() == 0) ++*batches;
}

// y may be x or residual: none of the three is RESTRICT.
template <class T, int N, bool Add, bool Relu>
__global__ void __launch_bounds__(tile_threads)
    apply(const T* x, const double* RESTRICT normalizer, const float* RESTRICT weight,
          const float* RESTRICT bias, const T* residual, ChannelTiles tiles, T* y) {
    const TilePlace place = tile_place<N>(tiles);
    if (place.channel >= tiles.channels) return;
    BatchNormForward<float> forward[N];
#pragma unroll
    for (int i = 0; i < N; ++i) {
        const std::int64_t c = place.channel + i;
        forward[i] = {static_cast<float>(normalizer[1 + c]),
                      static_cast<float>(normalizer[1 + tiles.channels + c] * static_cast<double>(weight[c])),
                      bias[c]};
    }
#pragma unroll 2
    for (std::int64_t row = place.row; row < place.end; row += place.step) {
        const std::int64_t at = row * tiles.channels + place.channel;
        float values[N], added[N] = {};
        load<N>(x + at, values);
        if constexpr (Add) load<N>(residual + at, added);
#pragma unroll
        for (int i = 0; i < N; ++i) {
            values[i] = forward[i](values[i]);
            if constexpr (Add) values[i] += added[i];
            if constexpr (Relu) values[i] = values[i] < 0 ? 0.0f : values[i];
        }
        store<N>(y + at, values);
    }
}

template <class T, int N, bool Relu>
__global__ void __launch_bounds__(tile_threads)
    backward_sums_of_shares(const T* RESTRICT x, const T* RESTRICT dy, const T* RESTRICT y,
                            const double* RESTRICT normalizer, ChannelTiles tiles, double* RESTRICT parts) {
    const TilePlace place = tile_place<N>(tiles);
    float mean[N] = {}, sums[2][N] = {};
    if (place.channel < tiles.channels)
#pragma unroll
        for (int i = 0; i < N; ++i) mean[i] = static_cast<float>(normalizer[1 + place.channel + i]);
    for (std::int64_t row = place.row; row < place.end; row += place.step) {
        const std::int64_t at = row * tiles.channels + place.channel;
        float values[N], gradients[N], outputs[N] = {};
        load<N>(x + at, values);
        load<N>(dy + at, gradients);
        if constexpr (Relu) load<N>(y + at, outputs);
#pragma unroll
        for (int i = 0; i < N; ++i) {
            const float g = Relu ? through_relu(outputs[i], gradients[i]) : gradients[i];
            sums[0][i] += g;
            sums[1][i] = fmaf(g, values[i] - mean[i], sums[1][i]);
        }
    }
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

template <class T, int N, bool Relu>
__global__ void __launch_bounds__(tile_threads)
    input_gradient(const T* RESTRICT x, const T* dy, const T* y, const double* RESTRICT normalizer,
                   const float* RESTRICT weight, const double* RESTRICT sums, ChannelTiles tiles, T* dx,
                   T* dresidual) {
    const TilePlace place = tile_place<N>(tiles);
    if (place.channel >= tiles.channels) return;
    const double rows = normalizer[0] > 1 ? normalizer[0] : 1;
    BatchNormBackward<float> backward[N];
#pragma unroll
    for (int i = 0; i < N; ++i) {
        const std::int64_t c = place.channel + i;
        const double inverse = normalizer[1 + tiles.channels + c];
        backward[i] = {static_cast<float>(normalizer[1 + c]),
                       static_cast<float>(inverse * static_cast<double>(weight[c])),
                       static_cast<float>(sums[c] / rows),
                       static_cast<float>(inverse * sums[tiles.channels + c] / rows)};
    }
    for (std::int64_t row = place.row; row < place.end; row += place.step) {
        const std::int64_t at = row * tiles.channels + place.channel;
        float values[N], gradients[N], outputs[N] = {};
        load<N>(x + at, values);
        load<N>(dy + at, gradients);
        if constexpr (Relu) load<N>(y + at, outputs);
#pragma unroll
        for (int i = 0; i < N; ++i) {
            if constexpr (Relu) gradients[i] = through_relu(outputs[i], gradients[i]);
            values[i] = backward[i](values[i], gradients[i]);
        }
        if (dresidual) store<N>(dresidual + at, gradients);
        store<N>(dx + at, values);
    }
}

bool wide(std::int64_t channels, const TensorView& x) {
    return channels % static_cast<std::int64_t>(16 / size_of(x.dtype)) == 0 && aligned(x.data);
}

std::int64_t rows_of(const TensorView& x, std::int64_t channels) {
    assert(x.count() % channels == 0);
    return x.count() / channels;
}

/// Calls body(T*, Lanes<N>) with the storage type of x and vectors where `all_wide`.
template <class Body>
void with_storage_and_lanes(DType dtype, bool all_wide, const Body& body) {
    with_storage(dtype, [&]<class T>(Storage<T>) {
        with_lanes<T>(all_wide, [&]<int N>(Lanes<N> lanes) { body(static_cast<T*>(nullptr), lanes); });
    });
}

}  // namespace

std::int64_t batch_norm_workspace(const TensorView& x, std::int64_t channels) {
    const std::int64_t rows = rows_of(x, channels);
    const int width = static_cast<int>(16 / size_of(x.dtype));
    return std::max(tile_workspace(channel_tiles(rows, channels, width, longest_sum), 2),
                    tile_workspace(channel_tiles(rows, channels, 1, longest_sum), 2));
}

void batch_norm_moments(const TensorView& x, const TensorView& shift, const TensorView& workspace,
                        const TensorView& moments, Stream stream) {
    const std::int64_t channels = shift.count(), rows = rows_of(x, channels);
    assert(moments.count() == 1 + 2 * channels && workspace.count() >= batch_norm_workspace(x, channels));
    double* parts = workspace.as<double>();
    const bool all_wide = wide(channels, x) && aligned(shift.data);
    with_storage_and_lanes(x.dtype, all_wide, [&]<class T, int N>(T*, Lanes<N>) {
        const ChannelTiles tiles = channel_tiles(rows, channels, N, longest_sum);
        launch("batch_norm_moments", moments_of_shares<T, N>, tiles.geometry(), stream, elements<const T>(x),
               shift.as<float>(), tiles, parts);
        launch("batch_norm_moments sum", add_parts<double, StoreMoments>, add_parts_geometry(2 * channels),
               stream, parts, rows > 0 ? tiles.shares : 0, 2 * channels,
               StoreMoments{static_cast<double>(rows), moments.as<double>()});
    });
}

void batch_norm_normalizer(const BatchNormShape& shape, const TensorView& moments, const TensorView& shift,
                           const TensorView& normalizer, const TensorView& statistics, Stream stream) {
    launch("batch_norm_normalizer", normalizer_of_channels, elementwise(shape.channels), stream,
           moments.as<double>(), shift.as<float>(), shape.channels, shape.eps, normalizer.as<double>(),
           statistics.as<double>());
}

void batch_norm_running_normalizer(const BatchNormShape& shape, const TensorView& running_mean,
                                   const TensorView& running_var, const TensorView& normalizer,
                                   Stream stream) {
    launch("batch_norm_running_normalizer", running_normalizer, elementwise(shape.channels), stream,
           running_mean.as<float>(), running_var.as<float>(), shape.channels, shape.eps,
           normalizer.as<double>());
}

void batch_norm_track(const BatchNormShape& shape, const TensorView& statistics,
                      const TensorView& running_mean, const TensorView& running_var,
                      const TensorView& batches, Stream stream) {
    launch("batch_norm_track", track_statistics, Geometry{{1}, {256}}, stream, statistics.as<double>(),
           shape.channels, shape.momentum, running_mean.as<float>(), running_var.as<float>(),
           batches.as<std::int64_t>());
}

void batch_norm_forward(const TensorView& x, const TensorView& normalizer, const TensorView& weight,
                        const TensorView& bias, const BatchNormFusion& fusion, const TensorView& y,
                        Stream stream) {
    const std::int64_t channels = weight.count(), rows = rows_of(x, channels);
    assert(y.count() == x.count() && (!fusion.residual.defined() || fusion.residual.count() == x.count()));
    const bool all_wide = wide(channels, x) && aligned(y.data, fusion.residual.data);
    with_storage_and_lanes(x.dtype, all_wide, [&]<class T, int N>(T*, Lanes<N>) {
        const ChannelTiles tiles = channel_tiles(rows, channels, N, rows);
        const bool add = fusion.residual.defined();
        auto* kernel = add ? (fusion.relu ? apply<T, N, true, true> : apply<T, N, true, false>)
                           : (fusion.relu ? apply<T, N, false, true> : apply<T, N, false, false>);
        launch("batch_norm_forward", kernel, tiles.geometry(), stream, elements<const T>(x),
               normalizer.as<double>(), weight.as<float>(), bias.as<float>(),
               elements<const T>(fusion.residual), tiles, elements<T>(y));
    });
}

void batch_norm_backward_sums(const TensorView& x, const TensorView& dy, const TensorView& y,
                              const TensorView& normalizer, const TensorView& workspace,
                              const TensorView& sums, const TensorView& dweight, const TensorView& dbias,
                              Stream stream) {
    const std::int64_t channels = dweight.count(), rows = rows_of(x, channels);
    assert(dy.count() == x.count() && sums.count() == 2 * channels);
    assert(workspace.count() >= batch_norm_workspace(x, channels));
    double* parts = workspace.as<double>();
    const bool all_wide = wide(channels, x) && aligned(dy.data, y.data);
    with_storage_and_lanes(x.dtype, all_wide, [&]<class T, int N>(T*, Lanes<N>) {
        const ChannelTiles tiles = channel_tiles(rows, channels, N, longest_sum);
        auto* kernel =
            y.defined() ? backward_sums_of_shares<T, N, true> : backward_sums_of_shares<T, N, false>;
        launch("batch_norm_backward_sums", kernel, tiles.geometry(), stream, elements<const T>(x),
               elements<const T>(dy), elements<const T>(y), normalizer.as<double>(), tiles, parts);
        launch("batch_norm_backward_sums sum", add_parts<double, StoreGradientSums>,
               add_parts_geometry(2 * channels), stream, parts, rows > 0 ? tiles.shares : 0, 2 * channels,
               StoreGradientSums{normalizer.as<double>(), channels, sums.as<double>(), dweight.as<float>(),
                                 dbias.as<float>()});
    });
}

void batch_norm_backward(const TensorView& x, const TensorView& dy, const TensorView& y,
                         const TensorView& normalizer, const TensorView& weight, const TensorView& sums,
                         const TensorView& dx, const TensorView& dresidual, Stream stream) {
    const std::int64_t channels = weight.count(), rows = rows_of(x, channels);
    assert(dy.count() == x.count() && dx.count() == x.count());
    const bool all_wide = wide(channels, x) && aligned(dy.data, y.data, dx.data, dresidual.data);
    with_storage_and_lanes(x.dtype, all_wide, [&]<class T, int N>(T*, Lanes<N>) {
        const ChannelTiles tiles = channel_tiles(rows, channels, N, rows);
        auto* kernel = y.defined() ? input_gradient<T, N, true> : input_gradient<T, N, false>;
        launch("batch_norm_backward", kernel, tiles.geometry(), stream, elements<const T>(x),
               elements<const T>(dy), elements<const T>(y), normalizer.as<double>(), weight.as<float>(),
               sums.as<double>(), tiles, elements<T>(dx), elements<T>(dresidual));
    });
}

}  // namespace tutti::cuda
