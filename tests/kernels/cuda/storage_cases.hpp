#pragma once
// The CPU backend as reference for kernels that store f32 or bf16 and compute in fp32: it gets the stored
// values as fp32, and its results are rounded once.

#include "kernel_test.hpp"

namespace tutti::test {

/// The numbers of `tensor` as `dtype`.
inline TestTensor converted(TestTensor& tensor, DType dtype) {
    return {dtype, tensor.view().shape, tensor.values()};
}

/// What `tensor` holds after storage as `dtype`.
inline std::vector<double> stored(TestTensor& tensor, DType dtype) {
    return converted(tensor, dtype).values();
}

/// `view` without its first element: its memory allows no wide accesses.
inline TensorView without_first(const TensorView& view) {
    assert(view.shape.rank() == 1);
    return {view.data + size_of(view.dtype), view.dtype, {view.count() - 1}};
}

inline constexpr DType storage_types[] = {DType::f32, DType::bf16};

}  // namespace tutti::test
