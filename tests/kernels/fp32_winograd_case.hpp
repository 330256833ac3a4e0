#pragma once
// What tests of our own Winograd kernels in fp32 have in common.

#include <gtest/gtest.h>
#include <omp.h>

#include "bf16_reference.hpp"
#include "bf16_winograd_shapes.hpp"
#include "op_case.hpp"

namespace tutti::test {

/// A square window that moves by 2.
inline Conv2dShape moving_by_2(std::int64_t height, std::int64_t width, std::int64_t in, std::int64_t out,
                               std::int64_t kernel, bool bias = true) {
    Conv2dShape shape = winograd_shape(height, width, in, out, 1, 1, bias);
    shape.kernel_h = shape.kernel_w = kernel;
    shape.stride_h = shape.stride_w = 2;
    return shape;
}

/// Images and outputs of even and odd sizes, pixels that no window has, phases without any; slabs of one
/// phase and of several.
inline std::vector<Conv2dShape> shapes_moving_by_2() {
    return {moving_by_2(8, 8, 32, 48, 4),          moving_by_2(7, 9, 64, 16, 3),
            moving_by_2(12, 10, 96, 80, 4, false), moving_by_2(9, 6, 32, 32, 4),
            moving_by_2(6, 13, 128, 48, 3, false), moving_by_2(2, 2, 32, 64, 4),
            moving_by_2(1, 3, 64, 32, 3),          moving_by_2(18, 20, 32, 16, 4)};
}

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

}  // namespace tutti::test
