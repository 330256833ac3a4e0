#include <cmath>

#include "backend.hpp"

namespace tutti::test {
namespace {

class NormalizeTest : public KernelTest {};
TUTTI_TEST_ON(NormalizeTest, backends);

TEST_P(NormalizeTest, divides_by_255_when_there_is_nothing_to_subtract) {
    TestTensor x(DType::u8, {1, 1, 3, 1}, {0, 51, 255});
    auto y = tensor({1, 1, 3, 1});
    const float mean[] = {0}, std[] = {1};
    ops_->normalize(x.view(), mean, std, y.view());
    expect_equal(y, {0, static_cast<double>(51 / 255.0f), 1});
}

TEST_P(NormalizeTest, computes_in_fp32_and_converts_afterwards) {
    const float mean[] = {0.485f, 0.456f, 0.406f}, std[] = {0.229f, 0.224f, 0.225f};
    // Every value in every channel, at a size that threads share.
    const std::int64_t pixels = 256 * 50;
    TestTensor x(DType::u8, {pixels, 3});
    auto y = tensor({pixels, 3});
    std::vector<double> expected(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
        const std::size_t value = i / 3 % 256;
        x.set(i, static_cast<double>(value));
        const float scaled = static_cast<float>(value) / 255.0f;
        const float centred = scaled - mean[i % 3];
        expected[i] = static_cast<double>(centred / std[i % 3]);
    }
    ops_->normalize(x.view(), mean, std, y.view());
    expect_equal(y, expected);
}

TEST_P(NormalizeTest, one_channel_at_a_size_that_threads_share) {
    const float mean[] = {0.1307f}, std[] = {0.3081f};
    // All values, in another order in each run of 256, and a rest.
    const std::int64_t pixels = 256 * 150 + 77;
    TestTensor x(DType::u8, {pixels, 1});
    auto y = tensor({pixels, 1});
    std::vector<double> expected(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
        const std::size_t value = (i * 37 + i / 256) % 256;
        x.set(i, static_cast<double>(value));
        const float centred = static_cast<float>(value) / 255.0f - mean[0];
        expected[i] = static_cast<double>(centred / std[0]);
    }
    ops_->normalize(x.view(), mean, std, y.view());
    expect_equal(y, expected);
}

/// Whatever mean and std make of 256 values, one after the other with the same operations.
TEST_P(NormalizeTest, has_the_bits_of_divisions_for_any_mean_and_std) {
    const std::int64_t pixels = 1024;
    TestTensor x(DType::u8, {pixels, 1});
    for (std::size_t i = 0; i < x.size(); ++i) x.set(i, static_cast<double>(i * 37 % 256));
    auto y = tensor({pixels, 1});
    for (unsigned seed = 0; seed < 100; ++seed) {
        TestTensor statistics = TestTensor::random(DType::f32, {2}, seed);
        const float mean[] = {static_cast<float>(statistics.get(0))};
        const float std[] = {std::exp2(10 * static_cast<float>(statistics.get(1)))};
        std::vector<double> expected(x.size());
        for (std::size_t i = 0; i < x.size(); ++i)
            expected[i] = static_cast<double>((static_cast<float>(x.get(i)) / 255.0f - mean[0]) / std[0]);
        ops_->normalize(x.view(), mean, std, y.view());
        expect_equal(y, expected);
    }
}

TEST_P(NormalizeTest, features_are_taken_as_they_are_and_not_divided_by_255) {
    const float mean[] = {0.5f, -3, 0}, std[] = {0.25f, 7, 1};
    // At a size that threads share.
    const std::int64_t rows = 15000;
    TestTensor x(DType::f32, {rows, 3});
    auto y = tensor({rows, 3});
    std::vector<double> expected(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
        const float value = 0.37f * static_cast<float>(i % 1000) - 120;
        x.set(i, static_cast<double>(value));
        const float centred = value - mean[i % 3];
        expected[i] = static_cast<double>(centred / std[i % 3]);
    }
    ops_->normalize(x.view(), mean, std, y.view());
    expect_equal(y, expected);
}

TEST_P(NormalizeTest, accepts_an_empty_batch) {
    TestTensor x(DType::u8, {0, 2, 2, 1});
    auto y = tensor({0, 2, 2, 1});
    const float mean[] = {0.5f}, std[] = {0.5f};
    ops_->normalize(x.view(), mean, std, y.view());
}

}  // namespace
}  // namespace tutti::test
