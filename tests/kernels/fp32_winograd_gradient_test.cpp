// Weight gradients by our own Winograd in fp32 against the definition in fp64.
#include "fp32_winograd_gradient.hpp"

#include <utility>

#include "fp32_winograd_case.hpp"

namespace tutti::test {
namespace {

class Fp32WinogradGradient : public Fp32WinogradTest {};

struct Fp32GradientCase : OpCase<Conv2dShape> {
    using OpCase::OpCase;
    void run() {
        fp32_winograd_weight_gradient(shape, batch, data(x), data(dy), data(dweight), if_biased(dbias),
                                      workspace);
    }
};

// Among them more tiles than are transformed at once, whose sums are continued, and so many weights that all
// tiles are, in several runs.
TEST_F(Fp32WinogradGradient, agrees_with_the_definition) {
    std::vector<std::pair<Conv2dShape, std::int64_t>> cases{
        {winograd_shape(9, 11, 32, 48, 1, 1), 12}, {winograd_shape(9, 11, 32, 48, 1, 1), 71},
        {winograd_shape(5, 7, 16, 16, 0, 1), 35},  {winograd_shape(2, 2, 144, 144, 1, 1), 70},
        {moving_by_2(18, 20, 32, 16, 4), 36},      {moving_by_2(4, 4, 64, 144, 3), 70}};
    for (const Conv2dShape& shape : winograd_shapes()) cases.emplace_back(shape, 3);
    for (const Conv2dShape& shape : shapes_moving_by_2()) cases.emplace_back(shape, 3);
    for (const auto& [shape, batch] : cases) {
        SCOPED_TRACE(testing::Message() << name(shape) << ", batch " << batch);
        Fp32GradientCase one(shape, batch);
        const Gradients expected = one.expected();
        for (const int threads : {1, 2}) {
            omp_set_num_threads(threads);
            one.run();
            EXPECT_LE(relative_error(one.dweight, expected.dweight), tolerance) << threads << " threads";
            if (shape.bias) {
                EXPECT_LE(relative_error(one.dbias, expected.dbias), tolerance) << threads << " threads";
            }
        }
    }
}

// In a network the scratch holds what other layers left there. Among the shapes one that has tiles for one
// run only, and so few channels that two chains would pay.
TEST_F(Fp32WinogradGradient, reads_no_scratch_that_it_has_not_written) {
    for (const auto& [shape, batch] :
         {std::pair<Conv2dShape, std::int64_t>{winograd_shape(8, 8, 16, 16, 1, 1), 16},
          {winograd_shape(8, 8, 16, 16, 1, 1), 17},
          {winograd_shape(9, 11, 32, 48, 1, 1), 71},
          {moving_by_2(16, 16, 32, 16, 4), 17}})
        for (const int threads : {1, 2, 3}) {
            SCOPED_TRACE(testing::Message()
                         << name(shape) << ", batch " << batch << ", " << threads << " threads");
            omp_set_num_threads(threads);
            Fp32GradientCase one(shape, batch);
            one.fill_workspace_with_nan();
            one.run();
            EXPECT_LE(relative_error(one.dweight, one.expected().dweight), tolerance);
        }
}

TEST_F(Fp32WinogradGradient, has_the_same_bits_with_any_number_of_threads) {
    // All tiles at once, and many in blocks whose size depends on the threads; of several items, and of one;
    // in one, two and four chains, of whole runs of tiles and not.
    const std::pair<Conv2dShape, std::int64_t> cases[] = {
        {winograd_shape(9, 11, 80, 144, 1, 1), 2},  {winograd_shape(9, 11, 80, 144, 1, 1), 36},
        {winograd_shape(9, 11, 80, 144, 1, 1), 50}, {winograd_shape(9, 11, 16, 16, 1, 1), 15},
        {winograd_shape(9, 11, 16, 16, 1, 1), 71},  {moving_by_2(18, 22, 32, 48, 4), 50}};
    for (const auto& [shape, batch] : cases) {
        Fp32GradientCase one(shape, batch), other(shape, batch);
        expect_the_bits_of_one_thread(one, other, {2, 3, 4, 5, 16});
    }
}

}  // namespace
}  // namespace tutti::test
