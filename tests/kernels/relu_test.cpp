#include "backend.hpp"

namespace tutti::test {
namespace {

class ReluTest : public KernelTest {};
TUTTI_TEST_ON(ReluTest, backends);

TEST_P(ReluTest, keeps_the_positive_and_passes_nan) {
    auto x = tensor({6}, {-1, 0, 2.5, nan, -infinity, infinity}), y = tensor({6});
    ops_->relu_forward(x.view(), y.view());
    expect_equal(y, {0, 0, 2.5, nan, 0, infinity});
}

TEST_P(ReluTest, passes_gradients_where_the_output_is_positive_or_nan) {
    auto y = tensor({5}, {0, 2, 0, 1e-30, nan}), dy = tensor({5}, {1, -3, nan, 4, 5}), dx = tensor({5});
    ops_->relu_backward(y.view(), dy.view(), dx.view());
    expect_equal(dx, {0, -3, 0, 4, 5});
}

TEST_P(ReluTest, works_in_place_at_a_size_that_threads_share) {
    auto x = random({50021}, 1), dy = random({50021}, 2);
    std::vector<double> y = x.values(), dx = dy.values();
    for (std::size_t i = 0; i < y.size(); ++i) {
        if (y[i] <= 0) y[i] = dx[i] = 0;
    }
    ops_->relu_forward(x.view(), x.view());
    ops_->relu_backward(x.view(), dy.view(), dy.view());
    expect_equal(x, y);
    expect_equal(dy, dx);
}

TEST_P(ReluTest, of_a_sum_has_the_bits_of_sum_and_relu) {
    for (const std::int64_t count : {7, 50021}) {
        auto a = random({count}, 1), b = random({count}, 2), dy = random({count}, 3);
        a.set(0, nan);
        a.set(1, infinity);
        auto y = tensor({count}), expected_y = tensor({count});
        auto da = tensor({count}), db = tensor({count}), expected = tensor({count});
        ops_->sum(a.view(), b.view(), expected_y.view());
        ops_->relu_forward(expected_y.view(), expected_y.view());
        ops_->relu_backward(expected_y.view(), dy.view(), expected.view());
        // In place on a, and the way of a backend without a pass of its own.
        auto in_place = a, dy_in_place = dy;
        ops_->sum_relu(in_place.view(), b.view(), in_place.view());
        EXPECT_EQ(in_place.bytes(), expected_y.bytes());
        ops_->Ops::sum_relu(a.view(), b.view(), y.view());
        EXPECT_EQ(y.bytes(), expected_y.bytes());
        ops_->sum_relu_backward(y.view(), dy_in_place.view(), dy_in_place.view(), db.view());
        EXPECT_EQ(dy_in_place.bytes(), expected.bytes());
        EXPECT_EQ(db.bytes(), expected.bytes());
        ops_->Ops::sum_relu_backward(y.view(), dy.view(), da.view(), dy.view());
        EXPECT_EQ(da.bytes(), expected.bytes());
        EXPECT_EQ(dy.bytes(), expected.bytes());
    }
}

TEST_P(ReluTest, accepts_an_empty_batch) {
    auto x = tensor({0, 3}), y = tensor({0, 3});
    ops_->relu_forward(x.view(), y.view());
    ops_->relu_backward(x.view(), y.view(), y.view());
}

}  // namespace
}  // namespace tutti::test
