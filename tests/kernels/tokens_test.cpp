#include "backend.hpp"

namespace tutti::test {
namespace {

class TokensTest : public KernelTest {};
TUTTI_TEST_ON(TokensTest, backends);

TEST_P(TokensTest, embedding_puts_the_class_token_in_front_and_adds_positions) {
    auto x = tensor({2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8}), token = tensor({2}, {10, 20});
    auto positions = tensor({3, 2}, {100, 200, 300, 400, 500, 600}), y = tensor({2, 3, 2});
    ops_->embed_tokens_forward(x.view(), token.view(), positions.view(), y.view());
    expect_equal(y, {110, 220, 301, 402, 503, 604, 110, 220, 305, 406, 507, 608});

    auto dx = tensor({2, 2, 2}), dtoken = tensor({2}), dpositions = tensor({3, 2});
    auto dy = tensor({2, 3, 2}, {1, 2, 3, 4, 5, 6, 10, 20, 30, 40, 50, 60});
    ops_->embed_tokens_backward(dy.view(), dx.view(), dtoken.view(), dpositions.view());
    expect_equal(dx, {3, 4, 5, 6, 30, 40, 50, 60});
    expect_equal(dtoken, {11, 22});
    expect_equal(dpositions, {11, 22, 33, 44, 55, 66});
}

TEST_P(TokensTest, embedding_without_a_class_token_adds_positions) {
    auto x = tensor({1, 2, 2}, {1, 2, 3, 4}), positions = tensor({2, 2}, {10, 20, 30, 40}),
         y = tensor({1, 2, 2});
    ops_->embed_tokens_forward(x.view(), {}, positions.view(), y.view());
    expect_equal(y, {11, 22, 33, 44});
    auto dx = tensor({1, 2, 2}), dpositions = tensor({2, 2});
    ops_->embed_tokens_backward(y.view(), dx.view(), {}, dpositions.view());
    expect_equal(dx, {11, 22, 33, 44});
    expect_equal(dpositions, {11, 22, 33, 44});
    ops_->embed_tokens_backward(y.view(), {}, {}, dpositions.view());
    expect_equal(dpositions, {11, 22, 33, 44});
}

TEST_P(TokensTest, embedding_an_empty_batch_has_zero_gradients) {
    auto x = tensor({0, 1, 2}), y = tensor({0, 2, 2}), token = random({2}, 1), positions = random({2, 2}, 2);
    auto dtoken = tensor({2}), dpositions = tensor({2, 2});
    ops_->embed_tokens_forward(x.view(), token.view(), positions.view(), y.view());
    ops_->embed_tokens_backward(y.view(), x.view(), dtoken.view(), dpositions.view());
    expect_equal(dtoken, {0, 0});
    expect_equal(dpositions, {0, 0, 0, 0});
}

TEST_P(TokensTest, pooling_takes_the_first_token_or_the_mean) {
    auto x = tensor({2, 2, 2}, {1, 2, 3, 6, 5, 6, 9, 2}), y = tensor({2, 2}), dx = tensor({2, 2, 2});
    auto dy = tensor({2, 2}, {2, 4, 6, 8});
    ops_->pool_tokens_forward(TokenPooling::first, x.view(), y.view());
    expect_equal(y, {1, 2, 5, 6});
    ops_->pool_tokens_backward(TokenPooling::first, dy.view(), dx.view());
    expect_equal(dx, {2, 4, 0, 0, 6, 8, 0, 0});
    ops_->pool_tokens_forward(TokenPooling::mean, x.view(), y.view());
    expect_equal(y, {2, 4, 7, 4});
    ops_->pool_tokens_backward(TokenPooling::mean, dy.view(), dx.view());
    expect_equal(dx, {1, 2, 1, 2, 3, 4, 3, 4});
}

TEST_P(TokensTest, pooling_accepts_one_token_and_an_empty_batch) {
    for (const TokenPooling pooling : {TokenPooling::first, TokenPooling::mean}) {
        auto x = tensor({1, 1, 2}, {3, 4}), y = tensor({1, 2}), dx = tensor({1, 1, 2});
        ops_->pool_tokens_forward(pooling, x.view(), y.view());
        expect_equal(y, {3, 4});
        ops_->pool_tokens_backward(pooling, y.view(), dx.view());
        expect_equal(dx, {3, 4});
        auto none = tensor({0, 1, 2}), pooled = tensor({0, 2});
        ops_->pool_tokens_forward(pooling, none.view(), pooled.view());
        ops_->pool_tokens_backward(pooling, pooled.view(), none.view());
    }
}

TEST_P(TokensTest, scaling_gives_each_sample_its_own_factor_also_in_place) {
    auto x = tensor({3, 2}, {1, 2, 3, 4, 5, 6}), y = tensor({3, 2});
    const std::vector<double> factors = {0, 1, 0.5};
    ops_->scale_samples(x.view(), factors, y.view());
    expect_equal(y, {0, 0, 3, 4, 2.5, 3});
    ops_->scale_samples(x.view(), factors, x.view());
    expect_equal(x, y.values());
    auto empty = tensor({0, 2});
    ops_->scale_samples(empty.view(), {}, empty.view());
}

TEST_P(TokensTest, agree_at_a_size_that_threads_share) {
    const std::int64_t samples = 40, tokens = 31, width = 33;
    auto x = random({samples, tokens, width}, 1), token = random({width}, 2),
         positions = random({tokens + 1, width}, 3);
    auto y = tensor({samples, tokens + 1, width}), first = tensor({samples, width});
    ops_->embed_tokens_forward(x.view(), token.view(), positions.view(), y.view());
    ops_->pool_tokens_forward(TokenPooling::first, y.view(), first.view());
    for (std::size_t i = 0; i < first.size(); ++i)
        ASSERT_NEAR(first.get(i), token.get(i % width) + positions.get(i % width), 2 * unit_roundoff_);
    auto dx = tensor({samples, tokens, width}), dtoken = tensor({width}),
         dpositions = tensor({tokens + 1, width});
    ops_->embed_tokens_backward(y.view(), dx.view(), dtoken.view(), dpositions.view());
    for (std::size_t i = 0; i < dx.size(); ++i) {
        const std::size_t size = tokens * width, sample = i / size;
        ASSERT_EQ(dx.get(i), y.get(sample * (size + width) + width + i % size));
    }
}

}  // namespace
}  // namespace tutti::test
