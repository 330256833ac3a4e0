#include "eigen_ops.hpp"

namespace tutti {

template <class T>
std::unique_ptr<LinearOp> EigenOps<T>::linear(const LinearShape& shape) {
    return make_eigen_linear<T>(shape);
}

template <class T>
std::unique_ptr<Conv2dOp> EigenOps<T>::conv2d(const Conv2dShape& shape) {
    return make_eigen_conv2d<T>(shape, workspace_);
}

template class EigenOps<float>;
template class EigenOps<double>;

}  // namespace tutti
