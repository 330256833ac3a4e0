#pragma once
// What tests of our own Winograd kernels in fp32 have in common.

#include <gtest/gtest.h>
#include <omp.h>

#include "bf16_reference.hpp"
#include "bf16_winograd_shapes.hpp"
#include "op_case.hpp"

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

}  // namespace tutti::test
