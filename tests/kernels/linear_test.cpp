#include <limits>

#include "backend.hpp"
#include "reference.hpp"
#include "tutti/base/error.hpp"

namespace tutti::test {
namespace {

class LinearTest : public KernelTest {
  protected:
    /// A forward and a backward on random values from the seeds behind `seed`.
    void expect_the_definition(LinearOp& op, const LinearShape& shape, std::int64_t batch, unsigned seed) {
        SCOPED_TRACE(testing::Message() << shape.in << " -> " << shape.out << ", batch " << batch);
        const Extents extents(shape, batch);
        auto x = random(extents.x, ++seed), weight = random(extents.weight, ++seed);
        auto bias = random(extents.bias, ++seed), dy = random(extents.y, ++seed);
        auto y = tensor(extents.y), dx = tensor(extents.x);
        auto dweight = tensor(extents.weight), dbias = tensor(extents.bias);
        op.forward(x.view(), weight.view(), shape.bias ? bias.view() : TensorView{}, y.view());
        op.backward(x.view(), weight.view(), dy.view(), dx.view(), dweight.view(),
                    shape.bias ? dbias.view() : TensorView{});
        expect_sums(y, reference_forward(shape, batch, x, weight, bias), unit_roundoff_);
        const Gradients expected = reference_backward(shape, batch, x, weight, dy);
        expect_sums(dx, expected.dx, unit_roundoff_);
        expect_sums(dweight, expected.dweight, unit_roundoff_);
        if (shape.bias) expect_sums(dbias, expected.dbias, unit_roundoff_);
    }
};
class LinearReferenceTest : public KernelTest {};
TUTTI_TEST_ON(LinearTest, backends);
TUTTI_TEST_ON(LinearReferenceTest, reference_backends);

TEST_P(LinearTest, computes_a_hand_sized_case) {
    auto op = ops_->linear({.in = 3, .out = 2});
    auto x = tensor({2, 3}, {1, 2, 3, -1, 0, 4});
    auto weight = tensor({2, 3}, {1, 0, 2, -1, 3, 1});
    auto bias = tensor({2}, {10, 20});
    auto y = tensor({2, 2});
    op->forward(x.view(), weight.view(), bias.view(), y.view());
    expect_equal(y, {17, 28, 17, 25});

    auto dy = tensor({2, 2}, {1, 2, 3, -1});
    auto dx = tensor({2, 3}), dweight = tensor({2, 3}), dbias = tensor({2});
    op->backward(x.view(), weight.view(), dy.view(), dx.view(), dweight.view(), dbias.view());
    expect_equal(dx, {-1, 6, 4, 4, -3, 5});
    expect_equal(dweight, {-2, 2, 15, 3, 4, 2});
    expect_equal(dbias, {4, 1});
}

TEST_P(LinearTest, agrees_with_the_definition_while_the_batch_size_changes) {
    for (const LinearShape& shape :
         {LinearShape{.in = 7, .out = 5}, LinearShape{.in = 1, .out = 1},
          LinearShape{.in = 64, .out = 33, .bias = false}, LinearShape{.in = 100, .out = 130}}) {
        auto op = ops_->linear(shape);
        unsigned seed = 1;
        for (const std::int64_t batch : {4, 1, 33, 4, 1}) {
            expect_the_definition(*op, shape, batch, seed);
            seed += 4;
        }
    }
}

// Several threads deal layers of so many weights and so few rows among each other by features.
TEST_P(LinearTest, agrees_with_the_definition_where_weights_outnumber_activations) {
    for (const LinearShape& shape :
         {LinearShape{.in = 100, .out = 130}, LinearShape{.in = 96, .out = 144, .bias = false}}) {
        auto op = ops_->linear(shape);
        unsigned seed = 1;
        for (const std::int64_t batch : {41, 1, 60, 41}) {
            SCOPED_TRACE(testing::Message() << shape.in << " -> " << shape.out << ", batch " << batch);
            const Extents extents(shape, batch);
            auto x = random(extents.x, ++seed), weight = random(extents.weight, ++seed);
            auto bias = random(extents.bias, ++seed), dy = random(extents.y, ++seed);
            auto y = tensor(extents.y), dx = tensor(extents.x);
            op->forward(x.view(), weight.view(), shape.bias ? bias.view() : TensorView{}, y.view());
            expect_sums(y, reference_forward(shape, batch, x, weight, bias), unit_roundoff_);
            const Gradients expected = reference_backward(shape, batch, x, weight, dy);
            for (const bool first_layer : {false, true}) {
                auto dweight = tensor(extents.weight), dbias = tensor(extents.bias);
                int finals = 0;
                const ParametersFinal count = [&] { ++finals; };
                op->backward(x.view(), weight.view(), dy.view(), first_layer ? TensorView{} : dx.view(),
                             dweight.view(), shape.bias ? dbias.view() : TensorView{}, &count);
                EXPECT_LE(finals, 1);
                expect_sums(dweight, expected.dweight, unit_roundoff_);
                if (shape.bias) expect_sums(dbias, expected.dbias, unit_roundoff_);
            }
            expect_sums(dx, expected.dx, unit_roundoff_);
        }
    }
}

// So many rows that oneDNN computes the weight gradients in another way.
TEST_P(LinearTest, agrees_with_the_definition_over_many_rows) {
    for (const LinearShape& shape :
         {LinearShape{.in = 7, .out = 5}, LinearShape{.in = 16, .out = 33, .bias = false}}) {
        constexpr std::int64_t batch = 1025;
        SCOPED_TRACE(testing::Message() << shape.in << " -> " << shape.out);
        const Extents extents(shape, batch);
        auto x = random(extents.x, 1), weight = random(extents.weight, 2), dy = random(extents.y, 3);
        auto dx = tensor(extents.x), dweight = tensor(extents.weight), dbias = tensor(extents.bias);
        ops_->linear(shape)->backward(x.view(), weight.view(), dy.view(), dx.view(), dweight.view(),
                                      shape.bias ? dbias.view() : TensorView{});
        const Gradients expected = reference_backward(shape, batch, x, weight, dy);
        expect_sums(dx, expected.dx, unit_roundoff_);
        expect_sums(dweight, expected.dweight, unit_roundoff_);
        if (shape.bias) expect_sums(dbias, expected.dbias, unit_roundoff_);
    }
}

// Wide layers, whose products are our own where the instruction set has the vectors: several threads deal
// their features with few rows, and their rows with many. Rows that lie a power of two apart are copied.
TEST_P(LinearTest, agrees_with_the_definition_in_wide_layers) {
    for (const LinearShape& shape :
         {LinearShape{.in = 528, .out = 288}, LinearShape{.in = 512, .out = 304, .bias = false},
          LinearShape{.in = 256, .out = 512}}) {
        auto op = ops_->linear(shape);
        for (const std::int64_t batch : {41, 96, 200, 3}) {
            expect_the_definition(*op, shape, batch, 0);
        }
    }
}

// At sizes that threads deal by features, that are tiles, and that are neither.
TEST_P(LinearTest, with_relu_has_the_bits_of_linear_and_relu) {
    for (const LinearShape& shape :
         {LinearShape{.in = 528, .out = 288}, LinearShape{.in = 100, .out = 130, .bias = false},
          LinearShape{.in = 96, .out = 144}, LinearShape{.in = 7, .out = 5}}) {
        auto linear = ops_->linear(shape);
        auto fused = ops_->relu_linear(shape);
        if (!fused) GTEST_SKIP() << "the two one after the other";
        for (const std::int64_t batch : {41, 200, 1, 41}) {
            SCOPED_TRACE(testing::Message() << shape.in << " -> " << shape.out << ", batch " << batch);
            const Extents extents(shape, batch);
            auto x = random(extents.x, 1), weight = random(extents.weight, 2), bias = random(extents.bias, 3);
            auto dy = random(extents.y, 4), masked = tensor(extents.y);
            x.set(0, std::numeric_limits<double>::quiet_NaN());
            const TensorView bias_view = shape.bias ? bias.view() : TensorView{};
            struct Results {
                TestTensor y, dx, dweight, dbias;
            };
            const auto results = [&] {
                return Results{tensor(extents.y), tensor(extents.x), tensor(extents.weight),
                               tensor(extents.bias)};
            };
            Results expected = results(), r = results();
            const auto dbias_of = [&](Results& of) { return shape.bias ? of.dbias.view() : TensorView{}; };
            linear->forward(x.view(), weight.view(), bias_view, expected.y.view());
            ops_->relu_forward(expected.y.view(), expected.y.view());
            fused->forward(x.view(), weight.view(), bias_view, r.y.view());
            EXPECT_EQ(r.y.bytes(), expected.y.bytes());
            x.set(0, 1);
            ops_->relu_backward(r.y.view(), dy.view(), masked.view());
            linear->backward(x.view(), weight.view(), masked.view(), expected.dx.view(),
                             expected.dweight.view(), dbias_of(expected));
            fused->backward(x.view(), weight.view(), r.y.view(), dy.view(), r.dx.view(), r.dweight.view(),
                            dbias_of(r));
            EXPECT_EQ(r.dx.bytes(), expected.dx.bytes());
            EXPECT_EQ(r.dweight.bytes(), expected.dweight.bytes());
            EXPECT_EQ(r.dbias.bytes(), expected.dbias.bytes());
        }
    }
}

TEST_P(LinearTest, skips_an_undefined_input_gradient) {
    auto op = ops_->linear({.in = 2, .out = 1});
    auto x = tensor({1, 2}, {3, 4}), weight = tensor({1, 2}, {1, 1}), dy = tensor({1, 1}, {2});
    auto dweight = tensor({1, 2}), dbias = tensor({1});
    op->backward(x.view(), weight.view(), dy.view(), {}, dweight.view(), dbias.view());
    expect_equal(dweight, {6, 8});
    expect_equal(dbias, {2});
}

TEST_P(LinearTest, an_empty_batch_has_zero_gradients) {
    auto op = ops_->linear({.in = 3, .out = 2});
    auto x = tensor({0, 3}), dx = tensor({0, 3}), y = tensor({0, 2});
    auto weight = random({2, 3}, 1), bias = random({2}, 2), dweight = tensor({2, 3}), dbias = tensor({2});
    op->forward(x.view(), weight.view(), bias.view(), y.view());
    op->backward(x.view(), weight.view(), y.view(), dx.view(), dweight.view(), dbias.view());
    expect_equal(dweight, std::vector<double>(6, 0.0));
    expect_equal(dbias, {0, 0});
}

TEST_P(LinearTest, gives_the_same_bits_each_time) {
    const LinearShape shape{.in = 300, .out = 200};
    const Extents extents(shape, 64);
    auto x = random(extents.x, 1), weight = random(extents.weight, 2), bias = random(extents.bias, 3);
    auto dy = random(extents.y, 4);
    std::vector<TestTensor::Bytes> runs[2];
    for (auto& results : runs) {
        auto op = ops_->linear(shape);
        auto y = tensor(extents.y), dx = tensor(extents.x), dweight = tensor(extents.weight),
             dbias = tensor(extents.bias);
        op->forward(x.view(), weight.view(), bias.view(), y.view());
        op->backward(x.view(), weight.view(), dy.view(), dx.view(), dweight.view(), dbias.view());
        for (const TestTensor* result : {&y, &dx, &dweight, &dbias}) results.push_back(result->bytes());
    }
    for (std::size_t i = 0; i < runs[0].size(); ++i) EXPECT_EQ(runs[0][i], runs[1][i]);
}

TEST_P(LinearTest, refuses_a_shape_without_features) {
    EXPECT_THROW(ops_->linear({.in = 0, .out = 2}), UsageError);
    EXPECT_THROW(ops_->linear({.in = 2, .out = -1}), UsageError);
}

TEST_P(LinearReferenceTest, gradients_agree_with_finite_differences) {
    const LinearShape shape{.in = 4, .out = 3};
    const Extents extents(shape, 2);
    auto op = ops_->linear(shape);
    auto x = random(extents.x, 1), weight = random(extents.weight, 2), bias = random(extents.bias, 3);
    auto dy = random(extents.y, 4), y = tensor(extents.y);
    auto dx = tensor(extents.x), dweight = tensor(extents.weight), dbias = tensor(extents.bias);
    op->backward(x.view(), weight.view(), dy.view(), dx.view(), dweight.view(), dbias.view());
    const auto loss = [&] {
        op->forward(x.view(), weight.view(), bias.view(), y.view());
        return dot(y, dy);
    };
    // The loss is linear in each argument: only rounding, divided by the step, is left.
    expect_near(dx.values(), numeric_gradient(x, 0.01, loss), 1e-11);
    expect_near(dweight.values(), numeric_gradient(weight, 0.01, loss), 1e-11);
    expect_near(dbias.values(), numeric_gradient(bias, 0.01, loss), 1e-11);
}

}  // namespace
}  // namespace tutti::test
