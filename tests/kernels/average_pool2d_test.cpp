#include "backend.hpp"
#include "tutti/base/error.hpp"

namespace tutti::test {
namespace {

class AveragePool2dTest : public KernelTest {};
class AveragePool2dReferenceTest : public KernelTest {};
TUTTI_TEST_ON(AveragePool2dTest, backends);
TUTTI_TEST_ON(AveragePool2dReferenceTest, reference_backends);

// Overlapping windows of unequal sizes, as adaptive pooling from 3 to 2 makes them.
const AveragePool2dShape three_to_two{3, 3, 2, {{0, 2, 2}, {1, 3, 2}}, {{0, 2, 2}, {1, 3, 2}}};

TEST_P(AveragePool2dTest, averages_windows_and_spreads_gradients) {
    auto x = tensor({1, 3, 3, 2}, {1, 10, 2, 20, 3, 30, 4, 40, 5, 50, 6, 60, 7, 70, 8, 80, 9, 90});
    auto y = tensor({1, 2, 2, 2}), dx = tensor({1, 3, 3, 2});
    const auto op = ops_->average_pool2d(three_to_two);
    op->forward(x.view(), y.view());
    expect_equal(y, {3, 30, 4, 40, 6, 60, 7, 70});
    auto dy = tensor({1, 2, 2, 2}, {4, 0, 8, 0, 12, 0, 16, 4});
    op->backward(dy.view(), dx.view());
    expect_equal(dx, {1, 0, 3, 0, 2, 0, 4, 0, 10, 1, 6, 1, 3, 0, 7, 1, 4, 1});
}

TEST_P(AveragePool2dTest, divides_by_the_divisor_and_not_by_the_size) {
    auto x = tensor({1, 1, 2, 1}, {3, 6}), y = tensor({1, 1, 1, 1});
    ops_->average_pool2d({1, 2, 1, {{0, 1, 3}}, {{0, 2, 3}}})->forward(x.view(), y.view());
    expect_equal(y, {1});
}

TEST_P(AveragePool2dTest, takes_batches_of_any_size) {
    const auto op = ops_->average_pool2d(three_to_two);
    auto two = random({2, 3, 3, 2}, 1), y2 = tensor({2, 2, 2, 2});
    op->forward(two.view(), y2.view());
    for (const std::int64_t batch : {0, 1}) {
        auto x = tensor({batch, 3, 3, 2}), y = tensor({batch, 2, 2, 2}), dx = tensor({batch, 3, 3, 2});
        for (std::size_t i = 0; i < x.size(); ++i) x.set(i, two.get(i));
        op->forward(x.view(), y.view());
        for (std::size_t i = 0; i < y.size(); ++i) EXPECT_EQ(y.get(i), y2.get(i));
        op->backward(y.view(), dx.view());
    }
}

TEST_P(AveragePool2dTest, refuses_windows_outside_the_image) {
    EXPECT_THROW(ops_->average_pool2d({2, 2, 1, {{0, 3, 3}}, {{0, 1, 1}}}), UsageError);
    EXPECT_THROW(ops_->average_pool2d({2, 2, 1, {{0, 1, 1}}, {{1, 1, 1}}}), UsageError);
}

TEST_P(AveragePool2dTest, a_large_image_is_averaged_in_threads) {
    auto x = random({3, 40, 40, 17}, 1), y = tensor({3, 1, 1, 17});
    ops_->average_pool2d({40, 40, 17, {{0, 40, 40}}, {{0, 40, 40}}})->forward(x.view(), y.view());
    std::vector<double> expected(y.size());
    for (std::size_t i = 0; i < x.size(); ++i) expected[i / (1600 * 17) * 17 + i % 17] += x.get(i) / 1600;
    expect_near(y.values(), expected, 1600 * unit_roundoff_);
}

TEST_P(AveragePool2dReferenceTest, the_gradient_agrees_with_finite_differences) {
    auto x = random({2, 3, 3, 2}, 1), dy = random({2, 2, 2, 2}, 2);
    auto y = tensor({2, 2, 2, 2}), dx = tensor({2, 3, 3, 2});
    const auto op = ops_->average_pool2d(three_to_two);
    op->backward(dy.view(), dx.view());
    const auto loss = [&] {
        op->forward(x.view(), y.view());
        return dot(y, dy);
    };
    expect_near(dx.values(), numeric_gradient(x, 1e-3, loss), 1e-11);
}

}  // namespace
}  // namespace tutti::test
