#include "short_attention.hpp"

#include <algorithm>
#include <cmath>
#include <string>

#include "kernel_test.hpp"

namespace tutti::test {
namespace {

class CudaShortAttentionTest : public CudaKernelTest {};
TUTTI_KERNEL_TEST(CudaShortAttentionTest);

/// The arguments of both passes, and what EigenOps makes of the same numbers in double.
struct Attention {
    AttentionShape shape;
    std::int64_t samples;
    TestTensor qkv, dout, out, dqkv, statistics, existing;

    Attention(const AttentionShape& of, std::int64_t count)
        : shape(of),
          samples(count),
          qkv(TestTensor::random(DType::bf16, {count, of.tokens, 3, of.heads, of.width}, 1)),
          dout(TestTensor::random(DType::bf16, {count, of.tokens, of.heads, of.width}, 2)),
          out(DType::bf16, dout.view().shape),
          dqkv(DType::bf16, qkv.view().shape),
          statistics(DType::f32, {count, of.heads, of.tokens}),
          existing(DType::i64, {0}) {}

    void forward() {
        cuda::short_attention_forward(shape, qkv.view(), counts(), out.view(), statistics.view(), nullptr);
    }
    void backward() {
        cuda::short_attention_backward(shape, qkv.view(), counts(), out.view(), statistics.view(),
                                       dout.view(), dqkv.view(), nullptr);
    }
    TensorView counts() { return existing.size() > 0 ? existing.view() : TensorView(); }
    std::string name() const {
        return std::to_string(samples) + " x " + std::to_string(shape.tokens) + " tokens, " +
               std::to_string(shape.heads) + " heads of " + std::to_string(shape.width);
    }
    /// Numbers of `x` in double, those of padding as zeros: an empty view of the mask has all.
    struct Exact {
        std::vector<double> out, dqkv;
    };
    Exact exact(EigenOps<double>& ops) {
        TestTensor wide_qkv(DType::f64, qkv.view().shape, qkv.values());
        TestTensor wide_dout(DType::f64, dout.view().shape, dout.values());
        TestTensor wide_out(DType::f64, dout.view().shape), wide_dqkv(DType::f64, qkv.view().shape);
        TestTensor mask(DType::f64, {samples, shape.tokens},
                        std::vector<double>(static_cast<std::size_t>(samples * shape.tokens), 1));
        for (std::size_t n = 0; n < existing.size(); ++n)
            for (auto t = static_cast<std::int64_t>(existing.get(n)); t < shape.tokens; ++t)
                mask.set(n * static_cast<std::size_t>(shape.tokens) + static_cast<std::size_t>(t), 0);
        const TensorView given = existing.size() > 0 ? mask.view() : TensorView();
        ops.attention_forward(shape, wide_qkv.view(), wide_out.view(), {}, given);
        ops.attention_backward(shape, wide_qkv.view(), {}, {}, wide_dout.view(), wide_dqkv.view(), given);
        return {wide_out.values(), wide_dqkv.values()};
    }
};

double largest(const std::vector<double>& values) {
    double most = 0;
    for (const double x : values) most = std::max(most, std::abs(x));
    return most;
}

/// Results that are rounded to bf16, of operands that are: sums of some hundred such roundings.
void expect_near_in_bf16(const TestTensor& found, const std::vector<double>& expected) {
    expect_near(found.values(), expected, 0.012 * std::max(largest(expected), 0.1));
}

/// Tiles that are full and that are not, one and several for a warp (14 and 16 of them), widths of both
/// kinds.
const std::vector<AttentionShape> short_shapes = {{1, 1, 32},   {2, 3, 64},   {16, 1, 64},
                                                  {17, 2, 32},  {50, 2, 32},  {65, 1, 64},
                                                  {197, 1, 64}, {209, 1, 32}, {256, 1, 64}};

TEST_P(CudaShortAttentionTest, agrees_with_the_definition_both_ways) {
    for (const AttentionShape& shape : short_shapes) {
        Attention attention(shape, shape.tokens < 60 ? 3 : 1);
        SCOPED_TRACE(attention.name());
        const Attention::Exact exact = attention.exact(exact_);
        attention.forward();
        expect_near_in_bf16(attention.out, exact.out);
        attention.backward();
        expect_near_in_bf16(attention.dqkv, exact.dqkv);
    }
}

TEST_P(CudaShortAttentionTest, statistics_are_the_logarithms_of_sums) {
    Attention attention({37, 2, 32}, 2);
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

TEST_P(CudaShortAttentionTest, bears_large_scores) {
    // One key of 200 gets everything, whatever its place, or (-1) all the same; scores of either sign are too
    // large for an exponential.
    for (const std::int64_t place : {-1, 0, 15, 100, 199}) {
        Attention attention({200, 1, 32}, 1);
        for (std::size_t d = 0; d < 32; ++d) {
            for (std::size_t t = 0; t < 200; ++t) {
                attention.qkv.set(t * 96 + d, 30);
                attention.qkv.set(t * 96 + 32 + d, static_cast<std::int64_t>(t) == place ? 30 : -30);
            }
        }
        const Attention::Exact exact = attention.exact(exact_);
        attention.forward();
        attention.backward();
        expect_near(attention.out.values(), exact.out, place < 0 ? 1e-3 : 1e-6);
        expect_near_in_bf16(attention.dqkv, exact.dqkv);
    }
}

TEST_P(CudaShortAttentionTest, what_exists_is_as_alone_and_padding_is_zero) {
    for (const std::int64_t width : {32, 64}) {
        Attention attention({50, 2, width}, 6);
        attention.existing = TestTensor(DType::i64, {6}, {50, 0, 1, 16, 33, 49});
        SCOPED_TRACE(attention.name());
        const Attention::Exact exact = attention.exact(exact_);
        // Whatever it holds has no part in anything.
        const auto spoil = [&](TestTensor& x) {
            const std::size_t token = x.size() / (6 * 50);
            for (std::size_t n = 0; n < 6; ++n)
                for (std::size_t t = static_cast<std::size_t>(attention.existing.get(n)); t < 50; ++t)
                    for (std::size_t i = 0; i < token; ++i) x.set((n * 50 + t) * token + i, nan);
        };
        spoil(attention.qkv);
        spoil(attention.dout);
        attention.forward();
        expect_near_in_bf16(attention.out, exact.out);
        attention.backward();
        expect_near_in_bf16(attention.dqkv, exact.dqkv);
        for (TestTensor* x : {&attention.out, &attention.dqkv}) {
            const std::size_t token = x->size() / (6 * 50);
            const std::vector<double> values = x->values();
            for (std::size_t n = 0; n < 6; ++n)
                for (std::size_t t = static_cast<std::size_t>(attention.existing.get(n)); t < 50; ++t)
                    for (std::size_t i = 0; i < token; ++i) ASSERT_EQ(values[(n * 50 + t) * token + i], 0);
        }
    }
}

TEST_P(CudaShortAttentionTest, that_all_tokens_exist_changes_no_bit) {
    Attention all({33, 2, 64}, 2), counted = all;
    counted.existing = TestTensor(DType::i64, {2}, {33, 33});
    for (Attention* attention : {&all, &counted}) {
        attention->forward();
        attention->backward();
    }
    EXPECT_TRUE(counted.out.bytes() == all.out.bytes());
    EXPECT_TRUE(counted.statistics.bytes() == all.statistics.bytes());
    EXPECT_TRUE(counted.dqkv.bytes() == all.dqkv.bytes());
}

TEST_P(CudaShortAttentionTest, what_is_no_number_shows) {
    for (const bool of_dout : {false, true}) {
        Attention attention({20, 1, 32}, 2);
        if (of_dout)
            attention.dout.set(5, nan);
        else
            attention.qkv.set(5, nan);
        attention.forward();
        attention.backward();
        // The first query's result or gradient, and of the other sample nothing.
        EXPECT_EQ(std::isnan(attention.out.get(0)), !of_dout);
        EXPECT_TRUE(std::isnan(attention.dqkv.get(0)));
        for (std::size_t i = attention.dqkv.size() / 2; i < attention.dqkv.size(); ++i)
            ASSERT_FALSE(std::isnan(attention.dqkv.get(i)));
    }
}

TEST_P(CudaShortAttentionTest, takes_what_its_kernels_and_shared_memory_are_for) {
    constexpr std::size_t hopper = 227 * 1024, ampere = 163 * 1024;
    EXPECT_TRUE(cuda::takes_short_attention({197, 12, 64}, hopper));
    EXPECT_TRUE(cuda::takes_short_attention({256, 1, 64}, hopper));
    EXPECT_FALSE(cuda::takes_short_attention({257, 1, 64}, hopper));
    EXPECT_FALSE(cuda::takes_short_attention({197, 12, 64}, ampere));
    EXPECT_TRUE(cuda::takes_short_attention({192, 12, 64}, ampere));
    EXPECT_FALSE(cuda::takes_short_attention({50, 12, 16}, hopper));
    EXPECT_FALSE(cuda::takes_short_attention({50, 12, 80}, hopper));
    Attention none({5, 2, 32}, 0);
    none.forward();
    none.backward();
}

}  // namespace
}  // namespace tutti::test
