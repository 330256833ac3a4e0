#include "onednn_row_linear.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "linear_case.hpp"
#include "operand_rows.hpp"

namespace tutti {
namespace {

using test::linear::LinearCase, test::linear::Threads;

test::linear::Results dealt(LinearCase& of, OnednnRowLinear& op) {
    return of.by(
        [&](auto x, auto weight, auto bias, auto y) {
            if (op.takes_forward(of.batch)) return op.forward(x, weight, bias, y);
            auto expected = of.by_definition(false).y;  // another way's
            std::copy(expected.begin(), expected.end(), y.template as<float>());
        },
        [&](auto x, auto weight, auto, auto... others) { op.backward(x, weight, others...); });
}

/// So many rows of each thread that they are dealt with any instruction set.
class RowLinear : public testing::Test {
  protected:
    void SetUp() override {
        if (!spreads_rows() && !library_has_avx512()) GTEST_SKIP() << "neither AVX2 nor AVX-512";
    }
    const std::shared_ptr<OnednnContext> context_ = std::make_shared<OnednnContext>();
};

// Also with rows that blocks do not divide evenly, and with weights whose rows are copied apart (512).
TEST_F(RowLinear, agrees_with_the_definition_whatever_the_number_of_threads) {
    for (const LinearShape& shape :
         {LinearShape{.in = 50, .out = 70}, LinearShape{96, 40, false}, LinearShape{512, 32}}) {
        OnednnRowLinear op(shape, context_);
        for (const std::int64_t batch : {4023, 5700})
            for (const int threads : {2, 3, 5, 2}) {
                SCOPED_TRACE(testing::Message() << threads << " threads, " << batch << " rows");
                const Threads limit(threads);
                LinearCase one{shape, batch};
                ASSERT_TRUE(op.takes(batch));
                EXPECT_EQ(dealt(one, op), one.by_definition(false));
            }
    }
}

TEST_F(RowLinear, has_the_same_bits_in_every_call_and_with_no_gradient_for_its_input) {
    const LinearShape shape{.in = 130, .out = 96};
    const Threads limit(3);
    LinearCase one{shape, 2500};
    for (auto* values : {&one.x, &one.weight, &one.bias, &one.dy})
        for (float& value : *values) value /= 3;  // sums that are rounded
    OnednnRowLinear op(shape, context_);
    const test::linear::Results first = dealt(one, op);
    for (int call = 0; call < 20; ++call) ASSERT_EQ(dealt(one, op), first);
    test::linear::Results without = first;
    std::ranges::fill(without.dweight, -1.0f);
    op.backward(test::linear::view(one.x, {2500, shape.in}),
                test::linear::view(one.weight, {shape.out, shape.in}),
                test::linear::view(one.dy, {2500, shape.out}), {},
                test::linear::view(without.dweight, {shape.out, shape.in}),
                test::linear::view(without.dbias, {shape.out}), nullptr);
    EXPECT_EQ(without, first);
}

TEST_F(RowLinear, leaves_one_thread_few_rows_and_large_layers_to_others) {
    const OnednnRowLinear layer({.in = 128, .out = 512}, context_), large({.in = 768, .out = 3072}, context_);
    {
        const Threads limit(1);
        EXPECT_FALSE(layer.takes(3200));
    }
    const Threads limit(2);
    EXPECT_TRUE(layer.takes(3200));
    EXPECT_EQ(layer.takes_forward(3200), spreads_rows());
    EXPECT_FALSE(layer.takes(200));
    EXPECT_FALSE(large.takes(3200));
}

}  // namespace
}  // namespace tutti
