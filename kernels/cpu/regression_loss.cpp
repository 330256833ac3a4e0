#include <algorithm>

#include "../common/regression_math.hpp"
#include "eigen_ops.hpp"
#include "parallel.hpp"

namespace tutti {
namespace {

/// Σ l(d) of one row. `outputs` may be `differences`; without targets (null) they are zeros.
template <RegressionLoss kind, class T>
double subtract_row(const T* outputs, const float* targets, std::int64_t width, T* differences) {
    if (targets)
#pragma omp simd
        for (std::int64_t k = 0; k < width; ++k) differences[k] = outputs[k] - static_cast<T>(targets[k]);
    else if (outputs != differences)
        std::copy_n(outputs, width, differences);
    double sum = 0;
    for (std::int64_t k = 0; k < width; ++k)
        sum += regression_loss<kind>(static_cast<double>(differences[k]));
    return sum;
}

}  // namespace

template <class T>
void EigenOps<T>::regression_loss_forward(const TensorView& outputs, const TensorView& targets,
                                          RegressionLoss kind, const TensorView& differences,
                                          const TensorView& sums) {
    const std::int64_t rows = outputs.shape[0], width = outputs.shape[1];
    assert(!targets.defined() || targets.count() == rows * width);
    assert(differences.count() == rows * width && sums.count() == 3);
    const T* in = outputs.as<T>();
    const float* target = targets.defined() ? targets.as<float>() : nullptr;
    T* out = differences.as<T>();
    auto* losses = workspace_->reserve_elements<double>(static_cast<std::size_t>(rows));
    with_regression_loss(kind, [=]<RegressionLoss loss>(std::integral_constant<RegressionLoss, loss>) {
        for_ranges(
            rows,
            [=](std::int64_t begin, std::int64_t end) {
                for (std::int64_t row = begin; row < end; ++row)
                    losses[row] =
                        subtract_row<loss>(in + row * width, target ? target + row * width : nullptr, width,
                                           out + row * width) /
                        static_cast<double>(width);
            },
            width);
    });
    double* total = sums.as<double>();
    double loss = 0;
    for (std::int64_t row = 0; row < rows; ++row) loss += losses[row];
    total[0] = loss;
    total[1] = static_cast<double>(rows);
    total[2] = 0;
}

template <class T>
void EigenOps<T>::regression_loss_backward(const TensorView& differences, RegressionLoss kind, double scale,
                                           const TensorView& doutputs) {
    const std::int64_t rows = differences.shape[0], width = differences.shape[1];
    assert(doutputs.count() == rows * width);
    const T* in = differences.as<T>();
    T* out = doutputs.as<T>();
    with_regression_loss(kind, [=]<RegressionLoss loss>(std::integral_constant<RegressionLoss, loss>) {
        for_ranges(rows * width, [=, gradient = RegressionGradient<T, loss>(scale, width)](std::int64_t begin,
                                                                                           std::int64_t end) {
#pragma omp simd
            for (std::int64_t i = begin; i < end; ++i) out[i] = gradient(in[i]);
        });
    });
}

template void EigenOps<float>::regression_loss_forward(const TensorView&, const TensorView&, RegressionLoss,
                                                       const TensorView&, const TensorView&);
template void EigenOps<double>::regression_loss_forward(const TensorView&, const TensorView&, RegressionLoss,
                                                        const TensorView&, const TensorView&);
template void EigenOps<float>::regression_loss_backward(const TensorView&, RegressionLoss, double,
                                                        const TensorView&);
template void EigenOps<double>::regression_loss_backward(const TensorView&, RegressionLoss, double,
                                                         const TensorView&);

}  // namespace tutti
