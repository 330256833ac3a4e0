// Products of linear layers by our own instructions: rows that fill blocks and do not, slabs of columns that
// are full and not.
#include "bf16_linear.hpp"

#include <omp.h>

#include "amx_products.hpp"
#include "backend.hpp"
#include "bf16_reference.hpp"
#include "op_case.hpp"
#include "reference.hpp"

namespace tutti::test {
namespace {

class Bf16Linear : public Bf16KernelTest {};

struct LinearCase : OpCase<LinearShape> {
    using OpCase::OpCase;
    void run() {
        bf16_linear_forward(shape, batch, data(x), data(weight), if_biased(bias), data(y), workspace);
        std::vector<std::uint16_t> gradient(dy.size());
        for (std::size_t i = 0; i < dy.size(); ++i) gradient[i] = bf16_bits(dy.get(i));
        bf16_linear_backward_data(shape, batch, gradient.data(), data(weight), data(dx), workspace);
    }
};

TEST_F(Bf16Linear, is_the_definition_on_rounded_inputs) {
    for (const LinearShape& shape :
         {LinearShape{.in = 16, .out = 16}, LinearShape{.in = 144, .out = 80, .bias = false},
          LinearShape{.in = 48, .out = 208}, LinearShape{.in = 64, .out = 128}})
        for (const std::int64_t rows : {1, 5, 48, 99}) {
            SCOPED_TRACE(testing::Message() << shape.in << " -> " << shape.out << ", rows " << rows);
            LinearCase one(shape, rows);
            one.run();
            const TestTensor weight = rounded(one.weight);
            expect_sums(one.y, reference_forward(shape, rows, rounded(one.x), weight, one.bias), 0x1p-24);
            expect_sums(one.dx, reference_backward(shape, rows, one.x, weight, rounded(one.dy)).dx, 0x1p-24);
        }
}

TEST_F(Bf16Linear, takes_weights_that_no_cache_holds) {
    const LinearShape shape{.in = 784, .out = 1040};
    for (const std::int64_t rows : {257, 300}) {
        LinearCase one(shape, rows);
        for (TestTensor* whole : {&one.x, &one.weight, &one.bias, &one.dy}) make_whole(*whole, 4);
        one.run();
        expect_exactly(one.y, one.expected_y());
        expect_exactly(one.dx, one.expected().dx);
    }
}

TEST_F(Bf16Linear, has_the_same_bits_with_any_number_of_threads) {
    const LinearShape shape{.in = 144, .out = 80};
    LinearCase one(shape, 500), other(shape, 500);
    expect_the_bits_of_one_thread(one, other, {2, 3, 5});
}

TEST_F(Bf16Linear, rows_have_the_same_bits_in_calls_of_more_and_of_fewer) {
    const LinearShape shape{.in = 144, .out = 80};
    LinearCase all(shape, 200);
    all.run();
    for (const std::int64_t rows : {1, 7, 50, 149})
        for (const std::int64_t first : {std::int64_t{0}, std::int64_t{3}, 200 - rows}) {
            LinearCase some(shape, rows);
            const auto copy = [&](TestTensor& to, const TestTensor& from, std::int64_t width) {
                for (std::int64_t i = 0; i < rows * width; ++i)
                    to.set(static_cast<std::size_t>(i),
                           from.get(static_cast<std::size_t>(first * width + i)));
            };
            copy(some.x, all.x, shape.in);
            copy(some.dy, all.dy, shape.out);
            some.run();
            TestTensor y = some.y, dx = some.dx;
            copy(y, all.y, shape.out);
            copy(dx, all.dx, shape.in);
            EXPECT_EQ(some.y.bytes(), y.bytes()) << rows << " rows from " << first;
            EXPECT_EQ(some.dx.bytes(), dx.bytes()) << rows << " rows from " << first;
        }
}

TEST_F(Bf16Linear, takes_whole_vectors_only_and_gradients_of_many_rows) {
    EXPECT_TRUE(takes_bf16_linear({.in = 144, .out = 80}));
    EXPECT_FALSE(takes_bf16_linear({.in = 150, .out = 80}));
    EXPECT_FALSE(takes_bf16_linear({.in = 144, .out = 10}));
    EXPECT_EQ(takes_bf16_linear({.in = 2048, .out = 80}), has_amx_products());
    EXPECT_TRUE(takes_bf16_linear_backward({.in = 144, .out = 80}, 3200));
    EXPECT_EQ(takes_bf16_linear_backward({.in = 144, .out = 80}, 64), has_amx_products());
    EXPECT_FALSE(takes_bf16_linear_backward({.in = 144, .out = 80}, 8));
    EXPECT_FALSE(takes_bf16_linear_backward({.in = 150, .out = 80}, 3200));
}

}  // namespace
}  // namespace tutti::test
