#include "batch_norm_track.hpp"

#include <algorithm>
#include <iterator>

#include "../common/batch_norm_math.hpp"
#include "launch.hpp"

namespace tutti::cuda {
namespace {

struct TrackedLayer {
    const double* statistics;
    float *mean, *variance;
    std::int64_t* batches;
    std::int64_t channels;
    double momentum;
};
/// As a parameter of the kernel, which has 4 KiB for them (CUDA C++ Programming Guide, "Function
/// Parameters").
struct TrackedLayers {
    TrackedLayer layers[64];
};
static_assert(sizeof(TrackedLayers) <= 4096);

/// A block for each layer: whether any of its values is not finite decides for all its channels. A large one,
/// as each thread waits for memory and divides, channel after channel.
__global__ void __launch_bounds__(1024) track_statistics(const __grid_constant__ TrackedLayers all) {
    const TrackedLayer& layer = all.layers[block_index()];
    const double* RESTRICT statistics = layer.statistics;
    float *RESTRICT mean = layer.mean, *RESTRICT variance = layer.variance;
    const std::int64_t channels = layer.channels;
    const double momentum = layer.momentum;
    const double rows = statistics[0], weight = statistics[1];
    bool finite = true;
    for (std::int64_t i = thread_index(); i < 2 * channels; i += block_threads())
        finite = finite && can_follow<float>(statistics[2 + i], i < channels ? rows : weight);
    // A batch that is not finite would spoil the running statistics for good.
    if (!__syncthreads_and(finite) || rows <= 0) return;
    for (std::int64_t c = thread_index(); c < channels; c += block_threads()) {
        mean[c] = static_cast<float>(follow(static_cast<double>(mean[c]), statistics[2 + c], rows, momentum));
        if (weight > 0)
            variance[c] = static_cast<float>(
                follow(static_cast<double>(variance[c]), statistics[2 + channels + c], weight, momentum));
    }
    if (thread_index() == 0) ++*layer.batches;
}

}  // namespace

void batch_norm_track(std::span<const BatchNormTracking> layers, Stream stream) {
    TrackedLayers some{};
    while (!layers.empty()) {
        const auto now = layers.first(std::min(layers.size(), std::size(some.layers)));
        std::ranges::transform(now, some.layers, [](const BatchNormTracking& one) {
            return TrackedLayer{one.statistics.as<double>(), one.running_mean.as<float>(),
                                one.running_var.as<float>(), one.batches.as<std::int64_t>(),
                                one.running_mean.count(),    one.momentum};
        });
        launch("batch_norm_track", track_statistics, Geometry{{static_cast<unsigned>(now.size())}, {1024}},
               stream, some);
        layers = layers.subspan(now.size());
    }
}

}  // namespace tutti::cuda
