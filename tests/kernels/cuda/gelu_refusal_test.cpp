// What becomes of a GELU between linear layers where cuBLASLt takes it, and where it does not.

#include <gtest/gtest.h>

#include <algorithm>

#include "../test_tensor.hpp"
#include "cuda_ops.hpp"
#include "fake_gpu.hpp"
#include "gpu_error.hpp"

namespace tutti::test {
namespace {

/// Two layers and the GELU between them, forward and backward.
struct TwoLayers {
    explicit TwoLayers(std::int64_t hidden)
        : width(hidden),
          first(ops.gelu_linear({8, hidden, true}, GeluForm::tanh)),
          second(ops.gelu_linear({hidden, 4, true}, GeluForm::tanh)),
          h(DType::f32, {3, hidden}),
          y(h),
          dh(h),
          weight2(TestTensor::random(DType::f32, {4, hidden}, 4)),
          dweight(DType::f32, {4, hidden}),
          dbias(DType::f32, {4}) {
        set_batch(3);
        context->set_notice([this](const std::string& text) { notices.push_back(text); });
    }
    void set_batch(std::int64_t batch) {
        h = y = dh = TestTensor(DType::f32, {batch, width});
        dz = TestTensor::random(DType::f32, {batch, 4}, 5);
    }
    void forward(bool keep = true) {
        auto x = TestTensor::random(DType::f32, {h.view().shape[0], 8}, 1),
             weight = TestTensor::random(DType::f32, {width, 8}, 2),
             bias = TestTensor::random(DType::f32, {width}, 3);
        first->forward_gelu(x.view(), weight.view(), bias.view(), keep ? h.view() : TensorView{}, y.view());
    }
    void backward(bool of_gelu = true) {
        if (!of_gelu)
            return second->backward(y.view(), weight2.view(), dz.view(), dh.view(), dweight.view(),
                                    dbias.view());
        second->backward_gelu(y.view(), h.view(), weight2.view(), dz.view(), dh.view(), dweight.view(),
                              dbias.view());
    }

    std::shared_ptr<cuda::CudaContext> context = std::make_shared<cuda::CudaContext>();
    cuda::CudaOps ops{context, cuda::ProductType::fp32};
    std::vector<std::string> notices;
    std::int64_t width;
    std::unique_ptr<GeluLinearOp> first, second;
    TestTensor h, y, dh;
    // One product is asked for once per alignment of its operands: those of backward stay where they are.
    TestTensor weight2, dweight, dbias, dz{DType::f32, {3, 4}};
};

void expect_near(const TestTensor& found, const TestTensor& expected) {
    for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(found.get(i), expected.get(i), 2e-6) << i;
}

std::int64_t launches(const std::string& kernel) {
    return std::ranges::count_if(fake_gpu::record(), [&](const std::string& line) {
        return line.find("launch " + kernel) != std::string::npos;
    });
}

TEST(GeluRefusal, none_means_that_the_products_do_all) {
    fake_gpu::reset();
    TwoLayers layers(16);
    fake_gpu::clear_record();
    layers.forward();
    layers.backward();
    EXPECT_EQ(launches("gelu"), 0);
    EXPECT_EQ(launches(""), 2);  // the gradient of a bias
    EXPECT_TRUE(layers.notices.empty());
}

TEST(GeluRefusal, of_a_product_makes_kernels_of_it_from_then_on_and_is_said_once) {
    for (const auto& [function, status] :
         {std::pair{"cublasLtMatmulAlgoGetHeuristic", CUBLAS_STATUS_NOT_SUPPORTED},
          std::pair{"cublasLtMatmul", CUBLAS_STATUS_NOT_SUPPORTED}}) {
        SCOPED_TRACE(function);
        fake_gpu::reset();
        TwoLayers expected(16), layers(16);
        expected.forward();
        fake_gpu::clear_record();
        for (int step = 0; step < 2; ++step) {
            if (step == 0) fake_gpu::fail_next(function, status);
            layers.forward();
        }
        EXPECT_EQ(launches("gelu_forward"), 2);
        expect_near(layers.h, expected.h);
        expect_near(layers.y, expected.y);
        ASSERT_EQ(layers.notices.size(), 1u);
        EXPECT_NE(layers.notices[0].find("GELU has a kernel of its own: the product 3 x 8 by 8 x 16"),
                  std::string::npos)
            << layers.notices[0];
    }
}

TEST(GeluRefusal, for_one_size_of_batches_leaves_the_others_in_their_products) {
    const auto refuse_next = [] {
        fake_gpu::fail_next("cublasLtMatmulAlgoGetHeuristic", CUBLAS_STATUS_NOT_SUPPORTED);
    };
    fake_gpu::reset();
    TwoLayers layers(16);
    refuse_next();
    layers.forward();
    layers.backward(false);  // So that its other products are asked for no more.
    refuse_next();
    layers.backward();
    EXPECT_EQ(layers.notices.size(), 2u);
    for (const std::int64_t batch : {5, 3, 5}) {
        SCOPED_TRACE(batch);
        layers.set_batch(batch);
        fake_gpu::clear_record();
        layers.forward();
        layers.backward();
        EXPECT_EQ(launches("gelu_forward"), batch == 3 ? 1 : 0);
        EXPECT_EQ(launches("gelu_backward"), batch == 3 ? 1 : 0);
    }
    EXPECT_EQ(layers.notices.size(), 2u);
}

TEST(GeluRefusal, leaves_a_product_that_keeps_nothing_for_backward) {
    fake_gpu::reset();
    TwoLayers layers(16);
    const TestTensor unwritten = layers.h;
    const auto evaluate = [&] {
        layers.y = unwritten;
        layers.forward(false);
    };
    fake_gpu::fail_next("cublasLtMatmulAlgoGetHeuristic", CUBLAS_STATUS_NOT_SUPPORTED);
    layers.forward();
    const TestTensor expected = layers.y;
    layers.h = unwritten;
    fake_gpu::clear_record();
    evaluate();
    EXPECT_EQ(launches(""), 0);
    EXPECT_EQ(layers.h.bytes(), unwritten.bytes());
    expect_near(layers.y, expected);

    TwoLayers refused(16);
    fake_gpu::fail_next("cublasLtMatmulAlgoGetHeuristic", CUBLAS_STATUS_NOT_SUPPORTED);
    fake_gpu::clear_record();
    refused.forward(false);
    EXPECT_EQ(launches("gelu_forward"), 1);
    expect_near(refused.y, expected);
}

TEST(GeluRefusal, of_rows_that_are_no_multiple_of_8_needs_no_question) {
    fake_gpu::reset();
    TwoLayers layers(10);
    layers.forward();
    layers.backward();
    EXPECT_EQ(launches("gelu_forward"), 1);
    EXPECT_EQ(launches("gelu_backward"), 1);
    ASSERT_EQ(layers.notices.size(), 2u);
    EXPECT_NE(layers.notices[1].find("the derivative of GELU has a kernel of its own"), std::string::npos);
    EXPECT_NE(layers.notices[1].find("multiple of 8"), std::string::npos) << layers.notices[1];
}

TEST(GeluRefusal, that_is_a_failure_of_the_gpu_is_an_error) {
    fake_gpu::reset();
    TwoLayers layers(16);
    fake_gpu::fail_next("cublasLtMatmul", CUBLAS_STATUS_EXECUTION_FAILED);
    EXPECT_THROW(layers.forward(), cuda::GpuError);
    EXPECT_TRUE(layers.notices.empty());
}

}  // namespace
}  // namespace tutti::test
