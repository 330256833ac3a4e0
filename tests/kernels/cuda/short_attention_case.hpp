#pragma once
// Attention of few tokens beside what EigenOps makes of the same numbers in double.

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "kernel_test.hpp"
#include "short_attention.hpp"

namespace tutti::test {

/// The arguments of both passes, and what EigenOps makes of the same numbers in double.
struct ShortAttention {
    AttentionShape shape;
    std::int64_t samples;
    TestTensor qkv, dout, out, dqkv, statistics, existing;

    ShortAttention(const AttentionShape& of, std::int64_t count)
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

inline double largest(const std::vector<double>& values) {
    double most = 0;
    for (const double x : values) most = std::max(most, std::abs(x));
    return most;
}

/// Results that are rounded to bf16, of operands that are: sums of some hundred such roundings.
inline void expect_near_in_bf16(const TestTensor& found, const std::vector<double>& expected) {
    expect_near(found.values(), expected, 0.012 * std::max(largest(expected), 0.1));
}

/// Tiles that are full and that are not; one for a warp of backward (12 at most) and two (of 13 one has
/// none), of forward up to four; widths of both kinds.
inline const std::vector<AttentionShape> short_shapes = {
    {1, 1, 32},  {2, 3, 64},   {16, 1, 64},  {17, 2, 32},  {50, 2, 32},
    {65, 1, 64}, {180, 1, 64}, {197, 1, 64}, {209, 1, 32}, {256, 1, 64}};

/// Of samples whose `existing` says how many are no padding: that is NaN from now on.
inline void spoil_padding(ShortAttention& attention, TestTensor& x) {
    const auto samples = static_cast<std::size_t>(attention.samples),
               tokens = static_cast<std::size_t>(attention.shape.tokens);
    const std::size_t width = x.size() / (samples * tokens);
    for (std::size_t n = 0; n < samples; ++n)
        for (auto t = static_cast<std::size_t>(attention.existing.get(n)); t < tokens; ++t)
            for (std::size_t i = 0; i < width; ++i) x.set((n * tokens + t) * width + i, nan);
}
inline void expect_zero_padding(ShortAttention& attention, const TestTensor& x) {
    const auto samples = static_cast<std::size_t>(attention.samples),
               tokens = static_cast<std::size_t>(attention.shape.tokens);
    const std::size_t width = x.size() / (samples * tokens);
    const std::vector<double> values = x.values();
    for (std::size_t n = 0; n < samples; ++n)
        for (auto t = static_cast<std::size_t>(attention.existing.get(n)); t < tokens; ++t)
            for (std::size_t i = 0; i < width; ++i) ASSERT_EQ(values[(n * tokens + t) * width + i], 0);
}

/// One key of 200, at `place`, gets everything, or (-1) all the same; scores of either sign are too large for
/// an exponential.
inline ShortAttention with_large_scores(std::int64_t place) {
    ShortAttention attention({200, 1, 32}, 1);
    for (std::size_t d = 0; d < 32; ++d)
        for (std::size_t t = 0; t < 200; ++t) {
            attention.qkv.set(t * 96 + d, 30);
            attention.qkv.set(t * 96 + 32 + d, static_cast<std::int64_t>(t) == place ? 30 : -30);
        }
    return attention;
}

/// Lengths of all kinds: of a tile a warp in backward, and of two.
inline std::vector<ShortAttention> with_padding(std::int64_t width) {
    ShortAttention few({50, 2, width}, 6), many({197, 1, width}, 3);
    few.existing = TestTensor(DType::i64, {6}, {50, 0, 1, 16, 33, 49});
    many.existing = TestTensor(DType::i64, {3}, {193, 1, 80});
    return {few, many};
}

}  // namespace tutti::test
