#include <omp.h>

#include <cmath>

#include "backend.hpp"
#include "eigen_ops.hpp"
#include "masked_attention_case.hpp"
#include "tile_product.hpp"
#include "tile_transpose.hpp"

namespace tutti::test {
namespace {

Shape packed(const AttentionShape& shape, std::int64_t batch) {
    return {batch, shape.tokens, 3, shape.heads, shape.width};
}
Shape plain(const AttentionShape& shape, std::int64_t batch) {
    return {batch, shape.tokens, shape.heads * shape.width};
}

/// The definition, token by token, in double.
std::vector<double> reference(const AttentionShape& shape, std::int64_t batch, const TestTensor& qkv) {
    const std::vector<double> values = qkv.values();
    const auto at = [&](std::int64_t n, std::int64_t t, std::int64_t part, std::int64_t h, std::int64_t d) {
        return values[static_cast<std::size_t>(
            (((n * shape.tokens + t) * 3 + part) * shape.heads + h) * shape.width + d)];
    };
    std::vector<double> out;
    for (std::int64_t n = 0; n < batch; ++n)
        for (std::int64_t i = 0; i < shape.tokens; ++i)
            for (std::int64_t h = 0; h < shape.heads; ++h) {
                std::vector<double> weight;
                double sum = 0;
                for (std::int64_t j = 0; j < shape.tokens; ++j) {
                    double score = 0;
                    for (std::int64_t d = 0; d < shape.width; ++d)
                        score += at(n, i, 0, h, d) * at(n, j, 1, h, d);
                    weight.push_back(std::exp(score / std::sqrt(static_cast<double>(shape.width))));
                    sum += weight.back();
                }
                for (std::int64_t d = 0; d < shape.width; ++d) {
                    double value = 0;
                    for (std::int64_t j = 0; j < shape.tokens; ++j)
                        value += weight[static_cast<std::size_t>(j)] / sum * at(n, j, 2, h, d);
                    out.push_back(value);
                }
            }
    return out;
}

const std::vector<AttentionShape> attention_shapes = {{1, 1, 1},   {2, 1, 3},    {5, 3, 8},   {50, 4, 32},
                                                      {64, 1, 16}, {131, 2, 17}, {130, 2, 32}};

class AttentionTest : public KernelTest {};
class AttentionReferenceTest : public KernelTest {};
TUTTI_TEST_ON(AttentionTest, backends);
TUTTI_TEST_ON(AttentionReferenceTest, reference_backends);

TEST_P(AttentionTest, computes_a_hand_sized_case) {
    // q0 = 0 sees both tokens alike; q1 = 1 has the scores {0, ln 3}, the probabilities {1/4, 3/4}.
    const AttentionShape shape{2, 1, 1};
    const double ln3 = std::log(3.0);
    auto qkv = tensor(packed(shape, 1), {0, 0, 4, 1, ln3, 8}), out = tensor(plain(shape, 1));
    ops_->attention_forward(shape, qkv.view(), out.view(), {});
    const double tolerance = 8 * unit_roundoff_;
    expect_near(out.values(), {6, 7}, tolerance);

    // Of out1 only: dp = {4, 8}, Σ p·dp = 7, dscores = {1/4·(4 − 7), 3/4·(8 − 7)}.
    auto dout = tensor(plain(shape, 1), {0, 1}), dqkv = tensor(packed(shape, 1));
    ops_->attention_backward(shape, qkv.view(), {}, {}, dout.view(), dqkv.view());
    expect_near(dqkv.values(), {0, -0.75, 0.25, 0.75 * ln3, 0.75, 0.75}, 2 * tolerance);
}

TEST_P(AttentionTest, divides_scores_by_the_root_of_the_width) {
    // Width 4: scores {0, 2 ln 3}/2.
    const AttentionShape shape{2, 1, 4};
    const double ln9 = 2 * std::log(3.0);
    auto qkv =
        tensor(packed(shape, 1), {1, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 1, 0, 0, 0, ln9, 0, 0, 0, 8, 0, 0, 0});
    auto out = tensor(plain(shape, 1));
    ops_->attention_forward(shape, qkv.view(), out.view(), {});
    expect_near(out.values(), {7, 0, 0, 0, 7, 0, 0, 0}, 8 * unit_roundoff_);
}

TEST_P(AttentionTest, agrees_with_the_definition) {
    for (const AttentionShape& shape : attention_shapes)
        for (const std::int64_t batch : {1, 3}) {
            SCOPED_TRACE(testing::Message() << shape.tokens << " tokens, " << shape.heads << " heads of "
                                            << shape.width << ", batch " << batch);
            auto qkv = random(packed(shape, batch), 1), out = tensor(plain(shape, batch));
            ops_->attention_forward(shape, qkv.view(), out.view(), {});
            // Scores up to √D with D roundings; sums of T products whose weights add up to 1.
            expect_near(out.values(), reference(shape, batch, qkv), 100 * unit_roundoff_);
        }
}

TEST_P(AttentionTest, gradients_agree_with_fp64_up_to_their_rounding) {
    EigenOps<double> exact;
    for (const AttentionShape& shape : attention_shapes) {
        SCOPED_TRACE(testing::Message()
                     << shape.tokens << " tokens, " << shape.heads << " heads of " << shape.width);
        auto qkv = random(packed(shape, 2), 1), dout = random(plain(shape, 2), 2),
             dqkv = tensor(packed(shape, 2));
        ops_->attention_backward(shape, qkv.view(), {}, {}, dout.view(), dqkv.view());
        TestTensor qkv64(DType::f64, packed(shape, 2), qkv.values());
        TestTensor dout64(DType::f64, plain(shape, 2), dout.values());
        TestTensor dqkv64(DType::f64, packed(shape, 2));
        exact.attention_backward(shape, qkv64.view(), {}, {}, dout64.view(), dqkv64.view());
        expect_near(dqkv.values(), dqkv64.values(), 200 * unit_roundoff_);
    }
}

TEST_P(AttentionTest, is_stable_for_large_scores) {
    const AttentionShape shape{2, 1, 1};
    auto qkv = tensor(packed(shape, 1), {1000, 100, 4, 1000, -100, 8}), out = tensor(plain(shape, 1));
    auto dout = tensor(plain(shape, 1), {1, 1}), dqkv = tensor(packed(shape, 1));
    ops_->attention_forward(shape, qkv.view(), out.view(), {});
    expect_near(out.values(), {4, 4}, 2 * unit_roundoff_);
    ops_->attention_backward(shape, qkv.view(), {}, {}, dout.view(), dqkv.view());
    expect_near(dqkv.values(), {0, 0, 2, 0, 0, 0}, 2 * unit_roundoff_);
}

TEST_P(AttentionTest, accepts_an_empty_batch) {
    const AttentionShape shape{4, 2, 3};
    auto qkv = tensor(packed(shape, 0)), out = tensor(plain(shape, 0));
    ops_->attention_forward(shape, qkv.view(), out.view(), {});
    ops_->attention_backward(shape, qkv.view(), {}, {}, out.view(), qkv.view());
}

TEST_P(AttentionTest, gives_the_same_bits_on_any_number_of_threads) {
    const AttentionShape shape{50, 4, 32};
    auto qkv = random(packed(shape, 5), 1), dout = random(plain(shape, 5), 2);
    std::vector<TestTensor> outs, gradients;
    for (const int threads : {1, 2, 3}) {
        omp_set_num_threads(threads);
        outs.push_back(tensor(plain(shape, 5)));
        gradients.push_back(tensor(packed(shape, 5)));
        ops_->attention_forward(shape, qkv.view(), outs.back().view(), {});
        ops_->attention_backward(shape, qkv.view(), {}, {}, dout.view(), gradients.back().view());
    }
    for (std::size_t i = 1; i < outs.size(); ++i) {
        EXPECT_EQ(outs[i].bytes(), outs[0].bytes());
        EXPECT_EQ(gradients[i].bytes(), gradients[0].bytes());
    }
}

TEST_P(AttentionReferenceTest, gradients_agree_with_finite_differences) {
    const AttentionShape shape{3, 2, 4};
    auto qkv = random(packed(shape, 2), 1), dout = random(plain(shape, 2), 2);
    auto out = tensor(plain(shape, 2)), dqkv = tensor(packed(shape, 2));
    ops_->attention_backward(shape, qkv.view(), {}, {}, dout.view(), dqkv.view());
    const auto loss = [&] {
        ops_->attention_forward(shape, qkv.view(), out.view(), {});
        return dot(out, dout);
    };
    // Truncation step²/6 times a third derivative below 10, rounding 1e-16/step.
    expect_near(dqkv.values(), numeric_gradient(qkv, 1e-5, loss), 1e-9);
}

// A head of whole vectors or not; one block of queries and several.
const std::vector<AttentionShape> masked_shapes = {
    {1, 1, 8}, {9, 2, 3}, {50, 4, 32}, {67, 3, 16}, {131, 2, 17}};

/// Both directions.
void attend(Ops& ops, AttentionTensors& tensors, const TensorView& mask) {
    ops.attention_forward(tensors.shape, tensors.qkv.view(), tensors.out.view(), {}, mask);
    ops.attention_backward(tensors.shape, tensors.qkv.view(), {}, {}, tensors.dout.view(),
                           tensors.dqkv.view(), mask);
}

TEST_P(AttentionTest, under_a_mask_is_that_of_the_tokens_that_exist) {
    // Were padding's scores added to the others, or its values multiplied by 0 alone, these would show.
    for (const AttentionShape& shape : masked_shapes)
        MaskedAttentionCase(dtype_, shape, 1e6)
            .expect_each_as_alone(
                [&](AttentionTensors& tensors, const TensorView& mask) { attend(*ops_, tensors, mask); },
                200 * unit_roundoff_);
}

TEST_P(AttentionTest, under_a_mask_gives_the_same_bits_on_any_number_of_threads) {
    MaskedAttentionCase all(dtype_, {67, 4, 32}, 1);
    AttentionTensors& tensors = all.together();
    TestTensor mask = all.mask();
    omp_set_num_threads(1);
    attend(*ops_, tensors, mask.view());
    const AttentionTensors first = tensors;
    for (const int threads : {2, 3}) {
        omp_set_num_threads(threads);
        attend(*ops_, tensors, mask.view());
        EXPECT_EQ(tensors.out.bytes(), first.out.bytes());
        EXPECT_EQ(tensors.dqkv.bytes(), first.dqkv.bytes());
    }
}

TEST_P(AttentionReferenceTest, under_a_mask_gradients_agree_with_finite_differences) {
    const AttentionShape shape{3, 2, 4};
    auto qkv = random(packed(shape, 4), 1), dout = random(plain(shape, 4), 2);
    auto out = tensor(plain(shape, 4)), dqkv = tensor(packed(shape, 4));
    auto mask = tensor({4, 3}, {1, 1, 1, 1, 0, 0, 0, 1, 1, 1, 1, 0});
    ops_->attention_backward(shape, qkv.view(), {}, {}, dout.view(), dqkv.view(), mask.view());
    const auto loss = [&] {
        ops_->attention_forward(shape, qkv.view(), out.view(), {}, mask.view());
        return dot(out, dout);
    };
    expect_near(dqkv.values(), numeric_gradient(qkv, 1e-5, loss), 1e-9);
}

/// On the CPU, more than the contract promises: bits.
template <class T>
void expect_bits_of_existing_tokens() {
    EigenOps<T> ops;
    for (const AttentionShape& shape : masked_shapes) {
        MaskedAttentionCase all(dtype_of<T>, shape, nan);
        all.expect_each_as_alone(
            [&](AttentionTensors& tensors, const TensorView& mask) { attend(ops, tensors, mask); }, 0);
    }
}

TEST(MaskedAttention, computes_existing_tokens_bit_by_bit_as_alone_whatever_padding_is) {
    expect_bits_of_existing_tokens<float>();
    expect_bits_of_existing_tokens<double>();
}

TEST(MaskedAttention, a_mask_of_ones_changes_no_bit) {
    EigenOps<float> ops;
    for (const AttentionShape& shape : masked_shapes) {
        AttentionTensors without(DType::f32, shape, 2);
        without.qkv = TestTensor::random(DType::f32, packed(shape, 2), 1);
        without.dout = TestTensor::random(DType::f32, plain(shape, 2), 2);
        AttentionTensors with = without;
        TestTensor ones(DType::f32, {2, shape.tokens},
                        std::vector<double>(static_cast<std::size_t>(2 * shape.tokens), 1));
        attend(ops, without, {});
        attend(ops, with, ones.view());
        EXPECT_EQ(with.out.bytes(), without.out.bytes());
        EXPECT_EQ(with.dqkv.bytes(), without.dqkv.bytes());
    }
}

template <class T>
void expect_tile_product(std::int64_t rows, std::int64_t columns, std::int64_t inner, bool transposed,
                         bool add) {
    const std::int64_t b_row = padded<T>(columns);
    const auto size = [](std::int64_t count) { return static_cast<std::size_t>(count); };
    std::vector<T> a(size(rows * inner));
    // Over-aligned by hand: std::vector does not know vectors of 64 bytes.
    std::vector<T> memory(size((inner + rows) * b_row + lanes<T>));
    T* b = memory.data();
    while (reinterpret_cast<std::uintptr_t>(b) % vector_bytes != 0) ++b;
    T* c = b + inner * b_row;
    for (std::size_t i = 0; i < a.size(); ++i) a[i] = static_cast<T>(static_cast<int>(i * 7 % 11) - 5);
    for (std::int64_t i = 0; i < inner * b_row; ++i) b[i] = static_cast<T>(i * 5 % 13 - 6);
    std::fill_n(c, rows * b_row, T(3));
    const TileView<T> view{a.data(), transposed ? 1 : inner, transposed ? rows : 1};
    multiply_tiles<T>(rows, b_row, inner, view, b, b_row, c, b_row, add);
    for (std::int64_t r = 0; r < rows; ++r)
        for (std::int64_t i = 0; i < b_row; ++i) {
            T expected = add ? T(3) : T(0);  // small integers: exact in any order
            for (std::int64_t k = 0; k < inner; ++k)
                expected += a[size(r * view.row + k * view.column)] * b[k * b_row + i];
            ASSERT_EQ(c[r * b_row + i], expected) << "row " << r << ", column " << i;
        }
}

TEST(TileProduct, computes_every_shape_of_block) {
    for (const std::int64_t rows : {1, 2, 3, 4, 5, 7, 9, 10, 17, 23})
        for (const std::int64_t vectors : {1, 2, 3, 4, 5, 9})
            for (const std::int64_t inner : {0, 1, 6})
                for (const bool transposed : {false, true})
                    for (const bool add : {false, true}) {
                        expect_tile_product<float>(rows, vectors * lanes<float>, inner, transposed, add);
                        expect_tile_product<double>(rows, vectors * lanes<double>, inner, transposed, add);
                    }
}

template <class T>
void expect_transposed(std::int64_t rows, std::int64_t columns) {
    SCOPED_TRACE(testing::Message() << rows << " x " << columns);
    const std::int64_t stride = columns + 3, row_size = padded<T>(rows);
    const auto size = [](std::int64_t count) { return static_cast<std::size_t>(count); };
    std::vector<T> from(size((rows - 1) * stride + columns));
    for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<T>(i);
    std::vector<T> memory(size(columns * row_size + lanes<T>), T(-1));
    T* to = memory.data();
    while (reinterpret_cast<std::uintptr_t>(to) % vector_bytes != 0) ++to;
    transpose_tile<T>(from.data(), stride, rows, columns, T(2), to);
    for (std::int64_t c = 0; c < columns; ++c)
        for (std::int64_t r = 0; r < row_size; ++r)
            ASSERT_EQ(to[c * row_size + r], r < rows ? 2 * from[size(r * stride + c)] : T(0))
                << "row " << r << ", column " << c;
}

TEST(TileTranspose, fills_whole_vectors_at_every_size) {
    for (const std::int64_t rows : {1, 7, 16, 17, 50})
        for (const std::int64_t columns : {1, 8, 16, 19, 32}) {
            expect_transposed<float>(rows, columns);
            expect_transposed<double>(rows, columns);
        }
}

}  // namespace
}  // namespace tutti::test
