#include <algorithm>

#include "../common/location_math.hpp"
#include "eigen_ops.hpp"
#include "parallel.hpp"

namespace tutti {
namespace {

/// Of one sample: Σ (o − t)² and Σ of channel 1, whose place in `differences` is left to be written.
/// columns: workspace [width]. differences may be outputs.
template <class T>
std::pair<double, double> subtract_heat(const T* outputs, const WantedLocation& wanted,
                                        const LocationBell<T>& bell, std::int64_t height, std::int64_t width,
                                        T* columns, T* differences) {
    if (wanted.present)
        for (std::int64_t j = 0; j < width; ++j) columns[j] = bell(j, wanted.x);
    else
        std::fill_n(columns, width, static_cast<T>(LocationLoss::absent_heat));
    double squares = 0, logits = 0;
    for (std::int64_t i = 0; i < height; ++i) {
        const T row = wanted.present ? bell(i, wanted.y) : T{1};
        const T* const in = outputs + 2 * i * width;
        T* const out = differences + 2 * i * width;
        for (std::int64_t j = 0; j < width; ++j) {
            const T difference = in[2 * j] - row * columns[j];
            logits += static_cast<double>(in[2 * j + 1]);
            squares += static_cast<double>(difference) * static_cast<double>(difference);
            out[2 * j] = difference;
        }
    }
    return {squares, logits};
}

}  // namespace

template <class T>
void EigenOps<T>::location_loss_forward(const TensorView& outputs, const TensorView& wanted,
                                        const LocationLoss& loss, const TensorView& differences,
                                        const TensorView& sums) {
    assert(outputs.shape.rank() == 4 && outputs.shape[3] == 2);
    const std::int64_t samples = outputs.shape[0], height = outputs.shape[1], width = outputs.shape[2];
    const std::int64_t cells = height * width;
    assert(wanted.count() == 3 * samples && differences.count() == outputs.count() && sums.count() == 3);
    const T* in = outputs.as<T>();
    const float* target = wanted.as<float>();
    T* out = differences.as<T>();
    // Of each sample its loss, whether presence was told right, and the heat of the columns.
    static_assert(sizeof(double) % sizeof(T) == 0);
    const std::int64_t of_sample = 2 + width;
    auto* memory = workspace_->reserve_elements<double>(static_cast<std::size_t>(samples * of_sample));
    for_ranges(
        samples,
        [=](std::int64_t begin, std::int64_t end) {
            const LocationBell<T> bell(loss);
            for (std::int64_t n = begin; n < end; ++n) {
                const WantedLocation location(target + 3 * n);
                double* const results = memory + n * of_sample;
                T* const d = out + 2 * n * cells;
                const auto [squares, logits] = subtract_heat(in + 2 * n * cells, location, bell, height,
                                                             width, reinterpret_cast<T*>(results + 2), d);
                const double logit = logits / static_cast<double>(cells);
                results[0] = loss.heat_map_weight * squares / static_cast<double>(cells) +
                             loss.presence_weight * presence_loss(logit, location.present);
                results[1] = (logit > 0) == location.present ? 1 : 0;
                const auto presence = static_cast<T>(presence_difference(logit, location.present));
                for (std::int64_t cell = 0; cell < cells; ++cell) d[2 * cell + 1] = presence;
            }
        },
        4 * cells);
    double* total = sums.as<double>();
    total[0] = total[2] = 0;
    total[1] = static_cast<double>(samples);
    for (std::int64_t n = 0; n < samples; ++n) {
        total[0] += memory[n * of_sample];
        total[2] += memory[n * of_sample + 1];
    }
}

template <class T>
void EigenOps<T>::location_loss_backward(const TensorView& differences, const LocationLoss& loss,
                                         double scale, const TensorView& doutputs) {
    assert(differences.shape.rank() == 4 && doutputs.count() == differences.count());
    const std::int64_t cells = differences.shape[1] * differences.shape[2];
    const T* in = differences.as<T>();
    T* out = doutputs.as<T>();
    for_ranges(differences.count() / 2,
               [=, gradient = LocationGradient<T>(loss, scale, cells)](std::int64_t begin, std::int64_t end) {
#pragma omp simd
                   for (std::int64_t i = begin; i < end; ++i) {
                       out[2 * i] = gradient.heat_map * in[2 * i];
                       out[2 * i + 1] = gradient.presence * in[2 * i + 1];
                   }
               });
}

template void EigenOps<float>::location_loss_forward(const TensorView&, const TensorView&,
                                                     const LocationLoss&, const TensorView&,
                                                     const TensorView&);
template void EigenOps<double>::location_loss_forward(const TensorView&, const TensorView&,
                                                      const LocationLoss&, const TensorView&,
                                                      const TensorView&);
template void EigenOps<float>::location_loss_backward(const TensorView&, const LocationLoss&, double,
                                                      const TensorView&);
template void EigenOps<double>::location_loss_backward(const TensorView&, const LocationLoss&, double,
                                                       const TensorView&);

}  // namespace tutti
