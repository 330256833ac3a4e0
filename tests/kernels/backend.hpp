#pragma once
// Every implementation of the ops contract, as the parameter of the tests.

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "test_tensor.hpp"
#include "tutti/device/ops.hpp"

namespace tutti::test {

struct Backend {
    std::string name;
    DType dtype;
    std::unique_ptr<Ops> (*make)();
    int threads;
};

// Each test program brings its own two: on the CPU (cpu_backends.cpp) Eigen in f32 and f64, and oneDNN in f32
// if it is built in, each with one thread and with two; on CUDA (cuda/cuda_backends.cpp) one in f32.
std::vector<Backend> backends();
/// Those in f64: exact enough for finite differences.
std::vector<Backend> reference_backends();

/// With ops_ on that backend, and the process on its number of threads.
class KernelTest : public testing::TestWithParam<Backend> {
  protected:
    KernelTest();
    ~KernelTest() override;

    TestTensor tensor(const Shape& shape) const { return {dtype_, shape}; }
    TestTensor tensor(const Shape& shape, const std::vector<double>& values) const {
        return {dtype_, shape, values};
    }
    TestTensor random(const Shape& shape, unsigned seed) const {
        return TestTensor::random(dtype_, shape, seed);
    }

    const DType dtype_ = GetParam().dtype;
    /// Half the distance from 1 to the next number: the largest relative error of one rounding.
    const double unit_roundoff_ = dtype_ == DType::f32 ? 0x1p-24 : 0x1p-53;
    std::unique_ptr<Ops> ops_;

  private:
    const int threads_before_;
};

std::string backend_name(const testing::TestParamInfo<Backend>& info);

void expect_equal(const TestTensor& tensor, const std::vector<double>& expected);
/// |difference| ≤ tolerance · max(1, |expected|).
void expect_near(const std::vector<double>& values, const std::vector<double>& expected, double tolerance);

}  // namespace tutti::test

#define TUTTI_TEST_ON(Suite, which) \
    INSTANTIATE_TEST_SUITE_P(, Suite, testing::ValuesIn(tutti::test::which()), tutti::test::backend_name)
