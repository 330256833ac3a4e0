// Attention by cuDNN's fused engines on the fake GPU, and what becomes of it where there are none.

#include "fused_attention.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "../test_tensor.hpp"
#include "cuda_ops.hpp"
#include "fake_gpu.hpp"
#include "gpu_error.hpp"

namespace tutti::test {
namespace {

class FusedAttentionTest : public testing::Test {
  protected:
    FusedAttentionTest() { fake_gpu::reset(); }
};

std::int64_t recorded(const std::string& part) {
    const auto& record = fake_gpu::record();
    return std::count_if(record.begin(), record.end(),
                         [&](const std::string& line) { return line.find(part) != std::string::npos; });
}

/// One batch of attention, forward and backward.
struct AttentionRun {
    AttentionShape shape;
    TestTensor qkv, dout, out, dqkv, statistics;
    AttentionRun(const AttentionShape& s, std::int64_t batch)
        : shape(s),
          qkv(TestTensor::random(DType::f32, {batch, s.tokens, 3, s.heads, s.width}, 1)),
          dout(TestTensor::random(DType::f32, {batch, s.tokens, s.heads * s.width}, 2)),
          out(DType::f32, dout.view().shape),
          dqkv(DType::f32, qkv.view().shape),
          statistics(DType::f32, {batch, s.heads, s.tokens}) {}
    void run(Ops& ops, const TensorView& mask = {}) {
        ops.attention_forward(shape, qkv.view(), out.view(), statistics.view(), mask);
        ops.attention_backward(shape, qkv.view(), out.view(), statistics.view(), dout.view(), dqkv.view(),
                               mask);
    }
};
double largest_distance(const TestTensor& a, const TestTensor& b) {
    double largest = 0;
    for (std::size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(a.get(i) - b.get(i)));
    return largest;
}

TEST_F(FusedAttentionTest, is_one_plan_each_way_and_stays_near_fp32) {
    const auto context = std::make_shared<cuda::CudaContext>();
    cuda::CudaOps ops(context, cuda::ProductType::bf16), exact(context, cuda::ProductType::fp32);
    // Of the widths of our own kernels it is for what is too long for them.
    for (const AttentionShape& shape :
         {AttentionShape{2, 1, 8}, AttentionShape{5, 3, 8}, AttentionShape{50, 2, 24},
          AttentionShape{131, 2, 16}, AttentionShape{257, 1, 32}})
        for (const std::int64_t batch : {1, 3}) {
            SCOPED_TRACE(testing::Message() << shape.tokens << " tokens, " << shape.heads << " heads of "
                                            << shape.width << ", batch " << batch);
            AttentionRun expected(shape, batch), fused(shape, batch);
            expected.run(exact);
            fake_gpu::clear_record();
            fused.run(ops);
            EXPECT_EQ(recorded("attention forward"), 1) << "backward takes its statistics";
            EXPECT_EQ(recorded("attention backward"), 1);
            EXPECT_EQ(recorded("product"), 0);
            // bf16 has steps of 2⁻⁸; sums of roundings of either sign grow with their root.
            EXPECT_LT(largest_distance(fused.out, expected.out), 0.02);
            EXPECT_LT(largest_distance(fused.dqkv, expected.dqkv), 0.06);
            fake_gpu::clear_record();
            fused.run(ops);
            EXPECT_EQ(recorded("host: build"), 0) << "plans are made once per shape";
        }
}

TEST_F(FusedAttentionTest, of_few_tokens_is_one_kernel_of_ours_each_way) {
    const auto context = std::make_shared<cuda::CudaContext>();
    cuda::CudaOps ops(context, cuda::ProductType::bf16), exact(context, cuda::ProductType::fp32);
    int notices = 0;
    context->set_notice([&](const std::string&) { ++notices; });
    for (const AttentionShape& shape :
         {AttentionShape{1, 1, 32}, AttentionShape{50, 4, 32}, AttentionShape{33, 2, 64}})
        for (const bool masked : {false, true}) {
            SCOPED_TRACE(testing::Message() << shape.tokens << " tokens" << (masked ? " with a mask" : ""));
            // The second sample's last token is padding.
            std::vector<double> exists(static_cast<std::size_t>(2 * shape.tokens), 1);
            exists.back() = 0;
            TestTensor mask(DType::f32, {2, shape.tokens}, exists);
            const TensorView given = masked ? mask.view() : TensorView();
            AttentionRun expected(shape, 2), own(shape, 2);
            expected.run(exact, given);
            fake_gpu::clear_record();
            own.run(ops, given);
            EXPECT_EQ(recorded("launch short_attention_forward"), 1);
            EXPECT_EQ(recorded("launch short_attention_backward"), 1);
            EXPECT_EQ(recorded("product") + recorded("attention plan"), 0);
            EXPECT_LT(largest_distance(own.out, expected.out), 0.02);
            EXPECT_LT(largest_distance(own.dqkv, expected.dqkv), 0.06);
            EXPECT_TRUE(ops.keeps_attention_statistics(shape, masked));
            EXPECT_FALSE(exact.keeps_attention_statistics(shape, masked));
        }
    EXPECT_EQ(notices, 0);
}

TEST_F(FusedAttentionTest, is_cudnns_where_a_gpu_has_too_little_shared_memory_for_ours) {
    fake_gpu::set_shared_memory(48 << 10);
    const auto context = std::make_shared<cuda::CudaContext>();
    cuda::CudaOps ops(context, cuda::ProductType::bf16);
    fake_gpu::clear_record();
    AttentionRun attention({128, 1, 64}, 2), small({33, 2, 32}, 2);
    attention.run(ops);
    EXPECT_EQ(recorded("attention forward") + recorded("attention backward"), 2);
    EXPECT_EQ(recorded("short_attention"), 0);
    small.run(ops);
    EXPECT_EQ(recorded("launch short_attention"), 2);
}

TEST_F(FusedAttentionTest, of_widths_without_an_engine_is_products_in_fp32) {
    const auto context = std::make_shared<cuda::CudaContext>();
    cuda::CudaOps ops(context, cuda::ProductType::bf16), exact(context, cuda::ProductType::fp32);
    AttentionRun expected({7, 2, 5}, 2), products({7, 2, 5}, 2);
    expected.run(exact);
    std::vector<std::string> notices;
    context->set_notice([&](const std::string& text) { notices.push_back(text); });
    fake_gpu::clear_record();
    products.run(ops);
    products.run(ops);
    ASSERT_EQ(notices.size(), 1u) << "once for a shape";
    EXPECT_EQ(
        notices[0].substr(0, notices[0].find(" instead: ")),
        "no fused attention of 7 tokens, 2 heads of width 5, batch 2, forward in bf16, it is computed as "
        "products in fp32");
    EXPECT_NE(notices[0].find("cuDNN has no engine"), std::string::npos) << notices[0];
    EXPECT_FALSE(ops.keeps_attention_statistics({7, 2, 5}, false));
    EXPECT_TRUE(ops.keeps_attention_statistics({7, 2, 8}, false));
    EXPECT_FALSE(ops.keeps_attention_statistics({7, 2, 8}, true));
    EXPECT_FALSE(exact.keeps_attention_statistics({7, 2, 8}, false));
    EXPECT_EQ(recorded("attention"), 0);
    EXPECT_GT(recorded("product"), 0);
    EXPECT_EQ(products.out.bytes(), expected.out.bytes());
    EXPECT_EQ(products.dqkv.bytes(), expected.dqkv.bytes());
}

TEST_F(FusedAttentionTest, with_padding_is_products_in_fp32_and_no_notice) {
    const auto context = std::make_shared<cuda::CudaContext>();
    cuda::CudaOps ops(context, cuda::ProductType::bf16), exact(context, cuda::ProductType::fp32);
    int notices = 0;
    context->set_notice([&](const std::string&) { ++notices; });
    AttentionRun expected({5, 3, 8}, 2), masked({5, 3, 8}, 2);
    TestTensor mask(DType::f32, {2, 5}, std::vector<double>(10, 1));
    expected.run(exact);
    fake_gpu::clear_record();
    masked.run(ops, mask.view());
    EXPECT_EQ(recorded("attention"), 0);
    EXPECT_EQ(notices, 0);
    EXPECT_EQ(masked.out.bytes(), expected.out.bytes());
    EXPECT_EQ(masked.dqkv.bytes(), expected.dqkv.bytes());
}

TEST_F(FusedAttentionTest, in_parts_of_the_batch_has_the_bits_of_the_whole) {
    const auto context = std::make_shared<cuda::CudaContext>();
    const AttentionShape shape{5, 3, 8};
    cuda::FusedAttention whole(context), parts(context, 2 * (2 * 3 * 128 * 128));  // two samples at a time
    AttentionRun expected(shape, 5), cut(shape, 5);
    ASSERT_TRUE(
        whole.forward(shape, expected.qkv.view(), expected.out.view(), expected.statistics.view(), {}));
    ASSERT_TRUE(whole.backward(shape, expected.qkv.view(), expected.out.view(), expected.statistics.view(),
                               expected.dout.view(), expected.dqkv.view(), {}));
    fake_gpu::clear_record();
    // 15 statistics a sample: parts begin where cuDNN does not reach.
    ASSERT_TRUE(parts.forward(shape, cut.qkv.view(), cut.out.view(), cut.statistics.view(), {}));
    EXPECT_EQ(recorded("attention forward"), 3);
    ASSERT_TRUE(parts.backward(shape, cut.qkv.view(), cut.out.view(), cut.statistics.view(), cut.dout.view(),
                               cut.dqkv.view(), {}));
    EXPECT_EQ(recorded("attention backward"), 3);
    EXPECT_EQ(cut.statistics.bytes(), expected.statistics.bytes());
    EXPECT_EQ(cut.out.bytes(), expected.out.bytes());
    EXPECT_EQ(cut.dqkv.bytes(), expected.dqkv.bytes());
}

TEST_F(FusedAttentionTest, a_broken_gpu_does_not_look_like_attention_without_an_engine) {
    const auto context = std::make_shared<cuda::CudaContext>();
    cuda::CudaOps ops(context, cuda::ProductType::bf16);
    AttentionRun attention({5, 3, 8}, 2);
    fake_gpu::fail_next("cudaMalloc", 2);
    EXPECT_THROW(attention.run(ops), cuda::GpuError);
    for (const cudnnStatus_t status : {CUDNN_STATUS_BAD_PARAM, CUDNN_STATUS_INTERNAL_ERROR}) {
        fake_gpu::fail_next("cudnnBackendSetAttribute", status);
        EXPECT_THROW(attention.run(ops), cuda::GpuError);
    }
    fake_gpu::clear_record();
    attention.run(ops);
    EXPECT_EQ(recorded("attention forward") + recorded("attention backward"), 2) << "it is asked again";
}

TEST_F(FusedAttentionTest, that_only_backward_refuses_is_products_backward_and_as_before_forward) {
    const auto context = std::make_shared<cuda::CudaContext>();
    cuda::CudaOps ops(context, cuda::ProductType::bf16), exact(context, cuda::ProductType::fp32);
    AttentionRun attention({5, 3, 8}, 2), expected({5, 3, 8}, 2);
    expected.run(exact);
    int notices = 0;
    context->set_notice([&](const std::string&) { ++notices; });
    ops.attention_forward(attention.shape, attention.qkv.view(), attention.out.view(),
                          attention.statistics.view());
    const TestTensor first = attention.out;
    fake_gpu::fail_next("cudnnBackendCreateDescriptor", CUDNN_STATUS_NOT_SUPPORTED);
    fake_gpu::clear_record();
    ops.attention_backward(attention.shape, attention.qkv.view(), attention.out.view(),
                           attention.statistics.view(), attention.dout.view(), attention.dqkv.view());
    EXPECT_EQ(recorded("attention"), 0);
    EXPECT_EQ(attention.dqkv.bytes(), expected.dqkv.bytes());
    attention.run(ops);
    EXPECT_EQ(recorded("attention forward"), 1) << "no step's result depends on the steps before";
    EXPECT_EQ(recorded("attention backward"), 0);
    EXPECT_EQ(notices, 1);
    EXPECT_EQ(attention.out.bytes(), first.bytes());
    EXPECT_EQ(attention.dqkv.bytes(), expected.dqkv.bytes());
}

TEST_F(FusedAttentionTest, is_not_cudnns_where_that_has_a_known_fault) {
    struct Case {
        std::size_t version;
        std::int64_t tokens;
        bool fused;
    };
    for (const Case& one : {Case{91500, 127, false}, Case{91500, 128, true}, Case{91501, 127, true},
                            Case{91301, 5, false}, Case{91300, 128, false}, Case{91900, 1, false}}) {
        SCOPED_TRACE(testing::Message() << one.tokens << " tokens, cuDNN " << one.version);
        fake_gpu::reset();
        fake_gpu::set_cudnn_version(one.version);
        const auto context = std::make_shared<cuda::CudaContext>();
        std::vector<std::string> notices;
        context->set_notice([&](const std::string& text) { notices.push_back(text); });
        cuda::CudaOps ops(context, cuda::ProductType::bf16), exact(context, cuda::ProductType::fp32);
        AttentionRun attention({one.tokens, 1, 8}, 1), expected({one.tokens, 1, 8}, 1);
        expected.run(exact);
        fake_gpu::clear_record();
        attention.run(ops);
        EXPECT_EQ(recorded("attention forward"), one.version >= 91301 ? 1 : 0);
        EXPECT_EQ(recorded("attention backward"), one.fused ? 1 : 0);
        EXPECT_EQ(notices.size(), one.fused ? 0u : 1u);
        EXPECT_LT(largest_distance(attention.dqkv, expected.dqkv), 0.06);
    }
}

TEST_F(FusedAttentionTest, that_is_refused_for_one_batch_size_is_fused_for_the_others) {
    const auto context = std::make_shared<cuda::CudaContext>();
    const AttentionShape shape{5, 3, 8};
    cuda::CudaOps ops(context, cuda::ProductType::bf16), exact(context, cuda::ProductType::fp32);
    AttentionRun refused(shape, 2), expected(shape, 2);
    expected.run(exact);
    fake_gpu::fail_next("cudnnBackendCreateDescriptor", CUDNN_STATUS_NOT_SUPPORTED);
    fake_gpu::clear_record();
    for (int i = 0; i < 2; ++i) refused.run(ops);
    EXPECT_EQ(recorded("attention"), 0) << "backward neither: forward kept nothing for it";
    EXPECT_EQ(refused.out.bytes(), expected.out.bytes());
    EXPECT_EQ(refused.dqkv.bytes(), expected.dqkv.bytes());

    cuda::CudaOps never_refused(context, cuda::ProductType::bf16);
    for (const std::int64_t batch : {1, 3}) {
        AttentionRun here(shape, batch), there(shape, batch);
        fake_gpu::clear_record();
        here.run(ops);
        EXPECT_EQ(recorded("attention forward"), 1);
        EXPECT_EQ(recorded("attention backward"), 1);
        there.run(never_refused);
        EXPECT_EQ(here.out.bytes(), there.out.bytes());
        EXPECT_EQ(here.dqkv.bytes(), there.dqkv.bytes());
    }
}

}  // namespace
}  // namespace tutti::test
