// Layers of few outputs: against the definition, with threads that do and do not divide the inputs evenly.
#include "narrow_linear.hpp"

#include <omp.h>

#include "backend.hpp"
#include "op_case.hpp"
#include "reference.hpp"

namespace tutti::test {
namespace {

class NarrowLinear : public testing::Test {
  protected:
    ~NarrowLinear() override { omp_set_num_threads(threads_before_); }

  private:
    const int threads_before_ = omp_get_max_threads();
};

struct NarrowCase : OpCase<LinearShape> {
    using OpCase::OpCase;
    void forward() {
        narrow_linear_forward(shape, batch, data(x), data(weight), if_biased(bias), data(y), workspace);
    }
    void backward(bool first_layer = false, const ParametersFinal* parameters_final = nullptr) {
        narrow_linear_backward(shape, batch, data(x), data(weight), data(dy),
                               first_layer ? nullptr : data(dx), data(dweight), if_biased(dbias),
                               parameters_final);
    }
};

TEST_F(NarrowLinear, is_the_definition) {
    for (const int threads : {1, 2, 3})
        for (const LinearShape& shape :
             {LinearShape{.in = 64, .out = 1}, LinearShape{.in = 208, .out = 4, .bias = false},
              LinearShape{.in = 80, .out = 3}, LinearShape{.in = 528, .out = 10}}) {
            if (!takes_narrow_linear(shape)) continue;  // 10 outputs are more than a vector of SSE or AVX
            for (const std::int64_t rows : {1, 5, 64, 131, 2049}) {  // the last: in blocks
                SCOPED_TRACE(testing::Message() << shape.in << " -> " << shape.out << ", rows " << rows
                                                << ", threads " << threads);
                omp_set_num_threads(threads);
                NarrowCase one(shape, rows);
                one.forward();
                one.backward();
                expect_sums(one.y, one.expected_y(), 0x1p-24);
                const Gradients expected = one.expected();
                expect_sums(one.dx, expected.dx, 0x1p-24);
                expect_sums(one.dweight, expected.dweight, 0x1p-24);
                if (shape.bias) expect_sums(one.dbias, expected.dbias, 0x1p-24);
                NarrowCase first_layer(shape, rows);
                first_layer.backward(true);
                EXPECT_EQ(first_layer.dweight.bytes(), one.dweight.bytes());
            }
        }
}

// What is computed again in backward may be some of the rows: too few for several threads, even.
TEST_F(NarrowLinear, rows_have_the_same_bits_in_calls_of_more_and_of_fewer) {
    const LinearShape shape{.in = 528, .out = 4};
    for (const int threads : {1, 2, 3}) {
        omp_set_num_threads(threads);
        NarrowCase all(shape, 1200);
        all.forward();
        for (const std::int64_t rows : {1, 9, 100}) {
            NarrowCase some(shape, rows);
            const auto copy = [&](TestTensor& to, const TestTensor& from, std::int64_t columns) {
                for (std::int64_t i = 0; i < rows * columns; ++i)
                    to.set(static_cast<std::size_t>(i),
                           from.get(static_cast<std::size_t>(1000 * columns + i)));
            };
            copy(some.x, all.x, shape.in);
            some.forward();
            TestTensor expected = some.y;
            copy(expected, all.y, shape.out);
            EXPECT_EQ(some.y.bytes(), expected.bytes()) << rows << " rows, " << threads << " threads";
        }
    }
}

TEST_F(NarrowLinear, tells_that_the_parameters_are_final_once_and_when_they_are) {
    for (const int threads : {1, 3})
        for (const std::int64_t rows : {5, 2100}) {
            omp_set_num_threads(threads);
            NarrowCase one({.in = 208, .out = 4}, rows);
            NarrowCase expected(one.shape, rows);
            expected.backward();
            int times = 0;
            TestTensor::Bytes dweight, dbias;
            const ParametersFinal tell = [&] {
                ++times;
                dweight = one.dweight.bytes();
                dbias = one.dbias.bytes();
            };
            one.backward(false, &tell);
            EXPECT_EQ(times, 1);
            EXPECT_EQ(dweight, expected.dweight.bytes());
            EXPECT_EQ(dbias, expected.dbias.bytes());
            EXPECT_EQ(one.dx.bytes(), expected.dx.bytes());
        }
}

TEST_F(NarrowLinear, leaves_wide_layers_and_inputs_that_fill_no_vectors_to_others) {
    EXPECT_TRUE(takes_narrow_linear({.in = 512, .out = 4}));
    EXPECT_FALSE(takes_narrow_linear({.in = 512, .out = 17}));
    EXPECT_FALSE(takes_narrow_linear({.in = 84, .out = 4}));
    EXPECT_FALSE(takes_narrow_linear({.in = 48, .out = 4}));
}

}  // namespace
}  // namespace tutti::test
