// Products of linear layers by our own tiles: rows that fill blocks and do not, parts of the sums that are
// full and not.
#include "tile_linear.hpp"

#include <omp.h>

#include "backend.hpp"
#include "reference.hpp"
#include "tile_vector.hpp"

namespace tutti::test {
namespace {

class TileLinear : public testing::Test {
  protected:
    ~TileLinear() override { omp_set_num_threads(threads_before_); }

  private:
    const int threads_before_ = omp_get_max_threads();
};

struct Case {
    LinearShape shape;
    std::int64_t rows;
    TestTensor x, weight, bias, y;
    Workspace workspace;

    Case(const LinearShape& of, std::int64_t count) : Case(of, count, Extents(of, count)) {}
    void run() {
        tile_linear_forward(shape, rows, x.view().as<float>(), weight.view().as<float>(),
                            shape.bias ? bias.view().as<float>() : nullptr, y.view().as<float>(), workspace);
    }

  private:
    Case(const LinearShape& of, std::int64_t count, const Extents& extents)
        : shape(of),
          rows(count),
          x(TestTensor::random(DType::f32, extents.x, 1)),
          weight(TestTensor::random(DType::f32, extents.weight, 2)),
          bias(TestTensor::random(DType::f32, extents.bias, 3)),
          y(DType::f32, extents.y) {}
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
                Case one(shape, rows);
                one.run();
                expect_sums(one.y, reference_forward(shape, rows, one.x, one.weight, one.bias), 0x1p-24);
            }
}

TEST_F(TileLinear, has_the_same_bits_with_any_number_of_threads) {
    const LinearShape shape{.in = 144, .out = 80};
    for (const std::int64_t rows : {40, 300}) {
        omp_set_num_threads(1);
        Case one(shape, rows), other(shape, rows);
        one.run();
        for (const int threads : {2, 3, 5, 7}) {
            omp_set_num_threads(threads);
            other.run();
            EXPECT_EQ(one.y.bytes(), other.y.bytes()) << rows << " rows, " << threads << " threads";
        }
    }
}

TEST_F(TileLinear, rows_have_the_same_bits_in_calls_of_more_and_of_fewer) {
    const LinearShape shape{.in = 144, .out = 80};
    Case all(shape, 200);
    all.run();
    for (const std::int64_t rows : {1, 7, 50, 149})
        for (const std::int64_t first : {std::int64_t{0}, std::int64_t{3}, 200 - rows}) {
            Case some(shape, rows);
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
