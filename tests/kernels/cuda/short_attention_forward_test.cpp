#include "short_attention_case.hpp"

namespace tutti::test {
namespace {

class CudaShortAttentionForwardTest : public CudaKernelTest {};
TUTTI_KERNEL_TEST(CudaShortAttentionForwardTest);

TEST_P(CudaShortAttentionForwardTest, agrees_with_the_definition) {
    for (const AttentionShape& shape : short_shapes) {
        ShortAttention attention(shape, shape.tokens < 60 ? 3 : 1);
        SCOPED_TRACE(attention.name());
        attention.forward();
        expect_near_in_bf16(attention.out, attention.exact(exact_).out);
    }
}

TEST_P(CudaShortAttentionForwardTest, statistics_are_the_logarithms_of_sums) {
    ShortAttention attention({37, 2, 32}, 2);
    attention.forward();
    const std::vector<double> qkv = attention.qkv.values();
    const auto row = [&](std::size_t n, std::size_t token, std::size_t part, std::size_t head) {
        return qkv.data() + (((n * 37 + token) * 3 + part) * 2 + head) * 32;
    };
    std::vector<double> expected;
    for (std::size_t n = 0; n < 2; ++n)
        for (std::size_t head = 0; head < 2; ++head)
            for (std::size_t i = 0; i < 37; ++i) {
                double sum = 0;
                for (std::size_t j = 0; j < 37; ++j) {
                    double score = 0;
                    for (std::size_t d = 0; d < 32; ++d)
                        score += row(n, i, 0, head)[d] * row(n, j, 1, head)[d];
                    sum += std::exp(score / std::sqrt(32.0));
                }
                expected.push_back(std::log(sum));
            }
    expect_near(attention.statistics.values(), expected, 1e-5);

    // Nobody needs them for inference.
    TestTensor alone(DType::bf16, attention.out.view().shape);
    cuda::short_attention_forward(attention.shape, attention.qkv.view(), {}, alone.view(), {}, stream_);
    EXPECT_TRUE(alone.bytes() == attention.out.bytes());
}

TEST_P(CudaShortAttentionForwardTest, bears_large_scores) {
    for (const std::int64_t place : {-1, 0, 15, 100, 199}) {
        ShortAttention attention = with_large_scores(place);
        attention.forward();
        expect_near(attention.out.values(), attention.exact(exact_).out, place < 0 ? 1e-3 : 1e-6);
    }
}

TEST_P(CudaShortAttentionForwardTest, what_exists_is_as_alone_and_padding_is_zero) {
    for (const std::int64_t width : {32, 64})
        for (ShortAttention attention : with_padding(width)) {
            SCOPED_TRACE(attention.name());
            const auto exact = attention.exact(exact_);
            spoil_padding(attention, attention.qkv);
            attention.forward();
            expect_near_in_bf16(attention.out, exact.out);
            expect_zero_padding(attention, attention.out);
        }
}

TEST_P(CudaShortAttentionForwardTest, that_all_tokens_exist_changes_no_bit) {
    ShortAttention all({33, 2, 64}, 2), counted = all;
    counted.existing = TestTensor(DType::i64, {2}, {33, 33});
    all.forward();
    counted.forward();
    EXPECT_TRUE(counted.out.bytes() == all.out.bytes());
    EXPECT_TRUE(counted.statistics.bytes() == all.statistics.bytes());
}

TEST_P(CudaShortAttentionForwardTest, what_is_no_number_shows_in_its_sample) {
    ShortAttention attention({20, 1, 32}, 2);
    attention.qkv.set(5, nan);
    attention.forward();
    EXPECT_TRUE(std::isnan(attention.out.get(0)));
    for (std::size_t i = attention.out.size() / 2; i < attention.out.size(); ++i)
        ASSERT_FALSE(std::isnan(attention.out.get(i)));
}

TEST_P(CudaShortAttentionForwardTest, of_no_samples_does_nothing) {
    ShortAttention none({5, 2, 32}, 0);
    none.forward();
}

}  // namespace
}  // namespace tutti::test
