// What becomes of a residual behind a linear layer where cuBLASLt does not add it.

#include <gtest/gtest.h>

#include <algorithm>

#include "../test_tensor.hpp"
#include "cuda_ops.hpp"
#include "fake_gpu.hpp"

namespace tutti::test {
namespace {

TEST(ResidualRefusal, makes_a_sum_of_its_own_in_batches_of_that_size_and_is_said_once) {
    fake_gpu::reset();
    const auto context = std::make_shared<cuda::CudaContext>();
    std::vector<std::string> notices;
    context->set_notice([&](const std::string& text) { notices.push_back(text); });
    cuda::CudaOps ops(context, cuda::ProductType::fp32);
    const auto op = ops.linear({8, 16, true});
    auto weight = TestTensor::random(DType::f32, {16, 8}, 1), bias = TestTensor::random(DType::f32, {16}, 2);
    const auto sums = [] {
        return std::ranges::count_if(fake_gpu::record(), [](const std::string& line) {
            return line.find("launch sum") != std::string::npos;
        });
    };
    for (const auto& [batch, refused] : {std::pair{3, true}, std::pair{5, false}, std::pair{3, true}}) {
        SCOPED_TRACE(batch);
        auto x = TestTensor::random(DType::f32, {batch, 8}, 3);
        auto residual = TestTensor::random(DType::f32, {batch, 16}, 4);
        TestTensor y(DType::f32, {batch, 16}), expected = y;
        if (refused && notices.empty())
            fake_gpu::fail_next("cublasLtMatmulAlgoGetHeuristic", CUBLAS_STATUS_NOT_SUPPORTED);
        fake_gpu::clear_record();
        op->residual_forward(x.view(), weight.view(), bias.view(), residual.view(), y.view());
        EXPECT_EQ(sums(), refused ? 1 : 0);
        op->forward(x.view(), weight.view(), bias.view(), expected.view());
        for (std::size_t i = 0; i < y.size(); ++i)
            EXPECT_NEAR(y.get(i), expected.get(i) + residual.get(i), 2e-6) << i;
    }
    ASSERT_EQ(notices.size(), 1u);
    EXPECT_NE(notices[0].find("residuals are added by a kernel of their own: the product 3 x 8 by 8 x 16"),
              std::string::npos)
        << notices[0];
}

}  // namespace
}  // namespace tutti::test
