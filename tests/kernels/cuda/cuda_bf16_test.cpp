// What a GPU computes another way when products are in bf16, beside its own fp32: on the fake GPU and on a
// real one.

#include "../backend.hpp"
#include "cuda_ops.hpp"

namespace tutti::test {
namespace {

TEST(CudaBf16, attention_is_fused_and_stays_near_fp32) {
    const auto context = std::make_shared<cuda::CudaContext>();
    cuda::CudaOps exact(context, cuda::ProductType::fp32);
    cuda::FusedAttention fused(context);
    // No multiple of 64 tokens; the heads of the models.
    for (const AttentionShape& shape :
         {AttentionShape{50, 2, 32}, AttentionShape{197, 1, 64}, AttentionShape{65, 1, 128}}) {
        SCOPED_TRACE(testing::Message()
                     << shape.tokens << " tokens, " << shape.heads << " heads of " << shape.width);
        const Shape packed{2, shape.tokens, 3, shape.heads, shape.width};
        const Shape plain{2, shape.tokens, shape.heads * shape.width};
        auto qkv = TestTensor::random(DType::f32, packed, 1), dout = TestTensor::random(DType::f32, plain, 2);
        TestTensor out(DType::f32, plain), dqkv(DType::f32, packed), expected_out = out, expected_dqkv = dqkv;
        exact.attention_forward(shape, qkv.view(), expected_out.view(), {});
        exact.attention_backward(shape, qkv.view(), {}, {}, dout.view(), expected_dqkv.view());
        TestTensor statistics(DType::f32, {2, shape.heads, shape.tokens});
        ASSERT_TRUE(fused.forward(shape, qkv.view(), out.view(), statistics.view()));
        ASSERT_TRUE(
            fused.backward(shape, qkv.view(), out.view(), statistics.view(), dout.view(), dqkv.view()));
        // bf16 has steps of 2⁻⁸; sums of roundings of either sign grow with their root.
        expect_near(out.values(), expected_out.values(), 0.02);
        expect_near(dqkv.values(), expected_dqkv.values(), 0.06);
    }
}

}  // namespace
}  // namespace tutti::test
