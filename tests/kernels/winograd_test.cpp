// Convolutions of the shapes that Winograd's method computes, ours or oneDNN's, on every backend, and how
// threads share a batch.

#include <omp.h>

#include "backend.hpp"
#include "onednn_ops.hpp"
#include "reference.hpp"

namespace tutti::test {
namespace {

class WinogradTest : public KernelTest {
  protected:
    /// Of one operator, batch after batch.
    void expect_the_definition(const Conv2dShape& shape, const std::vector<std::int64_t>& batches);
};

/// Also the library's Winograd where another is faster.
std::vector<Backend> backends_with_either() {
    std::vector<Backend> result = backends();
    for (const int threads : {1, 2})
        if (make_onednn_ops())
            result.push_back({threads == 1 ? "onednn_library_f32_threads1" : "onednn_library_f32_threads2",
                              DType::f32, [] { return make_onednn_ops(Winograd::library); }, threads});
    return result;
}
TUTTI_TEST_ON(WinogradTest, backends_with_either);

Conv2dShape shape_of(std::int64_t height, std::int64_t width, std::int64_t in, std::int64_t out,
                     std::int64_t padding, bool bias) {
    return {.height = height,
            .width = width,
            .in = in,
            .out = out,
            .kernel_h = 3,
            .kernel_w = 3,
            .padding_h = padding,
            .padding_w = padding,
            .bias = bias};
}

Conv2dShape moving_by_2(std::int64_t height, std::int64_t width, std::int64_t in, std::int64_t out,
                        std::int64_t kernel) {
    Conv2dShape shape = shape_of(height, width, in, out, 1, true);
    shape.kernel_h = shape.kernel_w = kernel;
    shape.stride_h = shape.stride_w = 2;
    return shape;
}

/// Channels that fill blocks of 16 and do not fill greater ones, images that tiles of 4×4 cover exactly and
/// not, with and without padding.
std::vector<Conv2dShape> winograd_shapes() {
    return {shape_of(4, 4, 32, 32, 1, true),  shape_of(7, 5, 32, 64, 1, true),
            shape_of(9, 6, 64, 64, 1, false), shape_of(6, 9, 48, 80, 0, true),
            shape_of(3, 3, 64, 64, 0, false), shape_of(8, 8, 96, 64, 1, true),
            moving_by_2(8, 24, 64, 32, 4),    moving_by_2(15, 8, 64, 64, 3)};
}

void WinogradTest::expect_the_definition(const Conv2dShape& shape, const std::vector<std::int64_t>& batches) {
    // Direct sums of these lengths were measured within 8 roundings, Winograd's within 16.
    const double tolerance = 32 * unit_roundoff_;
    auto op = ops_->conv2d(shape);
    unsigned seed = 1;
    for (const std::int64_t batch : batches) {
        SCOPED_TRACE(testing::Message() << shape.height << "x" << shape.width << ", " << shape.in << " to "
                                        << shape.out << ", batch " << batch);
        const Extents extents(shape, batch);
        auto x = random(extents.x, seed++), weight = random(extents.weight, seed++);
        auto bias = random(extents.bias, seed++), dy = random(extents.y, seed++);
        auto y = tensor(extents.y), dx = tensor(extents.x), dweight = tensor(extents.weight);
        auto dbias = tensor(extents.bias);
        const auto if_biased = [&shape](TestTensor& one) { return shape.bias ? one.view() : TensorView{}; };
        op->forward(x.view(), weight.view(), if_biased(bias), y.view());
        op->backward(x.view(), weight.view(), dy.view(), dx.view(), dweight.view(), if_biased(dbias));

        EXPECT_LE(relative_error(y, reference_forward(shape, batch, x, weight, bias)), tolerance);
        const Gradients expected = reference_backward(shape, batch, x, weight, dy);
        EXPECT_LE(relative_error(dx, expected.dx), tolerance);
        EXPECT_LE(relative_error(dweight, expected.dweight), tolerance);
        if (shape.bias) {
            EXPECT_LE(relative_error(dbias, expected.dbias), tolerance);
        }
    }
}

TEST_P(WinogradTest, agrees_with_the_definition_while_the_batch_size_changes) {
    for (const Conv2dShape& shape : winograd_shapes()) expect_the_definition(shape, {2, 1, 3, 2});
}

// Whole batches by all threads and parts by one thread each, of one size and in either order: each needs a
// plan of its own.
TEST_P(WinogradTest, two_threads_agree_with_the_definition_while_they_share_batches_in_other_ways) {
    if (GetParam().name.find("onednn") == std::string::npos || GetParam().threads != 2)
        GTEST_SKIP() << "plans are oneDNN's";
    Conv2dShape pointwise = shape_of(14, 14, 64, 128, 0, true);
    pointwise.kernel_h = pointwise.kernel_w = 1;
    expect_the_definition(pointwise, {8, 16, 8});
    for (const Conv2dShape& shape : {shape_of(14, 14, 32, 32, 1, true), shape_of(9, 9, 48, 48, 1, true)})
        expect_the_definition(shape, {1, 2, 1});
    expect_the_definition(shape_of(14, 14, 32, 64, 1, true), {4, 16, 4});
}

// So large that the weights' gradients are summed over slices of the batch, of two sizes.
TEST_P(WinogradTest, gradients_of_a_batch_are_those_of_its_images) {
    const Conv2dShape shape = shape_of(56, 52, 64, 64, 1, true);
    auto op = ops_->conv2d(shape);
    const Extents all(shape, 3), one(shape, 1);
    auto x = random(all.x, 1), weight = random(all.weight, 2), dy = random(all.y, 3);
    auto dx = tensor(all.x), dweight = tensor(all.weight), dbias = tensor(all.bias);
    int announced = 0;
    const ParametersFinal final = [&] { ++announced; };
    op->backward(x.view(), weight.view(), dy.view(), dx.view(), dweight.view(), dbias.view(), &final);
    EXPECT_LE(announced, 1);

    Sums expected_dx, expected_dweight(dweight.size()), expected_dbias(dbias.size());
    for (std::size_t n = 0; n < 3; ++n) {
        auto image = tensor(one.x), gradient = tensor(one.y), image_dx = tensor(one.x);
        auto part = tensor(one.weight), bias_part = tensor(one.bias);
        for (std::size_t i = 0; i < image.size(); ++i) image.set(i, x.get(n * image.size() + i));
        for (std::size_t i = 0; i < gradient.size(); ++i) gradient.set(i, dy.get(n * gradient.size() + i));
        op->backward(image.view(), weight.view(), gradient.view(), image_dx.view(), part.view(),
                     bias_part.view());
        for (std::size_t i = 0; i < part.size(); ++i) expected_dweight[i].add(part.get(i));
        for (std::size_t i = 0; i < bias_part.size(); ++i) expected_dbias[i].add(bias_part.get(i));
        for (std::size_t i = 0; i < image_dx.size(); ++i) {
            expected_dx.emplace_back();
            expected_dx.back().add(image_dx.get(i));
        }
    }
    // Long sums, one after the other in some backends; a slice too many or too few would be of the order
    // of 1.
    const double tolerance = 2048 * unit_roundoff_;
    EXPECT_LE(relative_error(dx, expected_dx), tolerance);
    EXPECT_LE(relative_error(dweight, expected_dweight), tolerance);
    EXPECT_LE(relative_error(dbias, expected_dbias), tolerance);
}

TEST_P(WinogradTest, gives_the_same_bits_each_time) {
    const Conv2dShape shape = shape_of(14, 14, 64, 64, 1, true);
    const Extents extents(shape, 9);
    auto x = random(extents.x, 1), weight = random(extents.weight, 2);
    auto bias = random(extents.bias, 3), dy = random(extents.y, 4);
    struct Results {
        TestTensor y, dx, dweight, dbias;
    };
    const auto run = [&](Conv2dOp& op) {
        Results r{tensor(extents.y), tensor(extents.x), tensor(extents.weight), tensor(extents.bias)};
        op.forward(x.view(), weight.view(), bias.view(), r.y.view());
        op.backward(x.view(), weight.view(), dy.view(), r.dx.view(), r.dweight.view(), r.dbias.view());
        return r;
    };
    auto op = ops_->conv2d(shape);
    const Results first = run(*op), again = run(*op), fresh = run(*ops_->conv2d(shape));
    for (const Results* other : {&again, &fresh}) {
        EXPECT_EQ(first.y.bytes(), other->y.bytes());
        EXPECT_EQ(first.dx.bytes(), other->dx.bytes());
        EXPECT_EQ(first.dweight.bytes(), other->dweight.bytes());
        EXPECT_EQ(first.dbias.bytes(), other->dbias.bytes());
    }
}

// Of shapes and batches whose slices are the same for one thread and for two, threads only take parts of
// their own, which nothing of the result shows.
TEST_P(WinogradTest, two_threads_that_take_slices_give_the_bits_of_one) {
    if (GetParam().name.find("onednn") == std::string::npos)
        GTEST_SKIP() << "sums there are made thread by thread";
    const Conv2dShape shape = shape_of(28, 28, 64, 64, 1, true);
    const Extents extents(shape, 30);  // four slices, of two sizes
    auto x = random(extents.x, 1), weight = random(extents.weight, 2);
    auto bias = random(extents.bias, 3), dy = random(extents.y, 4);
    const auto results = [&](int threads) {
        omp_set_num_threads(threads);
        TestTensor y = tensor(extents.y), dx = tensor(extents.x), dweight = tensor(extents.weight),
                   dbias = tensor(extents.bias), alone = tensor(extents.x);
        const auto op = ops_->conv2d(shape);
        op->forward(x.view(), weight.view(), bias.view(), y.view());
        op->backward(x.view(), weight.view(), dy.view(), dx.view(), dweight.view(), dbias.view());
        op->backward_data(weight.view(), dy.view(), alone.view());
        return std::vector{y.bytes(), dx.bytes(), dweight.bytes(), dbias.bytes(), alone.bytes()};
    };
    EXPECT_EQ(results(1), results(2));
}

}  // namespace
}  // namespace tutti::test
