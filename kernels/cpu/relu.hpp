#pragma once
// max(x, 0) and its gradient (../common/activations.hpp) of whole tensors, in all threads.

#include <cstdint>

namespace tutti {

/// y may be x.
template <class T>
void relu_forward(const T* x, std::int64_t count, T* y);
/// dx may be dy.
template <class T>
void relu_backward(const T* y, const T* dy, std::int64_t count, T* dx);

}  // namespace tutti
