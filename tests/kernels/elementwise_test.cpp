#include "backend.hpp"

namespace tutti::test {
namespace {

class ElementwiseTest : public KernelTest {};
TUTTI_TEST_ON(ElementwiseTest, backends);

TEST_P(ElementwiseTest, fill_sets_every_element) {
    for (const std::int64_t count : {0, 1, 5, 50021}) {
        auto x = tensor({count});
        ops_->fill(x.view(), 0.25);
        expect_equal(x, std::vector<double>(x.size(), 0.25));
    }
}

TEST_P(ElementwiseTest, add_accumulates) {
    auto x = tensor({3}, {1, -2, 0.5}), y = tensor({3}, {10, 20, 30});
    ops_->add(x.view(), y.view());
    expect_equal(y, {11, 18, 30.5});
}

TEST_P(ElementwiseTest, add_reaches_every_element_that_threads_share) {
    auto x = tensor({50021}), y = tensor({50021});
    ops_->fill(x.view(), 1);
    ops_->fill(y.view(), 2);
    ops_->add(x.view(), y.view());
    expect_equal(y, std::vector<double>(y.size(), 3.0));
}

TEST_P(ElementwiseTest, copies) {
    auto x = random({50021}, 1), y = tensor({50021}), empty = tensor({0});
    ops_->copy(x.view(), y.view());
    EXPECT_EQ(x.bytes(), y.bytes());
    ops_->copy(empty.view(), empty.view());
}

TEST_P(ElementwiseTest, sums_two_also_in_place_of_either) {
    auto a = tensor({3}, {1, 2, 3}), b = tensor({3}, {10, 20, 30}), y = tensor({3}), empty = tensor({0});
    ops_->sum(a.view(), b.view(), y.view());
    expect_equal(y, {11, 22, 33});
    ops_->sum(a.view(), y.view(), a.view());
    expect_equal(a, {12, 24, 36});
    ops_->sum(a.view(), b.view(), b.view());
    expect_equal(b, {22, 44, 66});
    ops_->sum(empty.view(), empty.view(), empty.view());
}

}  // namespace
}  // namespace tutti::test
