// The update rules and arena operations of training recipes. Expected numbers of PyTorch come from
// tests/parity/make_recipe_numbers.py.
#include <cmath>
#include <limits>

#include "backend.hpp"

namespace tutti::test {
namespace {

class RecipeOpsTest : public KernelTest {
  protected:
    /// A step changes each value by a few operations on numbers of magnitude below 3. In fp32 the quotient of
    /// two small averages amplifies their rounding.
    double tolerance(int steps) const { return 40 * steps * unit_roundoff_; }

    std::vector<double> after_three_steps(const AdadeltaStep& step) {
        auto p = tensor({4}, start), v = tensor({4}, {0, 0, 0, 0}), u = v;
        for (const std::vector<double>& gradient : gradients) {
            auto g = tensor({4}, gradient);
            ops_->adadelta(step, g.view(), p.view(), v.view(), u.view());
        }
        return p.values();
    }
    void lamb(double lr, const LambStep& step, TestTensor& g, TestTensor& p, TestTensor& m, TestTensor& v) {
        TestTensor squares(DType::f64, {2});
        const TensorView both = squares.view();
        ops_->lamb_direction(step, g.view(), p.view(), m.view(), v.view(), g.view());
        ops_->sum_of_squares(p.view(), {both.data, DType::f64, {1}});
        ops_->sum_of_squares(g.view(), {both.data + sizeof(double), DType::f64, {1}});
        ops_->lamb_apply(lr, both, g.view(), p.view());
    }
    std::vector<double> after_three_steps(double lr, LambStep step) {
        auto p = tensor({4}, start), m = tensor({4}, {0, 0, 0, 0}), v = m;
        for (const std::vector<double>& gradient : gradients) {
            auto g = tensor({4}, gradient);
            lamb(lr, step, g, p, m, v);
            ++step.step;
        }
        return p.values();
    }
    double sum_of_squares(TestTensor& x) {
        TestTensor sum(DType::f64, {1});
        ops_->sum_of_squares(x.view(), sum.view());
        return sum.get(0);
    }

    const std::vector<double> start = {1.0, -0.5, 0.25, 2.0};
    const std::vector<double> gradients[3] = {
        {0.1, -0.2, 0.3, 0.0}, {0.5, 0.1, -0.3, -1.0}, {-0.2, 0.4, 0.0, 0.6}};
};
TUTTI_TEST_ON(RecipeOpsTest, backends);

TEST_P(RecipeOpsTest, adadelta_agrees_with_pytorch) {
    expect_near(after_three_steps(AdadeltaStep{}),
                {0.9948147229387976, -0.5032292410429431, 0.2500821414561169, 2.000771820092182},
                tolerance(3));
    expect_near(after_three_steps(AdadeltaStep{.lr = 0.5, .rho = 0.8, .eps = 1e-3, .weight_decay = 0.1}),
                {0.9327657640773898, -0.5176362583271381, 0.2452170804948443, 1.965329163196828},
                tolerance(3));
}

TEST_P(RecipeOpsTest, lamb_follows_algorithm_2) {
    expect_near(after_three_steps(0.01, LambStep{.weight_decay = 0.1}),
                {0.9496322928286858, -0.4953816818701084, 0.23838195261358722, 2.007057572528176},
                tolerance(3));
    expect_near(after_three_steps(0.1, LambStep{.beta1 = 0.8, .beta2 = 0.95, .eps = 1e-3}),
                {0.5851165710118196, -0.5156089965639148, 0.16547714393889307, 2.1856500177586087},
                tolerance(3));
}

TEST_P(RecipeOpsTest, lamb_trusts_a_parameter_of_zeros_and_an_update_of_zeros) {
    auto p = tensor({2}, {0, 0}), g = tensor({2}, {1, -1}), m = tensor({2}, {0, 0}), v = m;
    lamb(0.1, {}, g, p, m, v);
    expect_near(p.values(), {-0.1, 0.1}, 1e-5);  // ratio 1; the first update is ±1
    auto still = tensor({2}, {3, 4}), none = tensor({2}, {0, 0}), zero_m = none, zero_v = none;
    lamb(0.1, {}, none, still, zero_m, zero_v);
    expect_equal(still, {3, 4});
}

TEST_P(RecipeOpsTest, adadelta_updates_every_element_that_threads_share) {
    auto p = random({50021}, 1), v = tensor({50021}), u = tensor({50021});
    ops_->fill(v.view(), 0);
    ops_->fill(u.view(), 0);
    std::vector<double> expected = p.values(), square(p.size()), delta(p.size());
    for (unsigned t = 1; t <= 3; ++t) {
        auto g = random({50021}, 10 + t);
        for (std::size_t i = 0; i < p.size(); ++i) {
            square[i] = 0.9 * square[i] + 0.1 * g.get(i) * g.get(i);
            const double step = std::sqrt(delta[i] + 1e-3) / std::sqrt(square[i] + 1e-3) * g.get(i);
            delta[i] = 0.9 * delta[i] + 0.1 * step * step;
            expected[i] -= 0.5 * step;
        }
        ops_->adadelta({.lr = 0.5, .eps = 1e-3}, g.view(), p.view(), v.view(), u.view());
    }
    expect_near(p.values(), expected, tolerance(3));
}

TEST_P(RecipeOpsTest, the_sum_of_squares_of_nothing_is_0) {
    auto x = tensor({0});
    EXPECT_EQ(sum_of_squares(x), 0.0);
}

TEST_P(RecipeOpsTest, the_sum_of_squares_counts_every_element_once) {
    for (const std::int64_t count : {1, 7, 8, 4095, 4096, 4097, 50021}) {
        auto x = tensor({count});
        ops_->fill(x.view(), 3);
        EXPECT_EQ(sum_of_squares(x), 9.0 * static_cast<double>(count));
    }
}

TEST_P(RecipeOpsTest, the_sum_of_squares_is_made_in_double) {
    auto x = tensor({3}, {1e30, 0, 0});
    const double rounded = x.get(0);  // 1e30 in the type at hand
    EXPECT_EQ(sum_of_squares(x), rounded * rounded);
}

TEST_P(RecipeOpsTest, the_sum_of_squares_has_the_bits_of_the_documented_tree) {
    auto x = random({10000}, 5);
    const auto tree = [](std::vector<double> values) {
        while (values.size() > 1) {
            const std::size_t half = (values.size() + 1) / 2;
            for (std::size_t i = 0; i + half < values.size(); ++i) values[i] += values[i + half];
            values.resize(half);
        }
        return values[0];
    };
    std::vector<double> blocks;
    for (std::size_t begin = 0; begin < x.size(); begin += 4096) {
        std::vector<double> lanes(8);
        for (std::size_t i = begin; i < std::min(begin + 4096, x.size()); ++i)
            lanes[(i - begin) % 8] += x.get(i) * x.get(i);
        blocks.push_back(tree(lanes));
    }
    EXPECT_EQ(sum_of_squares(x), tree(blocks));
}

TEST_P(RecipeOpsTest, the_sum_of_squares_shows_what_is_not_finite) {
    auto nan = tensor({3}, {1, std::nan(""), 2}), infinite = tensor({2}, {1, HUGE_VAL});
    EXPECT_TRUE(std::isnan(sum_of_squares(nan)));
    EXPECT_TRUE(std::isinf(sum_of_squares(infinite)));
}

TEST_P(RecipeOpsTest, scale_multiplies_every_element) {
    auto x = tensor({3}, {1, -2, 0.5});
    ops_->scale(0.25, x.view());
    expect_equal(x, {0.25, -0.5, 0.125});
    auto many = tensor({50021});
    ops_->fill(many.view(), 3);
    ops_->scale(2, many.view());
    expect_equal(many, std::vector<double>(many.size(), 6.0));
}

TEST_P(RecipeOpsTest, lerp_agrees_with_pytorch) {
    auto x = tensor({2}, {3, 5}), y = tensor({2}, {1, -2});
    ops_->lerp(1 - 0.9, x.view(), y.view());
    expect_near(y.values(), {1.2, -1.3000000000000003}, tolerance(1));
    auto to = tensor({1}, {3.3}), from = tensor({1}, {1});
    ops_->lerp(0.75, to.view(), from.view());
    expect_near(from.values(), {2.7249999999999996}, tolerance(1));
}

TEST_P(RecipeOpsTest, lerp_with_weight_1_copies_and_with_0_keeps) {
    auto x = random({50021}, 1), y = random({50021}, 2);
    const auto before = y.bytes();
    ops_->lerp(0, x.view(), y.view());
    EXPECT_EQ(y.bytes(), before);
    ops_->lerp(1, x.view(), y.view());
    EXPECT_EQ(y.bytes(), x.bytes());
}

TEST_P(RecipeOpsTest, swap_exchanges_every_bit) {
    auto x = random({50021}, 1), y = random({50021}, 2);
    const auto was_x = x.bytes(), was_y = y.bytes();
    ops_->swap(x.view(), y.view());
    EXPECT_EQ(x.bytes(), was_y);
    EXPECT_EQ(y.bytes(), was_x);
}

class RankLabelsTest : public RecipeOpsTest {
  protected:
    struct Ranks {
        std::vector<std::int64_t> predicted, place;
    };
    Ranks rank(TestTensor logits, std::vector<std::int64_t> labels) {
        const Shape rows{static_cast<std::int64_t>(labels.size())};
        TestTensor wanted(DType::i64, rows, {labels.begin(), labels.end()});
        TestTensor predicted(DType::i64, rows), place(DType::i64, rows);
        ops_->rank_labels(logits.view(), wanted.view(), predicted.view(), place.view());
        const auto whole = [](const TestTensor& tensor) {
            const std::vector<double> values = tensor.values();
            return std::vector<std::int64_t>(values.begin(), values.end());
        };
        return {whole(predicted), whole(place)};
    }
};
TUTTI_TEST_ON(RankLabelsTest, backends);

TEST_P(RankLabelsTest, finds_the_maximum_and_the_place_of_the_label) {
    const Ranks ranks = rank(tensor({4, 4}, {1, 4, 3, 2, 1, 4, 3, 2, 1, 4, 3, 2, 1, 4, 3, 2}), {0, 1, 2, 3});
    EXPECT_EQ(ranks.predicted, (std::vector<std::int64_t>{1, 1, 1, 1}));
    EXPECT_EQ(ranks.place, (std::vector<std::int64_t>{3, 0, 1, 2}));
}

TEST_P(RankLabelsTest, puts_the_first_of_equals_first) {
    const Ranks ranks = rank(tensor({3, 3}, {2, 2, 2, 2, 2, 2, 2, 2, 2}), {0, 1, 2});
    EXPECT_EQ(ranks.predicted, (std::vector<std::int64_t>{0, 0, 0}));
    EXPECT_EQ(ranks.place, (std::vector<std::int64_t>{0, 1, 2}));
}

TEST_P(RankLabelsTest, predicts_no_class_of_a_row_whose_maximum_is_not_finite) {
    const double nan = std::nan(""), inf = std::numeric_limits<double>::infinity();
    const Ranks ranks =
        rank(tensor({5, 3}, {1, nan, 3, nan, nan, nan, inf, 2, inf, -inf, -inf, -inf, 1, -inf, 3}),
             {1, 0, 0, 0, 2});
    EXPECT_EQ(ranks.predicted, (std::vector<std::int64_t>{-1, -1, -1, -1, 2}));
    EXPECT_EQ(ranks.place, (std::vector<std::int64_t>{3, 3, 3, 3, 0}));
}

TEST_P(RankLabelsTest, of_no_rows_does_nothing) {
    EXPECT_TRUE(rank(tensor({0, 3}), {}).place.empty());
}

TEST_P(RankLabelsTest, ranks_every_row_that_threads_share) {
    const std::int64_t rows = 9000;
    TestTensor logits = random({rows, 10}, 3);
    std::vector<std::int64_t> labels(static_cast<std::size_t>(rows));
    for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<std::int64_t>(i % 10);
    const Ranks ranks = rank(logits, labels);
    for (std::size_t i = 0; i < labels.size(); ++i) {
        std::int64_t greater = 0;
        for (std::size_t k = 0; k < 10; ++k)
            greater += logits.get(i * 10 + k) > logits.get(i * 10 + i % 10) ? 1 : 0;
        ASSERT_EQ(ranks.place[i], greater);
        ASSERT_EQ(ranks.predicted[i] == labels[i], greater == 0);
    }
}

}  // namespace
}  // namespace tutti::test
