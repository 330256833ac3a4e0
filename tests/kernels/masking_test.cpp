#include <omp.h>

#include <cmath>

#include "masking_case.hpp"

namespace tutti::test {
namespace {

class MaskingTest : public MaskingCase {};
class MaskingReferenceTest : public MaskingCase {};
TUTTI_TEST_ON(MaskingTest, backends);
TUTTI_TEST_ON(MaskingReferenceTest, reference_backends);

TEST_P(MaskingTest, hides_the_places_with_the_least_of_the_addressed_numbers) {
    const DropoutAddress address{.seed = -7, .epoch = 4, .positions = three_positions};
    for (const TubeMask& mask : {TubeMask{1, 1, 0},
                                 {1, 8, 0},
                                 {4, 1, 3},
                                 {4, 2, 2},
                                 {49, 3, 0},
                                 {196, 8, 176},
                                 {196, 1, 147},
                                 {257, 2, 1},
                                 {1024, 1, 512},
                                 {1501, 2, 1400}}) {
        SCOPED_TRACE(testing::Message() << mask.places << " x " << mask.repeats << ", " << mask.hidden);
        const TestTensor order = order_of(address, mask);
        expect_equal(order, expected_order(address, mask));
    }
}

/// Known answers, from an independent Philox4x32-10 (in Python, checked with Random123's kat_vectors).
TEST_P(MaskingTest, has_known_answers) {
    const std::vector<std::int64_t> positions = {0, 1};
    expect_equal(order_of({.seed = 1, .epoch = 2, .positions = positions}, {8, 1, 5}),
                 {2, 3, 6, 0, 1, 4, 5, 7, 2, 6, 7, 0, 1, 3, 4, 5});
}

TEST_P(MaskingTest, a_mask_depends_on_seed_epoch_and_position_and_on_nothing_else) {
    const TubeMask mask{64, 1, 32};
    const auto draw = [&](std::int64_t seed, std::int64_t epoch, std::int64_t position, std::uint64_t layer) {
        const std::vector<std::int64_t> one = {position};
        return order_of({seed, epoch, one, layer}, mask).values();
    };
    const std::vector<double> first = draw(1, 2, 3, 0);
    EXPECT_EQ(draw(1, 2, 3, 5), first);
    EXPECT_NE(draw(2, 2, 3, 0), first);
    EXPECT_NE(draw(1, 3, 3, 0), first);
    EXPECT_NE(draw(1, 2, 4, 0), first);
    const std::vector<std::int64_t> two = {9, 3};
    const TestTensor both = order_of({.seed = 1, .epoch = 2, .positions = two}, mask);
    for (std::size_t i = 0; i < 64; ++i) EXPECT_EQ(both.get(64 + i), first[i]);
    order_of({.positions = {}}, mask);
}

TEST_P(MaskingTest, every_place_is_hidden_as_often) {
    constexpr std::int64_t samples = 4000, places = 20;
    const TestTensor order = drawn_order(samples, {places, 1, 15});
    std::vector<double> hidden(places);
    for (std::size_t i = 0; i < order.size(); ++i)
        if (i % places >= 5) ++hidden[static_cast<std::size_t>(order.get(i))];
    // Binomial with p = 3/4: a standard deviation of 27.4.
    for (const double count : hidden) EXPECT_NEAR(count, 3000, 5 * 27.4);
}

TEST_P(MaskingTest, taking_follows_the_order) {
    auto x = tensor({2, 3, 2}, {1, 2, 3, 4, 5, 6, 10, 20, 30, 40, 50, 60});
    auto order = indices({2, 3}, {2, 0, 1, 1, 2, 0});
    auto y = tensor({2, 2, 2}), all = tensor({2, 3, 2}), none = tensor({2, 0, 2});
    ops_->take_tokens(x.view(), order.view(), y.view());
    expect_equal(y, {5, 6, 1, 2, 30, 40, 50, 60});
    ops_->take_tokens(x.view(), order.view(), all.view());
    expect_equal(all, {5, 6, 1, 2, 3, 4, 30, 40, 50, 60, 10, 20});
    ops_->take_tokens(x.view(), order.view(), none.view());
    auto empty = tensor({0, 3, 2}), of_empty = tensor({0, 2, 2}), no_order = indices({0, 3}, {});
    ops_->take_tokens(empty.view(), no_order.view(), of_empty.view());
}

TEST_P(MaskingTest, filling_puts_the_mask_token_behind_the_visible_and_adds_their_positions) {
    auto x = tensor({2, 1, 2}, {1, 2, 3, 4}), token = tensor({2}, {50, 60});
    auto positions = tensor({3, 2}, {100, 200, 300, 400, 500, 600});
    auto order = indices({2, 3}, {2, 0, 1, 1, 0, 2});
    auto y = tensor({2, 3, 2}), two = tensor({2, 2, 2});
    ops_->fill_tokens_forward(x.view(), token.view(), positions.view(), order.view(), y.view());
    expect_equal(y, {501, 602, 150, 260, 350, 460, 303, 404, 150, 260, 550, 660});
    ops_->fill_tokens_forward(x.view(), token.view(), positions.view(), order.view(), two.view());
    expect_equal(two, {501, 602, 150, 260, 303, 404, 150, 260});

    auto dy = tensor({2, 3, 2}, {1, 2, 3, 4, 5, 6, 10, 20, 30, 40, 50, 60});
    auto dx = tensor({2, 1, 2}), dtoken = tensor({2});
    ops_->fill_tokens_backward(dy.view(), dx.view(), dtoken.view(), 1);
    expect_equal(dx, {1, 2, 10, 20});
    expect_equal(dtoken, {88, 110});
    dtoken = tensor({2});
    ops_->fill_tokens_backward(dy.view(), {}, dtoken.view(), 1);
    expect_equal(dtoken, {88, 110});
}

TEST_P(MaskingTest, without_hidden_tokens_positions_are_added_to_the_visible) {
    auto x = tensor({2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8}), y = tensor({2, 2, 2}), dx = tensor({2, 2, 2});
    auto positions = tensor({3, 2}, {100, 200, 300, 400, 500, 600});
    auto order = indices({2, 3}, {0, 2, 1, 1, 2, 0});
    ops_->fill_tokens_forward(x.view(), {}, positions.view(), order.view(), y.view());
    expect_equal(y, {101, 202, 503, 604, 305, 406, 507, 608});
    ops_->fill_tokens_backward(y.view(), dx.view(), {}, 2);
    expect_equal(dx, y.values());
}

TEST_P(MaskingTest, filling_with_nothing_visible_or_for_no_samples) {
    auto none = tensor({1, 0, 2}), token = tensor({2}, {5, 6}), positions = tensor({2, 2}, {10, 20, 30, 40});
    auto order = indices({1, 2}, {1, 0}), no_order = indices({0, 2}, {});
    auto y = tensor({1, 2, 2}), dtoken = tensor({2});
    ops_->fill_tokens_forward(none.view(), token.view(), positions.view(), order.view(), y.view());
    expect_equal(y, {35, 46, 15, 26});
    ops_->fill_tokens_backward(y.view(), none.view(), dtoken.view(), 0);
    expect_equal(dtoken, {50, 72});
    auto x = tensor({0, 1, 2}), filled = tensor({0, 2, 2});
    ops_->fill_tokens_forward(x.view(), token.view(), positions.view(), no_order.view(), filled.view());
    ops_->fill_tokens_backward(filled.view(), x.view(), dtoken.view(), 1);
    expect_equal(dtoken, {0, 0});
}

TEST_P(MaskingTest, last_tokens_and_their_gradients) {
    auto x = tensor({2, 3, 2}, {1, 2, 3, 4, 5, 6, 10, 20, 30, 40, 50, 60});
    auto y = tensor({2, 2, 2}), dx = tensor({2, 3, 2}), all = tensor({2, 3, 2}), none = tensor({2, 0, 2});
    ops_->last_tokens_forward(x.view(), y.view());
    expect_equal(y, {3, 4, 5, 6, 30, 40, 50, 60});
    ops_->last_tokens_backward(y.view(), dx.view());
    expect_equal(dx, {0, 0, 3, 4, 5, 6, 0, 0, 30, 40, 50, 60});
    ops_->last_tokens_forward(x.view(), all.view());
    expect_equal(all, x.values());
    ops_->last_tokens_backward(x.view(), dx.view());
    expect_equal(dx, x.values());
    ops_->last_tokens_forward(x.view(), none.view());
    ops_->last_tokens_backward(none.view(), dx.view());
    expect_equal(dx, std::vector<double>(12));
    auto empty = tensor({0, 3, 2}), of_empty = tensor({0, 2, 2});
    ops_->last_tokens_forward(empty.view(), of_empty.view());
    ops_->last_tokens_backward(of_empty.view(), empty.view());
}

TEST_P(MaskingTest, agree_at_sizes_that_threads_share) {
    const TubeMask mask{24, 4, 18};
    constexpr std::int64_t samples = 30, width = 37;
    const std::int64_t tokens = mask.tokens(), visible = mask.visible_tokens();
    const std::int64_t hidden = tokens - visible;
    auto order = drawn_order(samples, mask);
    auto x = random({samples, tokens, width}, 1), token = random({width}, 2),
         positions = random({tokens, width}, 3);
    auto taken = tensor({samples, visible, width}), y = tensor({samples, tokens, width}),
         last = tensor({samples, hidden, width}), dx = tensor({samples, visible, width}),
         dlast = tensor({samples, tokens, width}), dtoken = tensor({width});
    ops_->take_tokens(x.view(), order.view(), taken.view());
    ops_->fill_tokens_forward(taken.view(), token.view(), positions.view(), order.view(), y.view());
    ops_->last_tokens_forward(y.view(), last.view());
    ops_->last_tokens_backward(last.view(), dlast.view());
    ops_->fill_tokens_backward(y.view(), dx.view(), dtoken.view(), visible);
    std::vector<double> sums(width);
    for (std::int64_t n = 0; n < samples; ++n)
        for (std::int64_t k = 0; k < tokens; ++k)
            for (std::int64_t c = 0; c < width; ++c) {
                const auto of = [&](std::int64_t rows, std::int64_t row) {
                    return static_cast<std::size_t>((n * rows + row) * width + c);
                };
                const auto place =
                    static_cast<std::int64_t>(order.get(static_cast<std::size_t>(n * tokens + k)));
                const double value =
                    k < visible ? x.get(of(tokens, place)) : token.get(static_cast<std::size_t>(c));
                if (k < visible) {
                    ASSERT_EQ(taken.get(of(visible, k)), value);
                    ASSERT_EQ(dx.get(of(visible, k)), y.get(of(tokens, k)));
                } else {
                    ASSERT_EQ(last.get(of(hidden, k - visible)), y.get(of(tokens, k)));
                    sums[static_cast<std::size_t>(c)] += y.get(of(tokens, k));
                }
                ASSERT_EQ(dlast.get(of(tokens, k)), k < visible ? 0 : y.get(of(tokens, k)));
                ASSERT_NEAR(y.get(of(tokens, k)),
                            value + positions.get(static_cast<std::size_t>(place * width + c)),
                            2 * unit_roundoff_);
            }
    // 2160 summands below 2: n·u times the sum of their magnitudes bounds the error of any order.
    for (std::size_t c = 0; c < sums.size(); ++c)
        EXPECT_NEAR(dtoken.get(c), sums[c], 2160 * unit_roundoff_ * 2160);
}

TEST_P(MaskingTest, no_bit_depends_on_the_number_of_threads) {
    const TubeMask mask{24, 4, 18};
    constexpr std::int64_t samples = 30, width = 36;
    const std::int64_t hidden = mask.hidden_tokens();
    auto x = random({samples, mask.tokens(), width}, 1), prediction = random({samples, hidden, width}, 2);
    auto epsilon = tensor({3}, {0.1, 0.2, 0.3});
    const auto compute = [&](int threads) {
        omp_set_num_threads(threads);
        auto dtoken = tensor({width}), differences = tensor({samples, hidden, width});
        auto order = drawn_order(samples, mask);
        ops_->fill_tokens_backward(x.view(), {}, dtoken.view(), mask.visible_tokens());
        ops_->patch_differences(prediction.view(), x.view(), order.view(), epsilon.view(),
                                differences.view());
        return std::tuple(order.bytes(), dtoken.bytes(), differences.bytes());
    };
    const auto alone = compute(1);
    EXPECT_EQ(compute(3), alone);
}

TEST_P(MaskingTest, a_patch_of_two_pixels_is_normalised_to_one_number) {
    // Two channels: {1, 3} and {−6, −2}, with means 2 and −4 and, by the count less 1, variances 2 and 8. The
    // visible token must not be read.
    auto patches = tensor({1, 2, 4}, {1, -6, 3, -2, nan, nan, nan, nan});
    auto order = indices({1, 2}, {1, 0}), prediction = tensor({1, 1, 4}, {0, 0, 1, 1});
    auto epsilon = tensor({2}, {1, 2}), differences = tensor({1, 1, 4});
    ops_->patch_differences(prediction.view(), patches.view(), order.view(), epsilon.view(),
                            differences.view());
    const double first = 1 / (std::sqrt(2.0) + 1), second = 2 / (std::sqrt(8.0) + 2);
    expect_near(differences.values(), {first, second, 1 - first, 1 - second}, 2 * unit_roundoff_);
}

// torch 2.15, fp64: prediction − (x − x.mean(-2))/(x.var(-2, unbiased=True).sqrt() + epsilon), as VideoMAE
// has it, of x = patches[:, order[1:]].reshape(2, 3, 2).
TEST_P(MaskingTest, gives_pytorchs_normalised_patches) {
    auto patches =
        tensor({1, 3, 6}, {1, -2, 0.5, 299.25, 1.75, -4.5, 0.25, 0.5, 0.75, 1, -1, 2, 3, 3.5, 3, -2, 3, 7});
    auto prediction = tensor({1, 2, 6}, {0.5, -1, 2, 0.25, 1, 0, 1, 2, 3, 4, 5, 6});
    auto order = indices({1, 3}, {1, 0, 2}), epsilon = tensor({2}, {0.5, 0.125});
    const std::vector<double> expected = {0.5738016397747976,
                                          -0.43022935712760524,
                                          2.516611478423583,
                                          -0.9038451512562307,
                                          0.4095868818016192,
                                          0.5840745083838357,
                                          1,
                                          1.8569963559239915,
                                          3,
                                          5.036776419551062,
                                          5,
                                          5.106227224524947};
    auto differences = tensor({1, 2, 6});
    ops_->patch_differences(prediction.view(), patches.view(), order.view(), epsilon.view(),
                            differences.view());
    expect_near(differences.values(), expected, 4 * unit_roundoff_);
    ops_->patch_differences(prediction.view(), patches.view(), order.view(), epsilon.view(),
                            prediction.view());
    EXPECT_EQ(prediction.bytes(), differences.bytes());
}

TEST_P(MaskingTest, patches_without_contrast_are_zeros_and_small_contrast_is_not_lost) {
    // A constant channel; another whose mean is 4096 times its contrast, all of it exact in f32.
    auto patches = tensor({1, 1, 8}, {7, 4096, 7, 4097, 7, 4096, 7, 4097}), zero = tensor({1, 1, 8});
    auto order = indices({1, 1}, {0}), epsilon = tensor({2}, {1e-6, 1e-6}), out = tensor({1, 1, 8});
    ops_->fill(zero.view(), 0);
    ops_->patch_differences(zero.view(), patches.view(), order.view(), epsilon.view(), out.view());
    const double high = 0.5 / (std::sqrt(1.0 / 3) + epsilon.get(1));
    expect_near(out.values(), {0, high, 0, -high, 0, high, 0, -high}, 4 * unit_roundoff_);
    // One element per channel has no variance.
    auto single = tensor({1, 1, 2}, {5, -3}), wanted = tensor({1, 1, 2}, {0.5, 0.25});
    ops_->patch_differences(wanted.view(), single.view(), order.view(), epsilon.view(), wanted.view());
    expect_equal(wanted, {0.5, 0.25});
}

/// By formulas in double, at several widths and numbers of channels.
TEST_P(MaskingTest, normalised_patches_of_any_width_and_channels) {
    struct Case {
        std::int64_t samples, places, repeats, hidden, elements, channels;
    };
    for (const Case& c : {Case{0, 4, 1, 2, 8, 3},
                          {2, 4, 2, 0, 8, 3},
                          {3, 4, 2, 3, 1, 1},
                          {2, 3, 1, 2, 33, 1},
                          {3, 5, 2, 4, 512, 3},
                          {2, 3, 1, 2, 16, 31},
                          {2, 3, 1, 2, 5, 32},
                          {2, 3, 1, 1, 3, 33},
                          {1, 3, 1, 2, 2, 100},
                          {1, 2, 1, 1, 5000, 2}}) {
        SCOPED_TRACE(testing::Message() << c.elements << " x " << c.channels);
        const TubeMask mask{c.places, c.repeats, c.hidden};
        const std::int64_t width = c.elements * c.channels, hidden = mask.hidden_tokens();
        auto order = drawn_order(c.samples, mask);
        auto patches = random({c.samples, mask.tokens(), width}, 1),
             prediction = random({c.samples, hidden, width}, 2);
        auto epsilon = random({c.channels}, 3), differences = tensor({c.samples, hidden, width});
        for (std::size_t i = 0; i < epsilon.size(); ++i) epsilon.set(i, 0.25 + 0.125 * epsilon.get(i));
        ops_->patch_differences(prediction.view(), patches.view(), order.view(), epsilon.view(),
                                differences.view());
        for (std::int64_t row = 0; row < c.samples * hidden; ++row) {
            const std::int64_t n = row / hidden, j = row % hidden;
            const auto token = static_cast<std::int64_t>(
                order.get(static_cast<std::size_t>((n + 1) * mask.tokens() - hidden + j)));
            for (std::int64_t channel = 0; channel < c.channels; ++channel) {
                const auto element = [&](std::int64_t i) {
                    return patches.get(static_cast<std::size_t>((n * mask.tokens() + token) * width +
                                                                i * c.channels + channel));
                };
                double mean = 0, variance = 0;
                for (std::int64_t i = 0; i < c.elements; ++i)
                    mean += element(i) / static_cast<double>(c.elements);
                for (std::int64_t i = 0; i < c.elements; ++i)
                    variance += std::pow(element(i) - mean, 2) / static_cast<double>(c.elements - 1);
                if (c.elements == 1) variance = 0;
                for (std::int64_t i = 0; i < c.elements; ++i) {
                    const auto at = static_cast<std::size_t>(row * width + i * c.channels + channel);
                    const double t = (element(i) - mean) /
                                     (std::sqrt(variance) + epsilon.get(static_cast<std::size_t>(channel)));
                    // The target is rounded, and the difference; the sums, in double, 1e-16 each.
                    ASSERT_NEAR(differences.get(at), prediction.get(at) - t, 8 * unit_roundoff_ + 1e-12);
                }
            }
        }
    }
}

/// The whole head: fill, last tokens, differences and the mean of their squares.
TEST_P(MaskingReferenceTest, gradients_agree_with_finite_differences) {
    const TubeMask mask{3, 2, 2};
    constexpr std::int64_t samples = 2, width = 6;
    const std::int64_t tokens = mask.tokens(), visible = mask.visible_tokens(), hidden = tokens - visible;
    auto order = drawn_order(samples, mask);
    auto x = random({samples, visible, width}, 1), token = random({width}, 2),
         positions = random({tokens, width}, 3), patches = random({samples, tokens, width}, 4);
    auto epsilon = tensor({3}, {0.25, 0.5, 0.125}), y = tensor({samples, tokens, width});
    auto last = tensor({samples, hidden, width});
    // The decoder mixes all tokens: the loss depends on the visible ones, too.
    auto of_all = random({samples, tokens, width}, 5);
    TestTensor sums(DType::f64, {3});
    const auto loss = [&] {
        ops_->fill_tokens_forward(x.view(), token.view(), positions.view(), order.view(), y.view());
        ops_->last_tokens_forward(y.view(), last.view());
        ops_->patch_differences(last.view(), patches.view(), order.view(), epsilon.view(), last.view());
        const Shape flat{samples, hidden * width};
        ops_->regression_loss_forward(last.view().reshaped(flat), {}, RegressionLoss::squared,
                                      last.view().reshaped(flat), sums.view());
        return 0.5 * sums.get(0) + dot(y, of_all);
    };
    const auto expected = numeric_gradient(token, 1e-5, loss), expected_dx = numeric_gradient(x, 1e-5, loss);
    loss();
    const Shape flat{samples, hidden * width};
    ops_->regression_loss_backward(last.view().reshaped(flat), RegressionLoss::squared, 0.5,
                                   last.view().reshaped(flat));
    auto dy = tensor({samples, tokens, width}), dx = tensor({samples, visible, width}),
         dtoken = tensor({width});
    ops_->last_tokens_backward(last.view(), dy.view());
    ops_->add(of_all.view(), dy.view());
    ops_->fill_tokens_backward(dy.view(), dx.view(), dtoken.view(), visible);
    expect_near(dtoken.values(), expected, 1e-9);
    expect_near(dx.values(), expected_dx, 1e-9);
}

}  // namespace
}  // namespace tutti::test
