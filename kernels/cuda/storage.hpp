#pragma once
// From the type that a view says it holds to a template's parameter.

#include <string>

#include "../common/bf16.hpp"
#include "tutti/base/error.hpp"
#include "tutti/device/tensor_view.hpp"

namespace tutti::cuda {

template <class T>
struct Storage {
    using Type = T;
};

/// The elements as T: float, or Bf16 (which has no DType of its own in the contracts' headers).
template <class T>
T* elements(const TensorView& view) {
    return reinterpret_cast<T*>(view.data);
}

/// Calls body(Storage<float>) or body(Storage<Bf16>).
template <class Body>
void with_storage(DType dtype, const Body& body) {
    if (dtype == DType::f32) return body(Storage<float>{});
    if (dtype == DType::bf16) return body(Storage<Bf16>{});
    throw UsageError("the CUDA kernels have no " + std::string(name_of(dtype)),
                     "they compute on f32 and bf16; other types are the CPU's");
}

}  // namespace tutti::cuda
