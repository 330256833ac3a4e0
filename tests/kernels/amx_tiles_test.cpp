// Products by tiles of a matrix unit: the loops with an emulated unit on any processor, and the processor's
// own where it has one, against sums in fp64.
#include "amx_tiles.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "amx_products.hpp"

namespace tutti::test {
namespace {

float lower_half(Bf16Pair pair) {
    return std::bit_cast<float>(pair << 16);
}
float upper_half(Bf16Pair pair) {
    return std::bit_cast<float>(pair & 0xffff0000u);
}

/// Registers that hold what the real ones would, and fail where the processor would fault or read beyond.
class EmulatedUnit {
  public:
    static void configure(const TileShapes& shapes) {
        for (std::size_t t = 0; t < 8; ++t) {
            ASSERT_TRUE(shapes.rows[t] >= 1 && shapes.rows[t] <= 16);
            ASSERT_TRUE(shapes.row_bytes[t] >= 4 && shapes.row_bytes[t] <= 64 &&
                        shapes.row_bytes[t] % 4 == 0);
        }
        shapes_ = shapes;
        std::memset(registers_, 0, sizeof registers_);
        configured_ = true;
    }
    static void bring(const void*) {}
    static void release() { configured_ = false; }
    static bool configured() { return configured_; }
    template <int T>
    static void zero() {
        std::memset(registers_[T], 0, sizeof registers_[T]);
    }
    template <int T>
    static void load(const void* from, std::int64_t stride) {
        ASSERT_TRUE(configured_);
        zero<T>();
        for (std::int64_t r = 0; r < shapes_.rows[T]; ++r)
            std::memcpy(registers_[T][r], static_cast<const char*>(from) + r * stride, shapes_.row_bytes[T]);
    }
    template <int T>
    static void store(void* to, std::int64_t stride) {
        ASSERT_TRUE(configured_);
        for (std::int64_t r = 0; r < shapes_.rows[T]; ++r)
            std::memcpy(static_cast<char*>(to) + r * stride, registers_[T][r], shapes_.row_bytes[T]);
    }
    template <int C, int A, int B>
    static void multiply() {
        ASSERT_EQ(shapes_.rows[C], shapes_.rows[A]);
        ASSERT_EQ(shapes_.row_bytes[C], shapes_.row_bytes[B]);
        ASSERT_EQ(shapes_.row_bytes[A] / 4, shapes_.rows[B]);
        for (std::size_t r = 0; r < shapes_.rows[C]; ++r)
            for (std::size_t k = 0; k < shapes_.rows[B]; ++k)
                for (std::size_t c = 0; c < shapes_.row_bytes[C] / 4u; ++c) {
                    const Bf16Pair a = registers_[A][r][k], b = registers_[B][k][c];
                    auto sum = std::bit_cast<float>(registers_[C][r][c]);
                    sum += lower_half(a) * lower_half(b);
                    sum += upper_half(a) * upper_half(b);
                    registers_[C][r][c] = std::bit_cast<std::uint32_t>(sum);
                }
    }

  private:
    static inline TileShapes shapes_;
    static inline bool configured_ = false;
    static inline std::uint32_t registers_[8][16][16];
};

std::vector<Bf16Pair> random_pairs(std::size_t count, unsigned seed) {
    std::mt19937 generator(seed);
    std::uniform_real_distribution<float> number(-1, 1);
    std::vector<Bf16Pair> pairs(count);
    for (Bf16Pair& pair : pairs) {
        const auto half = [&] { return std::bit_cast<std::uint32_t>(number(generator)) >> 16; };
        pair = half() | half() << 16;
    }
    return pairs;
}

struct Start {
    bool add = false, from_row = false;
};

/// A product whose operands end with their vectors, so that reading beyond is seen by sanitizers.
class ProductCase {
  public:
    ProductCase(std::int64_t rows, std::int64_t columns, std::int64_t runs, std::int64_t length, bool turned)
        : rows_(rows), columns_(columns) {
        // Rows, runs and steps with something between them.
        constexpr std::int64_t between = 3;
        const std::int64_t left_row = turned ? 1 : runs * length + between;
        const std::int64_t left_step = turned ? rows + between : 1;
        runs_ = {runs,
                 length,
                 turned ? length * left_step : length,
                 length * (columns + 16) + 16,
                 left_step,
                 columns + 16,
                 left_row};
        const auto last = [](std::int64_t index) { return std::max<std::int64_t>(index, 0) + 1; };
        left_ =
            random_pairs(static_cast<std::size_t>(last((rows - 1) * left_row + (runs - 1) * runs_.left_run +
                                                       (length - 1) * left_step)),
                         1);
        right_ = random_pairs(static_cast<std::size_t>(last((runs - 1) * runs_.right_run +
                                                            (length - 1) * runs_.right_step + columns - 1)),
                              2);
    }

    template <class Multiply>
    void expect(const Start& start, const Multiply& multiply) const {
        const std::int64_t c_row = columns_ + 5;
        std::vector<float> c(static_cast<std::size_t>(rows_ * c_row), 7.0f),
            first(static_cast<std::size_t>(columns_));
        for (std::size_t i = 0; i < first.size(); ++i) first[i] = static_cast<float>(i) - 3;
        multiply(runs_, left_.data(), right_.data(),
                 PairSums{c.data(), c_row, start.add, start.from_row ? first.data() : nullptr, nullptr});
        for (std::int64_t r = 0; r < rows_; ++r)
            for (std::int64_t column = 0; column < c_row; ++column) {
                const double is = c[static_cast<std::size_t>(r * c_row + column)];
                if (column >= columns_) {
                    ASSERT_EQ(is, 7) << "beyond row " << r;
                    continue;
                }
                double sum = start.add ? 7 : start.from_row ? first[static_cast<std::size_t>(column)] : 0;
                double size = std::abs(sum);
                for (std::int64_t run = 0; run < runs_.runs; ++run)
                    for (std::int64_t k = 0; k < runs_.length; ++k) {
                        const Bf16Pair a = left_[static_cast<std::size_t>(
                            r * runs_.left_row + run * runs_.left_run + k * runs_.left_step)];
                        const Bf16Pair b = right_[static_cast<std::size_t>(run * runs_.right_run +
                                                                           k * runs_.right_step + column)];
                        const double low = double{lower_half(a)} * double{lower_half(b)};
                        const double high = double{upper_half(a)} * double{upper_half(b)};
                        sum += low + high;
                        size += std::abs(low) + std::abs(high);
                    }
                const double terms = 2.0 * static_cast<double>(runs_.runs * runs_.length) + 1;
                ASSERT_NEAR(is, sum, terms * 0x1p-24 * size) << "row " << r << ", column " << column;
            }
    }

    void expect_of_emulation(const Start& start) const {
        expect(start,
               [&](const PairRuns& runs, const Bf16Pair* left, const Bf16Pair* right, const PairSums& to) {
                   TileProduct<EmulatedUnit>(runs, left, right, to).execute(rows_, columns_);
               });
        EXPECT_FALSE(EmulatedUnit::configured());
    }
    void expect_of_processor(const Start& start) const {
        expect(start,
               [&](const PairRuns& runs, const Bf16Pair* left, const Bf16Pair* right, const PairSums& to) {
                   multiply_amx_pairs(rows_, columns_, runs, left, right, to);
               });
    }

  private:
    std::int64_t rows_, columns_;
    PairRuns runs_{};
    std::vector<Bf16Pair> left_, right_;
};

/// test(case, start) of many sizes.
template <class Test>
void for_cases(bool turned, const Test& test) {
    for (const std::int64_t rows : {1, 15, 16, 17, 32, 33, 48, 70})
        for (const std::int64_t columns : {16, 32, 48, 64})
            for (const auto& [runs, length] :
                 {std::pair{1, 0}, {1, 1}, {3, 7}, {1, 16}, {2, 16}, {2, 37}, {1, 64}})
                for (const Start start : {Start{}, Start{.add = true}, Start{.from_row = true}}) {
                    SCOPED_TRACE(testing::Message() << rows << " x " << columns << ", runs " << runs << " of "
                                                    << length << (start.add ? ", added" : ""));
                    test(ProductCase(rows, columns, runs, length, turned), start);
                    if (testing::Test::HasFatalFailure()) return;
                }
}

TEST(AmxTiles, are_the_sums_of_products_with_an_emulated_unit) {
    for_cases(false,
              [](const ProductCase& product, const Start& start) { product.expect_of_emulation(start); });
}

class AmxProducts : public testing::Test {
  protected:
    void SetUp() override {
        if (!has_amx_products()) GTEST_SKIP() << "this processor has no matrix unit (AMX)";
    }
};

TEST_F(AmxProducts, are_the_sums_of_products) {
    for_cases(false,
              [](const ProductCase& product, const Start& start) { product.expect_of_processor(start); });
}

TEST_F(AmxProducts, turn_left_factors_that_lie_pair_by_pair) {
    for_cases(true,
              [](const ProductCase& product, const Start& start) { product.expect_of_processor(start); });
    // More pairs than are turned at a time, in one run and in many.
    for (const auto& [runs, length] : {std::pair{1, 257}, {1, 1200}, {40, 49}, {2, 600}}) {
        SCOPED_TRACE(testing::Message() << "runs " << runs << " of " << length);
        const ProductCase product(40, 64, runs, length, true);
        product.expect_of_processor({});
        product.expect_of_processor({.add = true});
    }
}

TEST_F(AmxProducts, give_a_row_the_same_bits_among_any_others) {
    constexpr std::int64_t rows = 70, columns = 48, pairs = 40;
    const auto left = random_pairs(rows * pairs, 1), right = random_pairs(pairs * columns, 2);
    const PairRuns runs{1, pairs, 0, 0, 1, columns, pairs};
    std::vector<float> all(rows * columns), one(columns);
    multiply_amx_pairs(rows, columns, runs, left.data(), right.data(), {all.data(), columns});
    for (std::int64_t r = 0; r < rows; ++r) {
        multiply_amx_pairs(1, columns, runs, left.data() + r * pairs, right.data(), {one.data(), columns});
        for (std::size_t c = 0; c < columns; ++c)
            ASSERT_EQ(std::bit_cast<std::uint32_t>(one[c]),
                      std::bit_cast<std::uint32_t>(all[static_cast<std::size_t>(r) * columns + c]));
    }
}

}  // namespace
}  // namespace tutti::test
