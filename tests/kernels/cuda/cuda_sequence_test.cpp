// What models of sequences need, as the operators of the CUDA device beside the CPU's: on the fake GPU and on
// a real one.

#include "../backend.hpp"
#include "cuda_ops.hpp"
#include "eigen_ops.hpp"
#include "segment_batch.hpp"

namespace tutti::test {
namespace {

TestTensor as(DType dtype, TestTensor& tensor) {
    return {dtype, tensor.view().shape, tensor.values()};
}

/// One batch of attention of which sample n has existing[n] tokens.
struct MaskedAttention {
    AttentionShape shape;
    std::vector<std::int64_t> existing;
    TestTensor qkv, dout, mask, out, dqkv;

    MaskedAttention(DType dtype, const AttentionShape& s, const std::vector<std::int64_t>& tokens)
        : MaskedAttention(s, tokens,
                          TestTensor::random(dtype, {std::ssize(tokens), s.tokens, 3, s.heads, s.width}, 1),
                          TestTensor::random(dtype, {std::ssize(tokens), s.tokens, s.heads * s.width}, 2),
                          TestTensor(dtype, {std::ssize(tokens), s.tokens}, ones(s, tokens)), dtype) {}
    /// The same, as the reference has it.
    MaskedAttention exact() {
        return {shape, existing, as(DType::f64, qkv), as(DType::f64, dout), as(DType::f64, mask), DType::f64};
    }
    void run(Ops& ops, bool with_mask = true) {
        const TensorView view = with_mask ? mask.view() : TensorView{};
        ops.attention_forward(shape, qkv.view(), out.view(), {}, view);
        ops.attention_backward(shape, qkv.view(), out.view(), {}, dout.view(), dqkv.view(), view);
    }
    /// Calls visit(element) for each of padding in tensors of `width` elements per token.
    template <class Visit>
    void for_padding(std::int64_t width, const Visit& visit) const {
        for (std::size_t n = 0; n < existing.size(); ++n) {
            const auto sample = static_cast<std::int64_t>(n);
            for (std::int64_t i = existing[n] * width; i < shape.tokens * width; ++i)
                visit(static_cast<std::size_t>(sample * shape.tokens * width + i));
        }
    }

  private:
    MaskedAttention(const AttentionShape& s, const std::vector<std::int64_t>& tokens, TestTensor packed,
                    TestTensor gradient, TestTensor exists, DType dtype)
        : shape(s),
          existing(tokens),
          qkv(std::move(packed)),
          dout(std::move(gradient)),
          mask(std::move(exists)),
          out(dtype, dout.view().shape),
          dqkv(dtype, qkv.view().shape) {}
    static std::vector<double> ones(const AttentionShape& s, const std::vector<std::int64_t>& tokens) {
        std::vector<double> values;
        for (const std::int64_t count : tokens)
            for (std::int64_t t = 0; t < s.tokens; ++t) values.push_back(t < count ? 1 : 0);
        return values;
    }
};

class CudaSequences : public ::testing::Test {
  protected:
    std::shared_ptr<cuda::CudaContext> context_ = std::make_shared<cuda::CudaContext>();
    cuda::CudaOps fp32_{context_, cuda::ProductType::fp32}, bf16_{context_, cuda::ProductType::bf16};
    EigenOps<double> exact_;
};

TEST_F(CudaSequences, attention_with_padding_agrees_with_the_cpu) {
    struct Case {
        AttentionShape shape;
        std::vector<std::int64_t> existing;
    };
    for (const Case& one : {Case{{1, 1, 1}, {0, 1}}, Case{{5, 3, 8}, {3, 0, 5, 1}},
                            Case{{67, 2, 12}, {33, 66}}, Case{{130, 1, 32}, {0, 129, 64}}})
        for (const DType dtype : {DType::f32, DType::bf16}) {
            SCOPED_TRACE(testing::Message() << one.shape.tokens << " tokens in " << name_of(dtype));
            MaskedAttention attention(dtype, one.shape, one.existing), expected = attention.exact();
            attention.run(dtype == DType::f32 ? fp32_ : bf16_);
            expected.run(exact_);
            // Those in bf16 are computed in fp32 and rounded once.
            const double tolerance = dtype == DType::f32 ? 2e-5 : 0x1p-8;
            expect_near(attention.out.values(), expected.out.values(), tolerance);
            expect_near(attention.dqkv.values(), expected.dqkv.values(), tolerance);
            const std::int64_t channels = one.shape.heads * one.shape.width;
            const std::vector<double> out = attention.out.values(), dqkv = attention.dqkv.values();
            attention.for_padding(channels, [&](std::size_t i) { EXPECT_EQ(out[i], 0); });
            attention.for_padding(3 * channels, [&](std::size_t i) { EXPECT_EQ(dqkv[i], 0); });
        }
}

TEST_F(CudaSequences, attention_does_not_depend_on_what_padding_has) {
    MaskedAttention first(DType::f32, {9, 2, 5}, {4, 0, 8}), other = first;
    other.for_padding(10, [&](std::size_t i) { other.dout.set(i, 1e6); });
    other.for_padding(30, [&](std::size_t i) { other.qkv.set(i, -100); });
    first.run(fp32_);
    other.run(fp32_);
    EXPECT_EQ(other.out.values(), first.out.values());
    EXPECT_EQ(other.dqkv.values(), first.dqkv.values());
}

TEST_F(CudaSequences, attention_whose_tokens_all_exist_has_the_bits_of_that_without_a_mask) {
    for (const AttentionShape& shape : {AttentionShape{7, 3, 5}, AttentionShape{70, 1, 8}}) {
        MaskedAttention masked(DType::f32, shape, {shape.tokens, shape.tokens}), plain = masked;
        masked.run(fp32_);
        plain.run(fp32_, false);
        EXPECT_TRUE(masked.out.bytes() == plain.out.bytes());
        EXPECT_TRUE(masked.dqkv.bytes() == plain.dqkv.bytes());
    }
}

TEST_F(CudaSequences, attention_with_a_mask_of_no_samples) {
    MaskedAttention none(DType::bf16, {4, 2, 8}, {});
    none.run(bf16_);
}

TEST_F(CudaSequences, columns_are_copied_and_rounded) {
    EigenOps<float> cpu;
    constexpr ColumnRange columns{8, 16, 24};
    for (const DType from : {DType::f32, DType::bf16})
        for (const DType to : {DType::f32, DType::bf16})
            for (const std::int64_t width : {40, 41}) {
                auto x = TestTensor::random(from, {3, 7, width}, 1),
                     y = TestTensor::random(to, {3, 7, 48}, 2), wide_x = as(DType::f32, x),
                     wide_y = as(DType::f32, y);
                bf16_.copy_columns(x.view(), columns, y.view());
                cpu.copy_columns(wide_x.view(), columns, wide_y.view());
                EXPECT_EQ(y.values(), as(to, wide_y).values());
            }
}

TEST_F(CudaSequences, the_loss_of_segments_agrees_with_the_cpu) {
    SegmentBatch b(7, 300);
    TestTensor exact = as(DType::f64, b.outputs), gradients(DType::f64, {7, 300, 4}), sums(DType::f64, {3}),
               doutputs(DType::f64, {7, 300, 4});
    fp32_.segment_loss_forward(b.outputs.view(), b.wanted.view(), {}, b.gradients.view(), b.sums.view());
    exact_.segment_loss_forward(exact.view(), b.wanted.view(), {}, gradients.view(), sums.view());
    expect_near(b.gradients.values(), gradients.values(), 1e-6);
    expect_near(b.sums.values(), sums.values(), 1e-12);
    const std::vector<double> first = b.sums.values();
    // In place, as a model's loss has it.
    fp32_.segment_loss_forward(b.outputs.view(), b.wanted.view(), {}, b.outputs.view(), b.sums.view());
    EXPECT_EQ(b.sums.values(), first);
    EXPECT_EQ(b.outputs.values(), b.gradients.values());
    fp32_.segment_loss_backward(b.outputs.view(), 3, b.outputs.view());
    exact_.segment_loss_backward(gradients.view(), 3, doutputs.view());
    expect_near(b.outputs.values(), doutputs.values(), 1e-6);
}

}  // namespace
}  // namespace tutti::test
