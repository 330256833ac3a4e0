// Products of linear layers by our own tiles: rows that fill blocks and do not, parts of the sums that are
// full and not.
#include "tile_linear.hpp"

#include <omp.h>

#include <cmath>
#include <limits>

#include "backend.hpp"
#include "op_case.hpp"
#include "tile_vector.hpp"

namespace tutti::test {
namespace {

class TileLinear : public testing::Test {
  protected:
    ~TileLinear() override { omp_set_num_threads(threads_before_); }

  private:
    const int threads_before_ = omp_get_max_threads();
};

struct TileCase : OpCase<LinearShape> {
    using OpCase::OpCase;
    void run(bool with_relu = false) {
        tile_linear_forward(shape, batch, data(x), data(weight), if_biased(bias), with_relu, data(y),
                            workspace);
    }
};

TEST_F(TileLinear, is_the_definition) {
    for (const int threads : {1, 2})
        for (const LinearShape& shape :
             {LinearShape{.in = 16, .out = 16}, LinearShape{.in = 144, .out = 80, .bias = false},
              LinearShape{.in = 272, .out = 208}, LinearShape{.in = 128, .out = 256}})
            for (const std::int64_t rows : {1, 5, 48, 64, 99, 150}) {
                SCOPED_TRACE(testing::Message() << shape.in << " -> " << shape.out << ", rows " << rows
                                                << ", threads " << threads);
                omp_set_num_threads(threads);
                TileCase one(shape, rows);
                one.run();
                expect_sums(one.y, one.expected_y(), 0x1p-24);
            }
}

TEST_F(TileLinear, with_relu_gives_what_is_positive_and_nan) {
    const LinearShape shape{.in = 144, .out = 80};
    for (const std::int64_t rows : {5, 99}) {
        TileCase plain(shape, rows), with_relu(shape, rows);
        for (TileCase* one : {&plain, &with_relu}) one->x.set(0, std::numeric_limits<double>::quiet_NaN());
        plain.run();
        with_relu.run(true);
        for (std::size_t i = 0; i < plain.y.size(); ++i)
            if (plain.y.get(i) <= 0) plain.y.set(i, 0);
        EXPECT_TRUE(std::isnan(with_relu.y.get(0)));
        EXPECT_EQ(plain.y.bytes(), with_relu.y.bytes());
    }
}

TEST_F(TileLinear, has_the_same_bits_with_any_number_of_threads) {
    const LinearShape shape{.in = 144, .out = 80};
    for (const std::int64_t rows : {40, 64, 128, 192, 300, 320}) {
        omp_set_num_threads(1);
        TileCase one(shape, rows), other(shape, rows);
        one.run();
        for (const int threads : {2, 3, 4, 5, 7, 8}) {
            omp_set_num_threads(threads);
            for (std::size_t i = 0; i < other.y.size(); ++i) other.y.set(i, -1);
            other.run();
            EXPECT_EQ(one.y.bytes(), other.y.bytes()) << rows << " rows, " << threads << " threads";
        }
    }
}

TEST_F(TileLinear, rows_have_the_same_bits_in_calls_of_more_and_of_fewer) {
    const LinearShape shape{.in = 144, .out = 80};
    TileCase all(shape, 200);
    all.run();
    for (const std::int64_t rows : {1, 7, 50, 149})
        for (const std::int64_t first : {std::int64_t{0}, std::int64_t{3}, 200 - rows}) {
            TileCase some(shape, rows);
            const auto copy = [&](TestTensor& to, const TestTensor& from, std::int64_t width) {
                for (std::int64_t i = 0; i < rows * width; ++i)
                    to.set(static_cast<std::size_t>(i),
                           from.get(static_cast<std::size_t>(first * width + i)));
            };
            copy(some.x, all.x, shape.in);
            some.run();
            TestTensor y = some.y;
            copy(y, all.y, shape.out);
            EXPECT_EQ(some.y.bytes(), y.bytes()) << rows << " rows from " << first;
        }
}

/// Shares follow each other from the first row to the last; none has more than its part of the work, rounded
/// to a vector of outputs of a block.
TEST_F(TileLinear, shares_take_as_long_however_few_the_blocks) {
    const std::int64_t out = 512, rows_at_once = lanes<float>;
    for (const std::int64_t rows : {1, 40, 64, 65, 128, 192, 300, 320, 512})
        for (const std::int64_t shares : {1, 2, 3, 4, 8, 16}) {
            SCOPED_TRACE(testing::Message() << rows << " rows, " << shares << " shares");
            // Elements of y before a place, with the rows that fill vectors.
            const auto before = [&](const TileLinearPlace& place) {
                const std::int64_t block = padded<float>(std::min(tile_linear_rows, rows - place.row));
                return padded<float>(place.row) * out + block * place.output;
            };
            EXPECT_EQ(tile_linear_share_begin(rows, out, shares, 0), (TileLinearPlace{0, 0}));
            EXPECT_EQ(tile_linear_share_begin(rows, out, shares, shares), (TileLinearPlace{rows, 0}));
            const std::int64_t all = (rows + rows_at_once - 1) / rows_at_once * rows_at_once * out;
            for (std::int64_t share = 0; share < shares; ++share) {
                const TileLinearPlace begin = tile_linear_share_begin(rows, out, shares, share);
                EXPECT_TRUE(begin.row % tile_linear_rows == 0 && begin.row < rows);
                EXPECT_TRUE(begin.output % lanes<float> == 0 && begin.output < out);
                const std::int64_t work =
                    before(tile_linear_share_begin(rows, out, shares, share + 1)) - before(begin);
                EXPECT_GT(work, 0) << "share " << share;
                EXPECT_LE(work, all / shares + tile_linear_rows * lanes<float>) << "share " << share;
            }
        }
}

TEST_F(TileLinear, numbers_that_are_none_stay_in_their_row_and_their_output) {
    const LinearShape shape{.in = 144, .out = 80};
    const std::int64_t rows = 150, bad_row = 70, bad_output = 33;
    constexpr double infinity = std::numeric_limits<double>::infinity();
    const auto at = [](std::int64_t row, std::int64_t width, std::int64_t column) {
        return static_cast<std::size_t>(row * width + column);
    };
    for (const int threads : {1, 4}) {
        omp_set_num_threads(threads);
        TileCase good(shape, rows), bad(shape, rows);
        for (std::int64_t k = 0; k < shape.in; ++k)
            bad.x.set(at(bad_row, shape.in, k), std::numeric_limits<double>::quiet_NaN());
        bad.weight.set(at(bad_output, shape.in, 5), infinity);
        good.run();
        bad.run();
        for (std::int64_t row = 0; row < rows; ++row)
            for (std::int64_t o = 0; o < shape.out; ++o) {
                SCOPED_TRACE(testing::Message() << "row " << row << ", output " << o);
                const double y = bad.y.get(at(row, shape.out, o));
                if (row == bad_row)
                    ASSERT_TRUE(std::isnan(y));
                else if (o == bad_output)
                    ASSERT_EQ(y, std::copysign(infinity, bad.x.get(at(row, shape.in, 5))));
                else
                    ASSERT_EQ(y, good.y.get(at(row, shape.out, o)));
            }
    }
}

TEST_F(TileLinear, takes_wide_layers_of_whole_vectors_where_it_was_measured) {
    EXPECT_EQ(takes_tile_linear({.in = 784, .out = 512}), vector_bytes == 64);
    EXPECT_FALSE(takes_tile_linear({.in = 784, .out = 500}));
    EXPECT_FALSE(takes_tile_linear({.in = 780, .out = 512}));
    EXPECT_FALSE(takes_tile_linear({.in = 512, .out = 240}));
    EXPECT_FALSE(takes_tile_linear({.in = 496, .out = 512}));
    EXPECT_FALSE(takes_tile_linear({.in = 1024, .out = 528}));
}

}  // namespace
}  // namespace tutti::test
