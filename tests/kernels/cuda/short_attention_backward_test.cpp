#include "short_attention_case.hpp"

namespace tutti::test {
namespace {

class CudaShortAttentionBackwardTest : public CudaKernelTest {};
TUTTI_KERNEL_TEST(CudaShortAttentionBackwardTest);

TEST_P(CudaShortAttentionBackwardTest, agrees_with_the_definition) {
    for (const AttentionShape& shape : short_shapes) {
        ShortAttention attention(shape, shape.tokens < 60 ? 3 : 1);
        SCOPED_TRACE(attention.name());
        attention.forward();
        attention.backward();
        expect_near_in_bf16(attention.dqkv, attention.exact(exact_).dqkv);
    }
}

TEST_P(CudaShortAttentionBackwardTest, bears_large_scores) {
    for (const std::int64_t place : {-1, 0, 15, 100, 199}) {
        ShortAttention attention = with_large_scores(place);
        attention.forward();
        attention.backward();
        expect_near_in_bf16(attention.dqkv, attention.exact(exact_).dqkv);
    }
}

TEST_P(CudaShortAttentionBackwardTest, what_exists_is_as_alone_and_padding_is_zero) {
    for (const std::int64_t width : {32, 64})
        for (ShortAttention attention : with_padding(width)) {
            SCOPED_TRACE(attention.name());
            const auto exact = attention.exact(exact_);
            attention.forward();
            for (TestTensor* x : {&attention.qkv, &attention.out, &attention.dout})
                spoil_padding(attention, *x);
            attention.backward();
            expect_near_in_bf16(attention.dqkv, exact.dqkv);
            expect_zero_padding(attention, attention.dqkv);
        }
}

TEST_P(CudaShortAttentionBackwardTest, that_all_tokens_exist_changes_no_bit) {
    ShortAttention all({33, 2, 64}, 2), counted = all;
    counted.existing = TestTensor(DType::i64, {2}, {33, 33});
    for (ShortAttention* attention : {&all, &counted}) {
        attention->forward();
        attention->backward();
    }
    EXPECT_TRUE(counted.dqkv.bytes() == all.dqkv.bytes());
}

TEST_P(CudaShortAttentionBackwardTest, what_is_no_number_shows_in_its_sample) {
    for (const bool of_dout : {false, true}) {
        ShortAttention attention({20, 1, 32}, 2);
        (of_dout ? attention.dout : attention.qkv).set(5, nan);
        attention.forward();
        attention.backward();
        EXPECT_TRUE(std::isnan(attention.dqkv.get(0)));
        for (std::size_t i = attention.dqkv.size() / 2; i < attention.dqkv.size(); ++i)
            ASSERT_FALSE(std::isnan(attention.dqkv.get(i)));
    }
}

TEST_P(CudaShortAttentionBackwardTest, takes_what_its_kernels_and_shared_memory_are_for) {
    constexpr std::size_t hopper = 227 * 1024, ampere = 163 * 1024;
    EXPECT_TRUE(cuda::takes_short_attention({197, 12, 64}, hopper));
    EXPECT_TRUE(cuda::takes_short_attention({256, 1, 64}, hopper));
    EXPECT_FALSE(cuda::takes_short_attention({257, 1, 64}, hopper));
    EXPECT_FALSE(cuda::takes_short_attention({197, 12, 64}, ampere));
    EXPECT_TRUE(cuda::takes_short_attention({192, 12, 64}, ampere));
    EXPECT_FALSE(cuda::takes_short_attention({50, 12, 16}, hopper));
    EXPECT_FALSE(cuda::takes_short_attention({50, 12, 80}, hopper));
    ShortAttention none({5, 2, 32}, 0);
    none.backward();
}

}  // namespace
}  // namespace tutti::test
