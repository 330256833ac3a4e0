#pragma once
// Tests of CUDA kernels through tests/support/kcpu: each runs with the threads in three orders.

#include <gtest/gtest.h>

#include "../backend.hpp"
#include "../test_tensor.hpp"
#include "eigen_ops.hpp"
#include "scheduler.hpp"
#include "stream.hpp"

namespace tutti::test {

class CudaKernelTest : public testing::TestWithParam<kcpu::Order> {
  protected:
    CudaKernelTest() { kcpu::set_order(GetParam()); }

    /// On the CPU a kernel has ended when its launch returns.
    static constexpr cuda::Stream stream_ = nullptr;
    /// What the kernels are compared with.
    EigenOps<float> cpu_;
    EigenOps<double> exact_;
};

inline std::string order_name(const testing::TestParamInfo<kcpu::Order>& info) {
    switch (info.param) {
        case kcpu::Order::forward:
            return "forward";
        case kcpu::Order::reverse:
            return "reverse";
        case kcpu::Order::random:
            return "random";
    }
    return "?";
}

}  // namespace tutti::test

#define TUTTI_KERNEL_TEST(Suite)                                                                       \
    INSTANTIATE_TEST_SUITE_P(, Suite,                                                                  \
                             testing::Values(tutti::kcpu::Order::forward, tutti::kcpu::Order::reverse, \
                                             tutti::kcpu::Order::random),                              \
                             tutti::test::order_name)
