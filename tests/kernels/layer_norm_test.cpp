#include <cmath>

#include "backend.hpp"
#include "eigen_ops.hpp"

namespace tutti::test {
namespace {

class LayerNormTest : public KernelTest {
  protected:
    struct Results {
        TestTensor y, statistics, dx, dgamma, dbeta;
    };
    /// Forward and backward of the same inputs, rounded to `dtype`, by `ops`.
    static Results run(Ops& ops, DType dtype, std::int64_t rows, std::int64_t width, double offset = 0) {
        const auto input = [&](const Shape& shape, unsigned seed, double shift) {
            TestTensor rounded = TestTensor::random(DType::f32, shape, seed);
            TestTensor result(dtype, shape);
            for (std::size_t i = 0; i < result.size(); ++i)
                result.set(i, static_cast<double>(static_cast<float>(rounded.get(i) + shift)));
            return result;
        };
        auto x = input({rows, width}, 1, offset), gamma = input({width}, 2, 0), beta = input({width}, 3, 0);
        auto dy = input({rows, width}, 4, 0);
        Results r{{dtype, {rows, width}},
                  {DType::f64, {rows, 2}},
                  {dtype, {rows, width}},
                  {dtype, {width}},
                  {dtype, {width}}};
        ops.layer_norm_forward(x.view(), gamma.view(), beta.view(), 1e-5, r.y.view(), r.statistics.view());
        ops.layer_norm_backward(x.view(), gamma.view(), r.statistics.view(), dy.view(), r.dx.view(),
                                r.dgamma.view(), r.dbeta.view());
        return r;
    }
};
class LayerNormReferenceTest : public KernelTest {};
TUTTI_TEST_ON(LayerNormTest, backends);
TUTTI_TEST_ON(LayerNormReferenceTest, reference_backends);

TEST_P(LayerNormTest, computes_a_hand_sized_case) {
    // Row {1, 3}: mean 2, variance 1, and with eps 3 the scale is 1/2. Row {5, 5}: variance 0.
    auto x = tensor({2, 2}, {1, 3, 5, 5}), gamma = tensor({2}, {2, 4}), beta = tensor({2}, {10, 20});
    auto y = tensor({2, 2});
    TestTensor statistics(DType::f64, {2, 2});
    ops_->layer_norm_forward(x.view(), gamma.view(), beta.view(), 3, y.view(), statistics.view());
    expect_equal(y, {9, 22, 10, 20});
    expect_near(statistics.values(), {2, 0.5, 5, 1 / std::sqrt(3.0)}, 4 * unit_roundoff_);

    // First row: x̂ = ∓1/2, g = dy·gamma = {2, 4}, mean(g) = 3, mean(g·x̂) = 1/2. Second row: g = {8, 8}
    // has no part that changes x̂.
    auto dy = tensor({2, 2}, {1, 1, 4, 2}), dx = tensor({2, 2}), dgamma = tensor({2}), dbeta = tensor({2});
    ops_->layer_norm_backward(x.view(), gamma.view(), statistics.view(), dy.view(), dx.view(), dgamma.view(),
                              dbeta.view());
    expect_equal(dx, {-0.375, 0.375, 0, 0});
    expect_equal(dgamma, {-0.5, 0.5});
    expect_equal(dbeta, {5, 3});
}

TEST_P(LayerNormTest, agrees_with_fp64_up_to_its_rounding) {
    EigenOps<double> reference;
    for (const auto& [rows, width] : {std::pair{1L, 1L}, {1L, 37L}, {3L, 128L}, {500L, 100L}}) {
        SCOPED_TRACE(testing::Message() << rows << " x " << width);
        const Results mine = run(*ops_, dtype_, rows, width);
        const Results expected = run(reference, DType::f64, rows, width);
        // A few roundings per element; sums over the rows in dgamma and dbeta.
        const double tolerance = 64 * unit_roundoff_;
        expect_near(mine.y.values(), expected.y.values(), tolerance);
        if (width > 1) expect_near(mine.dx.values(), expected.dx.values(), tolerance);
        const double sums = tolerance * static_cast<double>(rows);
        expect_near(mine.dgamma.values(), expected.dgamma.values(), sums);
        expect_near(mine.dbeta.values(), expected.dbeta.values(), sums);
    }
}

TEST_P(LayerNormTest, loses_no_digits_to_a_large_mean) {
    EigenOps<double> reference;
    const Results mine = run(*ops_, dtype_, 4, 64, 1000);
    // Only the rounding of the mean is left: of 64 additions at most, each of 1000 units where the values
    // differ by about 0.6. Σx² − (Σx)² would lose a million units.
    expect_near(mine.y.values(), run(reference, DType::f64, 4, 64, 1000).y.values(),
                64 * 1000 / 0.6 * unit_roundoff_);
}

TEST_P(LayerNormTest, skips_an_undefined_input_gradient) {
    auto x = tensor({1, 2}, {1, 3}), gamma = tensor({2}, {2, 4}), dy = tensor({1, 2}, {1, 1});
    auto dgamma = tensor({2}), dbeta = tensor({2});
    TestTensor statistics(DType::f64, {1, 2}, {2, 0.5});
    ops_->layer_norm_backward(x.view(), gamma.view(), statistics.view(), dy.view(), {}, dgamma.view(),
                              dbeta.view());
    expect_equal(dgamma, {-0.5, 0.5});
    expect_equal(dbeta, {1, 1});
}

TEST_P(LayerNormTest, adds_to_the_input_gradient) {
    auto x = tensor({2, 2}, {1, 3, 5, 5}), gamma = tensor({2}, {2, 4}), dy = tensor({2, 2}, {1, 1, 4, 2});
    auto addend = tensor({2, 2}, {10, 20, 30, 40}), dx = tensor({2, 2});
    TestTensor statistics(DType::f64, {2, 2}, {2, 0.5, 5, 0.5});
    // Without it: {-0.375, 0.375, 0, 0}, as above.
    for (const bool in_place : {false, true}) {
        SCOPED_TRACE(in_place);
        auto dgamma = tensor({2}), dbeta = tensor({2});
        TestTensor& to = in_place ? addend : dx;
        ops_->layer_norm_backward(x.view(), gamma.view(), statistics.view(), dy.view(), to.view(),
                                  dgamma.view(), dbeta.view(), addend.view());
        expect_equal(to, {9.625, 20.375, 30, 40});
        expect_equal(dgamma, {-0.5, 0.5});
        expect_equal(dbeta, {5, 3});
    }
}

TEST_P(LayerNormTest, an_empty_batch_has_zero_gradients) {
    auto x = tensor({0, 3}), gamma = random({3}, 1), beta = random({3}, 2), dgamma = tensor({3}),
         dbeta = tensor({3});
    TestTensor statistics(DType::f64, {0, 2});
    ops_->layer_norm_forward(x.view(), gamma.view(), beta.view(), 1e-5, x.view(), statistics.view());
    ops_->layer_norm_backward(x.view(), gamma.view(), statistics.view(), x.view(), x.view(), dgamma.view(),
                              dbeta.view());
    expect_equal(dgamma, {0, 0, 0});
    expect_equal(dbeta, {0, 0, 0});
}

TEST_P(LayerNormTest, gives_the_same_bits_each_time) {
    const Results first = run(*ops_, dtype_, 700, 96), second = run(*ops_, dtype_, 700, 96);
    EXPECT_EQ(first.y.bytes(), second.y.bytes());
    EXPECT_EQ(first.dx.bytes(), second.dx.bytes());
    EXPECT_EQ(first.dgamma.bytes(), second.dgamma.bytes());
    EXPECT_EQ(first.dbeta.bytes(), second.dbeta.bytes());
}

TEST_P(LayerNormReferenceTest, gradients_agree_with_finite_differences) {
    auto x = random({3, 5}, 1), gamma = random({5}, 2), beta = random({5}, 3), dy = random({3, 5}, 4);
    auto y = tensor({3, 5}), dx = tensor({3, 5}), dgamma = tensor({5}), dbeta = tensor({5});
    TestTensor statistics(DType::f64, {3, 2});
    const auto loss = [&] {
        ops_->layer_norm_forward(x.view(), gamma.view(), beta.view(), 1e-2, y.view(), statistics.view());
        return dot(y, dy);
    };
    loss();
    ops_->layer_norm_backward(x.view(), gamma.view(), statistics.view(), dy.view(), dx.view(), dgamma.view(),
                              dbeta.view());
    // Truncation step²/6 times a third derivative below 100, rounding 1e-16/step.
    expect_near(dx.values(), numeric_gradient(x, 1e-5, loss), 1e-8);
    expect_near(dgamma.values(), numeric_gradient(gamma, 1e-5, loss), 1e-9);
    expect_near(dbeta.values(), numeric_gradient(beta, 1e-5, loss), 1e-9);
}

}  // namespace
}  // namespace tutti::test
