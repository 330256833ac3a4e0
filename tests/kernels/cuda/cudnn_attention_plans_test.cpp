// The real cuDNN compiles its fused attention for the shapes of the models, for a GPU that is only described
// (described_gpu.hpp). It does so only beside a driver: fake_driver.cpp, which the environment puts in the
// place of a real one. Whether the plans compute what they should, a GPU must show.

#include <gtest/gtest.h>

#include "cudnn_attention.hpp"
#include "described_gpu.hpp"

namespace tutti::test {
namespace {

using cuda::AttentionPass, cuda::AttentionPlan, cuda::AttentionProblem;

constexpr AttentionPass passes[] = {AttentionPass::forward, AttentionPass::backward};

void expect_plans(const AttentionShape& shape, std::int64_t batch) {
    const cuda::CudnnDescriptor properties = properties_of(properties_text());
    for (const AttentionPass pass : passes) {
        const AttentionProblem problem{pass, batch, shape};
        try {
            const AttentionPlan plan(problem, {.properties = &properties});
            EXPECT_GE(plan.engine(), 0);
            EXPECT_LE(plan.workspace_bytes(), std::int64_t{512} << 20) << describe(problem);
        } catch (const Error& error) {
            ADD_FAILURE() << error.what();
        }
    }
}

// None of these numbers of tokens is a multiple of 64.
TEST(CudnnAttentionPlans, exist_for_the_small_vit) {
    expect_plans({.tokens = 50, .heads = 4, .width = 32}, 64);
}
TEST(CudnnAttentionPlans, exist_for_vit_b_16) {
    expect_plans({.tokens = 197, .heads = 12, .width = 64}, 256);
}
TEST(CudnnAttentionPlans, exist_for_the_decoder_of_videomae) {
    expect_plans({.tokens = 1568, .heads = 6, .width = 64}, 16);
}
TEST(CudnnAttentionPlans, exist_for_heads_of_128) {
    expect_plans({.tokens = 65, .heads = 3, .width = 128}, 4);
}
TEST(CudnnAttentionPlans, exist_for_a_single_sample_of_narrow_heads) {
    expect_plans({.tokens = 5, .heads = 2, .width = 8}, 1);
}

TEST(CudnnAttentionPlans, are_refused_for_widths_that_are_no_multiple_of_8) {
    const cuda::CudnnDescriptor properties = properties_of(properties_text());
    for (const AttentionPass pass : passes) {
        try {
            AttentionPlan({pass, 2, {.tokens = 7, .heads = 3, .width = 5}}, {.properties = &properties});
            ADD_FAILURE() << "there is a plan";
        } catch (const cuda::NoCudnnEngine&) {
        } catch (const cuda::GpuError& error) {
            EXPECT_TRUE(error.unsupported()) << error.what();
        }
    }
}

}  // namespace
}  // namespace tutti::test
