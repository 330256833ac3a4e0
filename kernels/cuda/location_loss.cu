#include "location_loss.hpp"

#include <cassert>
#include <limits>

#include "../common/location_math.hpp"
#include "row_groups.hpp"
#include "row_losses.hpp"
#include "storage.hpp"
#include "vectors.hpp"

namespace tutti::cuda {
namespace {

/// A block to a sample, which is read twice: for the logit that all of its cells give, and for the rest.
/// samples_done: of each sample the loss, then of each whether its presence was told right.
// differences may be outputs: neither is RESTRICT. A cell is written by the thread that has read it, behind
// block_sum's barrier.
template <class T>
// Left to itself the compiler takes 32 registers and spills some.
__global__ void __launch_bounds__(row_threads, 4)
    subtract_locations(const T* outputs, const float* RESTRICT wanted, LocationLoss loss,
                       std::int64_t samples, int height, int width, float* differences,
                       double* RESTRICT samples_done) {
    const LocationBell<float> bell(loss);
    const int cells = height * width;
    for (std::int64_t n = block_index(); n < samples; n += gridDim.x) {
        const WantedLocation location(wanted + 3 * n);
        const T* const in = outputs + 2 * n * cells;
        float* const out = differences + 2 * n * cells;
        double logit = 0;
        for (int cell = thread_index(); cell < cells; cell += row_threads)
            logit += static_cast<double>(to_float(in[2 * cell + 1]));
        logit = block_sum<row_threads>(logit) / cells;
        const auto presence = static_cast<float>(presence_difference(logit, location.present));
        if (thread_index() == 0) {
            samples_done[n] = loss.presence_weight * presence_loss(logit, location.present);
            samples_done[samples + n] = (logit > 0) == location.present ? 1 : 0;
        }
        double squares = 0;
        for (int cell = thread_index(); cell < cells; cell += row_threads) {
            const int row = cell / width;
            const float heat = location.present ? bell(row, location.y) * bell(cell - row * width, location.x)
                                                : static_cast<float>(LocationLoss::absent_heat);
            const float values[2] = {to_float(in[2 * cell]) - heat, presence};
            squares += static_cast<double>(values[0]) * static_cast<double>(values[0]);
            store(out + 2 * cell, values);
        }
        squares = block_sum<row_threads>(squares);
        if (thread_index() == 0) samples_done[n] += loss.heat_map_weight * squares / cells;
    }
}

// doutputs may be differences: neither is RESTRICT.
template <class T>
__global__ void __launch_bounds__(256)
    differentiate_locations(const float* differences, const double* RESTRICT scale, LocationLoss loss,
                            std::int64_t cells_of_sample, std::int64_t cells, T* doutputs) {
    const LocationGradient<float> gradient(loss, *scale, cells_of_sample);
    for_elements<1>(cells, [&](std::int64_t cell, Lanes<1>) {
        float d[2];
        load(differences + 2 * cell, d);
        d[0] *= gradient.heat_map;
        d[1] *= gradient.presence;
        store(doutputs + 2 * cell, d);
    });
}

}  // namespace

void location_loss_forward(const TensorView& outputs, const TensorView& wanted, const TensorView& workspace,
                           const LocationLoss& loss, const TensorView& differences, const TensorView& sums,
                           Stream stream) {
    const std::int64_t samples = outputs.shape[0], height = outputs.shape[1], width = outputs.shape[2];
    assert(outputs.shape[3] == 2 && wanted.count() == 3 * samples && sums.count() == 3);
    assert(differences.count() == outputs.count() && workspace.count() >= 2 * samples);
    assert(height * width <= std::numeric_limits<int>::max() / 2);
    with_storage(outputs.dtype, [&]<class T>(Storage<T>) {
        launch("location_loss_forward", subtract_locations<T>, row_geometry(samples, 1), stream,
               elements<const T>(outputs), wanted.as<float>(), loss, samples, static_cast<int>(height),
               static_cast<int>(width), differences.as<float>(), workspace.as<double>());
    });
    add_row_losses<true>("location_loss_forward sum", workspace.as<double>(), samples, sums.as<double>(),
                         stream);
}

void location_loss_backward(const TensorView& differences, const TensorView& scale, const LocationLoss& loss,
                            const TensorView& doutputs, Stream stream) {
    const std::int64_t cells = differences.shape[1] * differences.shape[2];
    assert(doutputs.count() == differences.count() && scale.count() == 1);
    with_storage(doutputs.dtype, [&]<class T>(Storage<T>) {
        launch("location_loss_backward", differentiate_locations<T>, elementwise(differences.count() / 2),
               stream, differences.as<float>(), scale.as<double>(), loss, cells, differences.count() / 2,
               elements<T>(doutputs));
    });
}

}  // namespace tutti::cuda
