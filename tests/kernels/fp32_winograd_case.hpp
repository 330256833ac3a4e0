#pragma once
// What tests of our own Winograd kernels in fp32 have in common.

#include <gtest/gtest.h>
#include <omp.h>

#include "bf16_reference.hpp"
#include "bf16_winograd_shapes.hpp"
#include "host_memory.hpp"
#include "reference.hpp"

namespace tutti::test {

/// Gives OpenMP its threads back.
class Fp32WinogradTest : public testing::Test {
  protected:
    ~Fp32WinogradTest() override { omp_set_num_threads(threads_before_); }

    /// Of sums as long as the tests have, ‖error‖ / ‖sums‖. Measured: up to 25 roundings where products and
    /// sums are fused, which not all builds do.
    static constexpr double tolerance = 48 * 0x1p-24;

  private:
    const int threads_before_ = omp_get_max_threads();
};

struct Fp32WinogradCase {
    Conv2dShape shape;
    std::int64_t batch;
    TestTensor x, weight, bias, dy, y, dx, dweight, dbias;
    Workspace workspace;

    Fp32WinogradCase(const Conv2dShape& of, std::int64_t count)
        : Fp32WinogradCase(of, count, Extents(of, count)) {}
    Gradients expected() const { return reference_backward(shape, batch, x, weight, dy); }
    float* if_biased(TestTensor& one) const { return shape.bias ? one.view().as<float>() : nullptr; }

  private:
    Fp32WinogradCase(const Conv2dShape& of, std::int64_t count, const Extents& extents)
        : shape(of),
          batch(count),
          x(TestTensor::random(DType::f32, extents.x, 1)),
          weight(TestTensor::random(DType::f32, extents.weight, 2)),
          bias(TestTensor::random(DType::f32, extents.bias, 3)),
          dy(TestTensor::random(DType::f32, extents.y, 4)),
          y(DType::f32, extents.y),
          dx(DType::f32, extents.x),
          dweight(DType::f32, extents.weight),
          dbias(DType::f32, extents.bias) {}
};

}  // namespace tutti::test
