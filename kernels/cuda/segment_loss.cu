#include "segment_loss.hpp"

#include <cassert>
#include <limits>

#include "../common/segment_math.hpp"
#include "map.hpp"
#include "row_groups.hpp"

namespace tutti::cuda {
namespace {

/// How much the two losses of a second count, with how many there are of which seconds in its sample.
struct SecondWeights {
    double of_class, of_offsets;
    __device__ SecondWeights(const SegmentLoss& loss, int existing, int inside)
        : of_class(existing > 0 ? loss.class_weight / existing : 0),
          of_offsets(inside > 0 ? loss.offset_weight / inside : 0) {}
};

/// A block to a sample, which is read twice: for how many of its seconds exist and are inside, and for the
/// rest. samples_done: of each sample the loss, then of each the share of its seconds that was told right.
// gradients may be outputs: neither is RESTRICT. A second is written by the thread that has read it.
// Left to itself the compiler takes 64 registers and spills one.
__global__ void __launch_bounds__(row_threads, 2)
    segment_losses(const float* outputs, const float* RESTRICT wanted, SegmentLoss of, std::int64_t samples,
                   int seconds, float* gradients, double* RESTRICT samples_done) {
    for (std::int64_t n = block_index(); n < samples; n += gridDim.x) {
        const float* const in = outputs + 4 * n * seconds;
        const float* const want = wanted + 2 * n * seconds;
        float* const out = gradients + 4 * n * seconds;
        int existing = 0, inside = 0;
        for (int t = thread_index(); t < seconds; t += row_threads) {
            if (in[4 * t + 3] == 0) continue;
            ++existing;
            if (is_inside(want[2 * t])) ++inside;
        }
        existing = block_sum<row_threads>(existing);
        const SecondWeights weights(of, existing, block_sum<row_threads>(inside));
        double loss = 0;
        int right = 0;
        for (int t = thread_index(); t < seconds; t += row_threads) {
            float said[4];
            load(in + 4 * t, said);
            float gradient[4] = {};
            if (said[3] != 0) {
                const bool inside_here = is_inside(want[2 * t]);
                const auto logit = static_cast<double>(said[0]);
                const FocalLoss focal = focal_loss(logit, inside_here, of.alpha, of.gamma);
                loss += weights.of_class * focal.loss;
                gradient[0] = static_cast<float>(weights.of_class * focal.slope);
                if ((logit > 0) == inside_here) ++right;
                if (inside_here) {
                    const OffsetLoss offsets =
                        offset_loss(static_cast<double>(said[1]), static_cast<double>(said[2]),
                                    static_cast<double>(want[2 * t]), static_cast<double>(want[2 * t + 1]));
                    loss += weights.of_offsets * offsets.loss;
                    gradient[1] = static_cast<float>(weights.of_offsets * offsets.left_slope);
                    gradient[2] = static_cast<float>(weights.of_offsets * offsets.right_slope);
                }
            }
            store(out + 4 * t, gradient);
        }
        loss = block_sum<row_threads>(loss);
        right = block_sum<row_threads>(right);
        if (thread_index() == 0) {
            samples_done[n] = loss;
            samples_done[samples + n] = existing > 0 ? static_cast<double>(right) / existing : 0;
        }
    }
}

/// sums[3] = {Σ of the losses, samples, Σ of the shares}, each by one thread: in the samples' order, which
/// are few as each is long.
__global__ void __launch_bounds__(32)
    add_in_order(const double* RESTRICT samples_done, std::int64_t samples, double* RESTRICT sums) {
    const int which = thread_index();
    if (which > 1) return;
    double sum = 0;
#pragma unroll 8
    for (std::int64_t n = 0; n < samples; ++n) sum += samples_done[which * samples + n];
    sums[2 * which] = sum;
    if (which == 0) sums[1] = static_cast<double>(samples);
}

struct Scaled {
    const double* scale;
    __device__ float operator()(float gradient) const { return static_cast<float>(*scale) * gradient; }
};

}  // namespace

void segment_loss_forward(const TensorView& outputs, const TensorView& wanted, const TensorView& workspace,
                          const SegmentLoss& loss, const TensorView& gradients, const TensorView& sums,
                          Stream stream) {
    const std::int64_t samples = outputs.shape[0], seconds = outputs.shape[1];
    assert(outputs.shape.rank() == 3 && outputs.shape[2] == 4 && gradients.count() == outputs.count());
    assert(wanted.count() == 2 * samples * seconds && sums.count() == 3 && workspace.count() >= 2 * samples);
    assert(aligned(outputs.data, gradients.data) && seconds <= std::numeric_limits<int>::max() / 4);
    launch("segment_loss_forward", segment_losses, row_geometry(samples, 1), stream, outputs.as<float>(),
           wanted.as<float>(), loss, samples, static_cast<int>(seconds), gradients.as<float>(),
           workspace.as<double>());
    launch("segment_loss_forward sum", add_in_order, Geometry{{1}, {32}}, stream, workspace.as<double>(),
           samples, sums.as<double>());
}

void segment_loss_backward(const TensorView& gradients, const TensorView& scale, const TensorView& doutputs,
                           Stream stream) {
    assert(doutputs.count() == gradients.count() && scale.count() == 1);
    map("segment_loss_backward", Scaled{scale.as<double>()}, gradients.as<float>(), doutputs.as<float>(),
        gradients.count(), stream);
}

}  // namespace tutti::cuda
