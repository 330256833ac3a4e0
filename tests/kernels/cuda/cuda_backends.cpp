// The operators of the CUDA device, on the fake GPU or a real one, as an implementation of the ops contract.

#include "../backend.hpp"
#include "cuda_ops.hpp"

namespace tutti::test {
namespace {

std::unique_ptr<Ops> make_cuda() {
    return std::make_unique<cuda::CudaOps>(std::make_shared<cuda::CudaContext>(), cuda::ProductType::fp32);
}

// Finite differences need f64, which is the CPU's: these have nobody to run on here.
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(AttentionReferenceTest);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(AveragePool2dReferenceTest);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(BatchNormReferenceTest);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Conv2dReferenceTest);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(ConvTranspose2dReferenceTest);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(GeluReferenceTest);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(LayerNormReferenceTest);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(LinearReferenceTest);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(LocationLossReferenceTest);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(MaskingReferenceTest);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(MaxPool2dReferenceTest);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(RegressionLossReferenceTest);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(SegmentLossReferenceTest);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(SoftmaxCrossEntropyReferenceTest);

}  // namespace

std::vector<Backend> backends() {
    return {{"cuda_f32", DType::f32, make_cuda, 1}};
}

std::vector<Backend> reference_backends() {
    return {};
}

}  // namespace tutti::test
