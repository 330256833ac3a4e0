#include "eigen_ops.hpp"

#include <omp.h>

#include <type_traits>

#include "shape_checks.hpp"

namespace tutti {

template <class T>
std::size_t EigenOps<T>::cache_bytes() const {
    // A core's second-level cache: 1 MiB or more on servers' processors since 2017.
    return (std::size_t{1} << 20) * static_cast<std::size_t>(omp_get_max_threads());
}

template <class T>
std::unique_ptr<LinearOp> EigenOps<T>::linear(const LinearShape& shape) {
    return make_eigen_linear<T>(shape);
}

template <class T>
std::unique_ptr<Conv2dOp> EigenOps<T>::conv2d(const Conv2dShape& shape) {
    return make_eigen_conv2d<T>(shape, workspace_);
}

template <class T>
std::unique_ptr<PooledConv2dOp> EigenOps<T>::pooled_conv2d([[maybe_unused]] const Conv2dShape& shape,
                                                           [[maybe_unused]] const Pool2dShape& pool,
                                                           [[maybe_unused]] bool input_gradient) {
    // In double every layer is computed by itself: the reference.
    std::unique_ptr<PooledConv2dOp> op;
    if constexpr (std::is_same_v<T, float>) {
        if (!input_gradient) op = make_pooled_conv2d(shape, pool, workspace_);
        // conv2d is the backend's, as below.
        if (!op) op = make_winner_conv2d(shape, pool, workspace_, sums_, [&] { return conv2d(shape); });
    }
    return op;
}

template <class T>
std::unique_ptr<ConvTranspose2dOp> EigenOps<T>::conv_transpose2d(const ConvTranspose2dShape& shape) {
    // conv2d is the backend's: oneDNN's where this is a part of it.
    return make_conv_transpose2d<T>(shape, conv2d(convolution_of(shape)));
}

template <class T>
std::unique_ptr<BatchNormOp> EigenOps<T>::batch_norm(const BatchNormShape& shape) {
    return make_batch_norm<T>(shape, workspace_);
}

template <class T>
void EigenOps<T>::track_batch_norms(std::span<const BatchNormTracking> layers) {
    for (const BatchNormTracking& layer : layers) track_batch_norm<T>(layer);
}

template <class T>
std::unique_ptr<AveragePool2dOp> EigenOps<T>::average_pool2d(const AveragePool2dShape& shape) {
    return make_average_pool2d<T>(shape);
}

template class EigenOps<float>;
template class EigenOps<double>;

}  // namespace tutti
