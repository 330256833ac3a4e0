// Attention with products in bf16, against the same in double.
#include <omp.h>

#include <cmath>

#include "backend.hpp"
#include "bf16_attention.hpp"
#include "bf16_pairs.hpp"
#include "eigen_ops.hpp"
#include "masked_attention_case.hpp"
#include "onednn_ops.hpp"
#include "support/bf16_refusal.hpp"
#include "tile_vector.hpp"
#include "tutti/base/error.hpp"

namespace tutti::test {
namespace {

struct AttentionCase {
    AttentionShape shape;
    std::int64_t batch;
    TestTensor qkv, dout, out, dqkv;

    AttentionCase(const AttentionShape& of, std::int64_t count, DType dtype)
        : shape(of),
          batch(count),
          qkv(TestTensor::random(dtype, packed(), 1)),
          dout(TestTensor::random(dtype, plain(), 2)),
          out(dtype, plain()),
          dqkv(dtype, packed()) {}
    Shape packed() const { return {batch, shape.tokens, 3, shape.heads, shape.width}; }
    Shape plain() const { return {batch, shape.tokens, shape.heads * shape.width}; }

    void run(Ops& ops) {
        ops.attention_forward(shape, qkv.view(), out.view(), {});
        ops.attention_backward(shape, qkv.view(), {}, {}, dout.view(), dqkv.view());
    }
    void run_bf16() {
        Workspace workspace;
        bf16_attention_forward(shape, qkv.view(), out.view(), {}, workspace);
        bf16_attention_backward(shape, qkv.view(), dout.view(), dqkv.view(), {}, workspace);
    }
};

class Bf16Attention : public testing::Test {
  protected:
    void SetUp() override {
        if (lanes<float> % bf16_lanes != 0) GTEST_SKIP() << "this build has narrower vectors";
        if (!takes_bf16_attention({1, 1, 16}))
            refused_bf16(Bf16Need::instructions, "this processor (or compiler) has no AVX512_BF16");
    }
    void TearDown() override { omp_set_num_threads(threads_); }

  private:
    int threads_ = omp_get_max_threads();
};

/// ‖a − b‖ / ‖b‖ of one of so many parts that take turns, each of `width` elements.
double relative_difference(const TestTensor& a, const TestTensor& b, std::size_t parts, std::size_t part,
                           std::size_t width) {
    double difference = 0, norm = 0;
    for (std::size_t i = 0; i < b.size(); ++i) {
        if (i / width % parts != part) continue;
        difference += std::pow(a.get(i) - b.get(i), 2);
        norm += std::pow(b.get(i), 2);
    }
    return std::sqrt(difference / norm);
}

// One block of queries and several, odd numbers of tokens, a head wider than a block of sums, and one that is
// not a multiple of it.
const std::vector<AttentionShape> bf16_attention_shapes = {
    {1, 1, 16}, {2, 3, 16}, {5, 1, 80}, {50, 4, 32}, {64, 1, 64}, {131, 2, 16}, {65, 1, 128}, {129, 2, 48}};

TEST_F(Bf16Attention, is_the_definition_within_bf16s_rounding) {
    EigenOps<double> reference;
    for (const AttentionShape& shape : bf16_attention_shapes)
        for (const std::int64_t batch : {1, 3}) {
            SCOPED_TRACE(testing::Message() << shape.tokens << " tokens, " << shape.heads << " heads of "
                                            << shape.width << ", batch " << batch);
            AttentionCase bf16(shape, batch, DType::f32), exact(shape, batch, DType::f64);
            for (std::size_t i = 0; i < exact.qkv.size(); ++i) exact.qkv.set(i, bf16.qkv.get(i));
            for (std::size_t i = 0; i < exact.dout.size(); ++i) exact.dout.set(i, bf16.dout.get(i));
            bf16.run_bf16();
            exact.run(reference);
            const auto channels = static_cast<std::size_t>(shape.heads * shape.width);
            EXPECT_LE(relative_difference(bf16.out, exact.out, 1, 0, channels), 0x1p-7);
            EXPECT_LE(relative_difference(bf16.dqkv, exact.dqkv, 3, 2, channels), 0x1p-7) << "dv";
            if (shape.tokens == 1) continue;  // whose scores have no gradient
            EXPECT_LE(relative_difference(bf16.dqkv, exact.dqkv, 3, 0, channels), 0x1p-6) << "dq";
            EXPECT_LE(relative_difference(bf16.dqkv, exact.dqkv, 3, 1, channels), 0x1p-6) << "dk";
        }
}

TEST_F(Bf16Attention, is_exact_where_nothing_is_rounded) {
    // All scores are 0 and all probabilities 1/4; v = token, dout = 1.
    AttentionCase one({4, 1, 16}, 1, DType::f32);
    for (std::size_t i = 0; i < one.qkv.size(); ++i) {
        const std::size_t token = i / 48, part = i / 16 % 3;
        one.qkv.set(i, part == 2 ? static_cast<double>(token) : 0.0);
    }
    for (std::size_t i = 0; i < one.dout.size(); ++i) one.dout.set(i, 1);
    one.run_bf16();
    expect_equal(one.out, std::vector<double>(one.out.size(), 1.5));
    for (std::size_t i = 0; i < one.dqkv.size(); ++i)
        ASSERT_EQ(one.dqkv.get(i), i / 16 % 3 == 2 ? 1.0 : 0.0) << "element " << i;
}

TEST_F(Bf16Attention, rounds_the_inputs_of_its_products) {
    // With one token the output is v, rounded.
    AttentionCase one({1, 1, 16}, 1, DType::f32);
    for (std::size_t i = 0; i < one.qkv.size(); ++i) one.qkv.set(i, 1 + 0x1p-8 + 0x1p-20);
    one.run_bf16();
    expect_equal(one.out, std::vector<double>(one.out.size(), 1 + 0x1p-7));
}

TEST_F(Bf16Attention, has_the_same_bits_with_any_number_of_threads) {
    AttentionCase one({50, 4, 32}, 7, DType::f32), other({50, 4, 32}, 7, DType::f32);
    omp_set_num_threads(1);
    one.run_bf16();
    for (const int threads : {2, 3}) {
        omp_set_num_threads(threads);
        other.run_bf16();
        EXPECT_EQ(one.out.bytes(), other.out.bytes()) << threads << " threads";
        EXPECT_EQ(one.dqkv.bytes(), other.dqkv.bytes()) << threads << " threads";
    }
}

// Even and odd numbers of tokens, more than a block of queries.
const std::vector<AttentionShape> masked_bf16_shapes = {
    {1, 1, 16}, {9, 3, 16}, {50, 4, 32}, {131, 2, 16}, {66, 1, 80}};

/// Both directions.
void attend_in_bf16(AttentionTensors& tensors, const TensorView& mask) {
    Workspace workspace;
    bf16_attention_forward(tensors.shape, tensors.qkv.view(), tensors.out.view(), mask, workspace);
    bf16_attention_backward(tensors.shape, tensors.qkv.view(), tensors.dout.view(), tensors.dqkv.view(), mask,
                            workspace);
}

TEST_F(Bf16Attention, computes_existing_tokens_bit_by_bit_as_alone_whatever_padding_is) {
    for (const AttentionShape& shape : masked_bf16_shapes)
        for (const double padding : {1e6, nan})
            MaskedAttentionCase(DType::f32, shape, padding).expect_each_as_alone(attend_in_bf16, 0);
}

TEST_F(Bf16Attention, under_a_mask_has_the_same_bits_with_any_number_of_threads) {
    MaskedAttentionCase all(DType::f32, {67, 4, 32}, 1);
    AttentionTensors& tensors = all.together();
    TestTensor mask = all.mask();
    omp_set_num_threads(1);
    attend_in_bf16(tensors, mask.view());
    const AttentionTensors first = tensors;
    for (const int threads : {2, 3}) {
        omp_set_num_threads(threads);
        attend_in_bf16(tensors, mask.view());
        EXPECT_EQ(tensors.out.bytes(), first.out.bytes()) << threads << " threads";
        EXPECT_EQ(tensors.dqkv.bytes(), first.dqkv.bytes()) << threads << " threads";
    }
}

TEST_F(Bf16Attention, a_mask_of_ones_changes_no_bit) {
    AttentionTensors plain(DType::f32, {67, 3, 16}, 2);
    plain.qkv = TestTensor::random(DType::f32, {2, 67, 3, 3, 16}, 1);
    plain.dout = TestTensor::random(DType::f32, {2, 67, 3, 16}, 2);
    AttentionTensors masked = plain;
    TestTensor ones(DType::f32, {2, 67}, std::vector<double>(2 * 67, 1));
    attend_in_bf16(plain, {});
    attend_in_bf16(masked, ones.view());
    EXPECT_EQ(masked.out.bytes(), plain.out.bytes());
    EXPECT_EQ(masked.dqkv.bytes(), plain.dqkv.bytes());
}

TEST_F(Bf16Attention, is_what_bf16_mode_computes_and_fp32_where_heads_are_no_whole_vectors) {
    std::unique_ptr<Ops> ops;
    try {
        ops = make_onednn_bf16_ops();
    } catch (const UsageError& error) {
        return refused_bf16(Bf16Need::products, error.what());
    }
    AttentionCase mode({9, 2, 32}, 2, DType::f32), own({9, 2, 32}, 2, DType::f32);
    mode.run(*ops);
    own.run_bf16();
    EXPECT_EQ(mode.out.bytes(), own.out.bytes());
    EXPECT_EQ(mode.dqkv.bytes(), own.dqkv.bytes());

    MaskedAttentionCase all(DType::f32, {9, 2, 32}, 1);
    AttentionTensors& masked = all.together();
    AttentionTensors own_masked = masked;
    TestTensor mask = all.mask();
    ops->attention_forward(masked.shape, masked.qkv.view(), masked.out.view(), {}, mask.view());
    ops->attention_backward(masked.shape, masked.qkv.view(), {}, {}, masked.dout.view(), masked.dqkv.view(),
                            mask.view());
    attend_in_bf16(own_masked, mask.view());
    EXPECT_EQ(masked.out.bytes(), own_masked.out.bytes());
    EXPECT_EQ(masked.dqkv.bytes(), own_masked.dqkv.bytes());

    EigenOps<float> fp32;
    AttentionCase odd({9, 2, 17}, 2, DType::f32), plain({9, 2, 17}, 2, DType::f32);
    odd.run(*ops);
    plain.run(fp32);
    EXPECT_EQ(odd.out.bytes(), plain.out.bytes());
    EXPECT_EQ(odd.dqkv.bytes(), plain.dqkv.bytes());
}

}  // namespace
}  // namespace tutti::test
