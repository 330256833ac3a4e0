#include <cmath>

#include "backend.hpp"
#include "tutti/base/random.hpp"

namespace tutti::test {
namespace {

class DropoutTest : public KernelTest {
  protected:
    TestTensor kept(const DropoutAddress& address, double probability, const Shape& sample) {
        const auto batch = static_cast<std::int64_t>(address.positions.size());
        TestTensor keep(DType::u8, sample.with_front(batch));
        auto x = random(sample.with_front(batch), 1), y = tensor(sample.with_front(batch));
        ops_->dropout_forward(address, probability, x.view(), y.view(), keep.view());
        return keep;
    }
};
TUTTI_TEST_ON(DropoutTest, backends);

const std::vector<std::int64_t> three = {5, 0, 123456789};

TEST_P(DropoutTest, scales_what_it_keeps_and_zeroes_the_rest) {
    auto x = random({3, 50}, 1), y = tensor({3, 50}), dx = tensor({3, 50});
    TestTensor keep(DType::u8, {3, 50});
    ops_->dropout_forward({.positions = three}, 0.75, x.view(), y.view(), keep.view());
    ops_->dropout_backward(0.75, x.view(), keep.view(), dx.view());
    for (std::size_t i = 0; i < x.size(); ++i) {
        EXPECT_EQ(y.get(i), keep.get(i) * 4 * x.get(i));
        EXPECT_EQ(dx.get(i), y.get(i));
    }
}

TEST_P(DropoutTest, draws_the_addressed_numbers_in_pytorchs_order) {
    const double probability = 0.3;
    const Shape sample{2, 3, 5};
    const TestTensor keep =
        kept({.seed = -7, .epoch = 4, .positions = three, .layer = 9}, probability, sample);
    for (std::size_t n = 0; n < 3; ++n) {
        const RandomStream random(-7, RandomPlace::dropout, 4, static_cast<std::uint64_t>(three[n]));
        for (std::size_t c = 0; c < 5; ++c)
            for (std::size_t pixel = 0; pixel < 6; ++pixel) {
                const std::size_t element = c * 6 + pixel;
                const std::uint32_t word = random.bits(std::uint64_t{9} << 32 | element / 4)[element % 4];
                EXPECT_EQ(keep.get((n * 6 + pixel) * 5 + c), word * 0x1p-32 < probability ? 0 : 1);
            }
    }
}

TEST_P(DropoutTest, does_not_depend_on_the_batch_a_sample_is_in) {
    const Shape sample{100};
    const TestTensor all = kept({.positions = three}, 0.5, sample);
    const TestTensor last = kept({.positions = std::span(three).last(1)}, 0.5, sample);
    for (std::size_t i = 0; i < 100; ++i) EXPECT_EQ(last.get(i), all.get(200 + i));
}

TEST_P(DropoutTest, differs_with_seed_epoch_position_and_layer) {
    const Shape sample{256};
    const auto draw = [&](std::int64_t seed, std::int64_t epoch, std::int64_t position, std::uint64_t layer) {
        const std::vector<std::int64_t> one = {position};
        return kept({seed, epoch, one, layer}, 0.5, sample).bytes();
    };
    const auto base = draw(1, 2, 3, 4);
    EXPECT_EQ(base, draw(1, 2, 3, 4));
    EXPECT_NE(base, draw(2, 2, 3, 4));
    EXPECT_NE(base, draw(1, 3, 3, 4));
    EXPECT_NE(base, draw(1, 2, 4, 4));
    EXPECT_NE(base, draw(1, 2, 3, 5));
}

TEST_P(DropoutTest, drops_the_wanted_share) {
    const double probability = 0.2, count = 64 * 64 * 16;
    const TestTensor keep = kept({.positions = three}, probability, {64, 64, 16});
    double sum = 0;
    for (const double one : keep.values()) sum += one;
    // Five standard deviations of a binomial.
    EXPECT_NEAR(sum, 3 * count * 0.8, 5 * std::sqrt(3 * count * 0.2 * 0.8));
}

TEST_P(DropoutTest, keeps_all_with_probability_zero_and_none_with_one) {
    auto x = random({3, 9}, 1), y = tensor({3, 9});
    TestTensor keep(DType::u8, {3, 9});
    ops_->dropout_forward({.positions = three}, 0, x.view(), y.view(), keep.view());
    expect_equal(y, x.values());
    ops_->dropout_forward({.positions = three}, 1, x.view(), y.view(), keep.view());
    for (const double value : y.values()) EXPECT_EQ(value, 0);
}

TEST_P(DropoutTest, takes_an_empty_batch) {
    auto x = tensor({0, 4}), y = tensor({0, 4});
    TestTensor keep(DType::u8, {0, 4});
    ops_->dropout_forward({}, 0.5, x.view(), y.view(), keep.view());
    ops_->dropout_backward(0.5, x.view(), keep.view(), y.view());
}

}  // namespace
}  // namespace tutti::test
