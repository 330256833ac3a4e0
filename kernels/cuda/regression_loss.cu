#include "regression_loss.hpp"

#include <cassert>
#include <limits>

#include "../common/regression_math.hpp"
#include "row_groups.hpp"
#include "row_losses.hpp"
#include "storage.hpp"
#include "vectors.hpp"

namespace tutti::cuda {
namespace {

/// rows_done[row] = the row's loss. Without targets (null) they are zeros.
// differences may be outputs: neither is RESTRICT, and each element is read and written by one thread.
template <class T, class Group, RegressionLoss kind>
__global__ void __launch_bounds__(row_threads)
    subtract_rows(const T* outputs, const float* RESTRICT targets, std::int64_t rows, int width,
                  float* differences, double* RESTRICT rows_done) {
    constexpr int threads = row_threads / Group::per_block;
    for (std::int64_t row = Group::first_row(); row < rows; row += Group::row_step()) {
        const std::int64_t first = row * width;
        double sum = 0;
        for (int k = Group::member(); k < width; k += threads) {
            const float d = to_float(outputs[first + k]) - (targets != nullptr ? targets[first + k] : 0.0f);
            differences[first + k] = d;
            sum += regression_loss<kind>(static_cast<double>(d));
        }
        sum = Group::sum(sum);
        if (Group::member() == 0) rows_done[row] = sum / width;
    }
}

// doutputs may be differences: neither is RESTRICT.
template <class T, int N, RegressionLoss kind>
__global__ void __launch_bounds__(256) differentiate(const float* differences, const double* RESTRICT scale,
                                                     std::int64_t width, std::int64_t count, T* doutputs) {
    const RegressionGradient<float, kind> gradient(*scale, width);
    for_elements<N>(count, [&]<int M>(std::int64_t i, Lanes<M>) {
        float d[M];
        load(differences + i, d);
#pragma unroll
        for (int k = 0; k < M; ++k) d[k] = gradient(d[k]);
        store(doutputs + i, d);
    });
}

/// Calls body(Storage<T>, std::integral_constant<RegressionLoss, kind>).
template <class Body>
void with_storage_and_loss(DType dtype, RegressionLoss kind, const Body& body) {
    with_storage(dtype, [&]<class T>(Storage<T> storage) {
        with_regression_loss(kind, [&](const auto loss) { body(storage, loss); });
    });
}

}  // namespace

void regression_loss_forward(const TensorView& outputs, const TensorView& targets,
                             const TensorView& workspace, RegressionLoss kind, const TensorView& differences,
                             const TensorView& sums, Stream stream) {
    const std::int64_t rows = outputs.shape[0], width = outputs.shape[1];
    assert(!targets.defined() || targets.count() == rows * width);
    assert(differences.count() == rows * width && sums.count() == 3);
    assert(workspace.count() >= rows && width <= std::numeric_limits<int>::max());
    with_storage_and_loss(
        outputs.dtype, kind,
        [&]<class T, RegressionLoss loss>(Storage<T>, std::integral_constant<RegressionLoss, loss>) {
            with_small_row_group(width, [&]<class Group>(Group) {
                launch("regression_loss_forward", subtract_rows<T, Group, loss>,
                       row_geometry(rows, Group::per_block), stream, elements<const T>(outputs),
                       targets.defined() ? targets.as<float>() : nullptr, rows, static_cast<int>(width),
                       differences.as<float>(), workspace.as<double>());
            });
        });
    add_row_losses<false>("regression_loss_forward sum", workspace.as<double>(), rows, sums.as<double>(),
                          stream);
}

void regression_loss_backward(const TensorView& differences, const TensorView& scale, RegressionLoss kind,
                              const TensorView& doutputs, Stream stream) {
    const std::int64_t width = differences.shape[1], count = differences.count();
    assert(doutputs.count() == count && scale.count() == 1);
    with_storage_and_loss(
        doutputs.dtype, kind,
        [&]<class T, RegressionLoss loss>(Storage<T>, std::integral_constant<RegressionLoss, loss>) {
            with_lanes<T>(aligned(differences.data, doutputs.data), [&]<int N>(Lanes<N>) {
                launch("regression_loss_backward", differentiate<T, N, loss>,
                       elementwise(divided_up(count, N)), stream, differences.as<float>(), scale.as<double>(),
                       width, count, elements<T>(doutputs));
            });
        });
}

}  // namespace tutti::cuda
