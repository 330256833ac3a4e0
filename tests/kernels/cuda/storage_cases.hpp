#pragma once
// The CPU backend as reference for kernels that store f32 or bf16 and compute in fp32: it gets the stored
// values as fp32, and its results are rounded once.

#include <cmath>

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

/// What a bf16 kernel's own GELU and its derivative are from the CPU's, for numbers up to about 2.
inline constexpr double fast_gelu_tolerance = 2e-5;

/// Results of GELU, `expected` in f32: in f32 the same bits, in bf16 one rounding more.
inline void expect_gelu(const TestTensor& found, TestTensor& expected, DType dtype) {
    if (dtype == DType::f32) return expect_equal(found, expected.values());
    const auto values = found.values(), exact = expected.values();
    ASSERT_EQ(values.size(), exact.size());
    for (std::size_t i = 0; i < exact.size(); ++i)
        ASSERT_NEAR(values[i], exact[i], 0x1p-8 * std::abs(exact[i]) + fast_gelu_tolerance) << i;
}

/// `view` without its first element: its memory allows no wide accesses.
inline TensorView without_first(const TensorView& view) {
    assert(view.shape.rank() == 1);
    return {view.data + size_of(view.dtype), view.dtype, {view.count() - 1}};
}

inline constexpr DType storage_types[] = {DType::f32, DType::bf16};

}  // namespace tutti::test
