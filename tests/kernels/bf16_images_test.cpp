// Values between layers in bf16 (Ops::images): what operations make of them is what they make of the same
// numbers in fp32, rounded once.
#include <omp.h>

#include "backend.hpp"
#include "bf16_reference.hpp"
#include "onednn_ops.hpp"
#include "support/bf16_refusal.hpp"
#include "tutti/base/error.hpp"

namespace tutti::test {
namespace {

class Bf16Images : public testing::Test {
  protected:
    void SetUp() override {
        try {
            ops_ = make_onednn_bf16_ops();
        } catch (const UsageError& error) {
            return refused_bf16(Bf16Need::products, error.what());
        }
        if (ops_->images() != DType::bf16)
            refused_bf16(Bf16Need::images, "products go through a matrix unit here, and stay fp32");
    }
    void TearDown() override { omp_set_num_threads(threads_); }

    /// Numbers that bf16 has, in fp32.
    static TestTensor random(const Shape& shape, unsigned seed) {
        return rounded(TestTensor::random(DType::f32, shape, seed));
    }
    static TestTensor empty(const Shape& shape) { return {DType::f32, shape}; }

    std::unique_ptr<Ops> ops_;

  private:
    int threads_ = omp_get_max_threads();
};

TestTensor as_bf16(TestTensor& numbers) {
    return {DType::bf16, numbers.view().shape, numbers.values()};
}
TestTensor empty_bf16(TestTensor& like) {
    return {DType::bf16, like.view().shape};
}

void expect_rounded(const TestTensor& bf16, const TestTensor& fp32) {
    ASSERT_EQ(bf16.size(), fp32.size());
    for (std::size_t i = 0; i < fp32.size(); ++i) {
        const double expected = rounded(fp32.get(i));
        if (std::isnan(expected))
            ASSERT_TRUE(std::isnan(bf16.get(i))) << "element " << i;
        else
            ASSERT_EQ(bf16.get(i), expected) << "element " << i;
    }
}

TEST_F(Bf16Images, sums_and_relu_round_once) {
    // More than one thread's part, and no whole number of vectors.
    for (const std::int64_t count : {37, 70'003}) {
        TestTensor a = random({count}, 1), b = random({count}, 2), y = empty({count}), z = empty({count});
        a.set(3, nan);
        b.set(5, infinity);
        TestTensor a16 = as_bf16(a), b16 = as_bf16(b), y16 = empty_bf16(y), z16 = empty_bf16(z);
        ops_->sum(a.view(), b.view(), y.view());
        ops_->sum(a16.view(), b16.view(), y16.view());
        expect_rounded(y16, y);
        ops_->sum_relu(a.view(), b.view(), y.view());
        ops_->sum_relu(a16.view(), b16.view(), y16.view());
        expect_rounded(y16, y);
        y = rounded(y);
        TestTensor dx = empty({count}), dx16 = empty_bf16(dx);
        ops_->sum_relu_backward(y.view(), b.view(), dx.view(), z.view());
        ops_->sum_relu_backward(y16.view(), b16.view(), dx16.view(), z16.view());
        expect_rounded(dx16, dx);
        expect_rounded(z16, z);
        ops_->relu_forward(a.view(), z.view());
        ops_->relu_forward(a16.view(), z16.view());
        expect_rounded(z16, z);
        ops_->relu_backward(z.view(), b.view(), dx.view());
        ops_->relu_backward(z16.view(), b16.view(), dx16.view());
        expect_rounded(dx16, dx);
        ops_->add(a.view(), b.view());
        ops_->add(a16.view(), b16.view());
        expect_rounded(b16, b);
        ops_->copy(a16.view(), z16.view());
        expect_rounded(z16, a);
        ops_->fill(z16.view(), 0.3);
        EXPECT_EQ(z16.get(static_cast<std::size_t>(count - 1)), rounded(0.3));
    }
}

TEST_F(Bf16Images, max_pooling_passes_them_on) {
    const auto shape_of = [](std::int64_t channels, std::int64_t kernel, std::int64_t stride,
                             std::int64_t padding) {
        Pool2dShape shape;
        shape.height = 9;
        shape.width = 8;
        shape.channels = channels;
        shape.kernel_h = shape.kernel_w = kernel;
        shape.stride_h = shape.stride_w = stride;
        shape.padding_h = shape.padding_w = padding;
        return shape;
    };
    // Windows that overlap, that tile with a rest, and that leave pixels out.
    for (Pool2dShape shape :
         {shape_of(37, 3, 2, 1), shape_of(16, 2, 2, 0), shape_of(5, 3, 1, 1), shape_of(16, 2, 3, 0)})
        for (const bool relu : {false, true}) {
            shape.relu = relu;
            SCOPED_TRACE(testing::Message() << shape.channels << " channels, kernel " << shape.kernel_h
                                            << ", stride " << shape.stride_h << (relu ? ", ReLU" : ""));
            const Shape out{3, shape.out_height(), shape.out_width(), shape.channels};
            TestTensor x = random({3, 9, 8, shape.channels}, 1), dy = random(out, 2), y = empty(out), dx = x;
            x.set(11, nan);
            TestTensor x16 = as_bf16(x), dy16 = as_bf16(dy), y16 = empty_bf16(y), dx16 = empty_bf16(dx);
            TestTensor winner(DType::u8, out), winner16(DType::u8, out);
            ops_->max_pool2d_forward(shape, x.view(), y.view(), winner.view());
            ops_->max_pool2d_forward(shape, x16.view(), y16.view(), winner16.view());
            expect_rounded(y16, y);
            EXPECT_EQ(winner16.bytes(), winner.bytes());
            ops_->max_pool2d_backward(shape, dy.view(), winner.view(), dx.view());
            ops_->max_pool2d_backward(shape, dy16.view(), winner16.view(), dx16.view());
            expect_rounded(dx16, dx);
        }
}

TEST_F(Bf16Images, average_pooling_rounds_once) {
    // Windows that overlap, and one over all pixels of more channels than are summed at a time.
    const std::vector<AveragePool2dShape> shapes = {
        {5, 4, 37, {{0, 2, 2}, {1, 4, 3}, {3, 5, 2}}, {{0, 3, 3}, {2, 4, 2}}},
        {5, 4, 130, {{0, 5, 5}}, {{0, 4, 4}}}};
    for (const AveragePool2dShape& shape : shapes) {
        const Shape out{2, static_cast<std::int64_t>(shape.rows.size()),
                        static_cast<std::int64_t>(shape.columns.size()), shape.channels};
        TestTensor x = random({2, 5, 4, shape.channels}, 1), dy = random(out, 2), y = empty(out), dx = x;
        TestTensor x16 = as_bf16(x), dy16 = as_bf16(dy), y16 = empty_bf16(y), dx16 = empty_bf16(dx);
        const auto op = ops_->average_pool2d(shape);
        op->forward(x.view(), y.view());
        op->forward(x16.view(), y16.view());
        expect_rounded(y16, y);
        op->backward(dy.view(), dx.view());
        op->backward(dy16.view(), dx16.view());
        expect_rounded(dx16, dx);
    }
}

TEST_F(Bf16Images, batch_normalisation_rounds_once) {
    for (const std::int64_t channels : {3, 64, 70})
        for (const bool relu : {false, true})
            for (const int threads : {1, 2}) {
                omp_set_num_threads(threads);
                SCOPED_TRACE(testing::Message() << channels << " channels, " << threads << " threads");
                const Shape shape{3, 21, 11, channels}, c{channels};
                const auto op = ops_->batch_norm({.channels = channels, .relu = relu});
                TestTensor x = random(shape, 1), dy = random(shape, 2), y = empty(shape), dx = empty(shape);
                TestTensor x16 = as_bf16(x), dy16 = as_bf16(dy), y16 = empty_bf16(y), dx16 = empty_bf16(dx);
                TestTensor weight = TestTensor::random(DType::f32, c, 3),
                           bias = TestTensor::random(DType::f32, c, 4);
                TestTensor shift = TestTensor::random(DType::f32, c, 5), dweight = empty(c), dbias = empty(c),
                           dweight16 = empty(c), dbias16 = empty(c);
                const Shape double_c{1 + 2 * channels}, sums_shape{2 * channels};
                TestTensor moments(DType::f64, double_c), moments16(DType::f64, double_c),
                    normalizer(DType::f64, double_c), statistics(DType::f64, {2 + 2 * channels}),
                    sums(DType::f64, sums_shape), sums16(DType::f64, sums_shape);
                op->moments(x.view(), shift.view(), moments.view());
                op->moments(x16.view(), shift.view(), moments16.view());
                expect_near(moments16.values(), moments.values(), 1e-5);
                op->normalizer(moments.view(), shift.view(), normalizer.view(), statistics.view());
                op->forward(x.view(), normalizer.view(), weight.view(), bias.view(), y.view());
                op->forward(x16.view(), normalizer.view(), weight.view(), bias.view(), y16.view());
                expect_rounded(y16, y);
                const auto backward = [&](TestTensor& of_x, TestTensor& of_dy, TestTensor& to, TestTensor& dw,
                                          TestTensor& db, TestTensor& result) {
                    if (relu)
                        op->relu_backward_sums(of_x.view(), of_dy.view(), normalizer.view(), weight.view(),
                                               bias.view(), to.view(), dw.view(), db.view());
                    else
                        op->backward_sums(of_x.view(), of_dy.view(), normalizer.view(), to.view(), dw.view(),
                                          db.view());
                    if (relu)
                        op->relu_backward(of_x.view(), of_dy.view(), normalizer.view(), weight.view(),
                                          bias.view(), sums.view(), result.view());
                    else
                        op->backward(of_x.view(), of_dy.view(), normalizer.view(), weight.view(), sums.view(),
                                     result.view());
                };
                backward(x, dy, sums, dweight, dbias, dx);
                backward(x16, dy16, sums16, dweight16, dbias16, dx16);
                expect_near(sums16.values(), sums.values(), 1e-5);
                expect_near(dweight16.values(), dweight.values(), 1e-5);
                expect_near(dbias16.values(), dbias.values(), 1e-5);
                expect_rounded(dx16, dx);
            }
}

Conv2dShape convolution(std::int64_t size, std::int64_t in, std::int64_t out, std::int64_t kernel,
                        std::int64_t stride, std::int64_t padding, std::int64_t groups = 1,
                        bool bias = true) {
    return {.height = size,
            .width = size,
            .in = in,
            .out = out,
            .kernel_h = kernel,
            .kernel_w = kernel,
            .stride_h = stride,
            .stride_w = stride,
            .padding_h = padding,
            .padding_w = padding,
            .groups = groups,
            .bias = bias};
}

/// Each of x (and dx) and y (and dy) in either type.
TEST_F(Bf16Images, convolutions_take_and_give_either_type) {
    // Winograd's method with and without its weight gradient; direct by ours, turned, by the library and by
    // Eigen (groups of two, a pixel's channels that no library's loop likes); several slices of both
    // gradients.
    const std::vector<Conv2dShape> shapes = {
        convolution(7, 64, 48, 3, 1, 1),    convolution(28, 64, 64, 3, 1, 1, 1, false),
        convolution(9, 32, 80, 3, 2, 1),    convolution(8, 48, 32, 1, 2, 0, 1, false),
        convolution(8, 16, 16, 3, 1, 1),    convolution(4, 512, 256, 3, 1, 1),
        convolution(28, 1, 64, 3, 1, 1),    convolution(6, 4, 8, 3, 1, 1, 4),
        convolution(5, 32, 32, 3, 1, 1, 2), convolution(7, 17, 33, 3, 2, 1)};
    for (const Conv2dShape& shape : shapes)
        for (const int threads : {1, 2}) {
            omp_set_num_threads(threads);
            SCOPED_TRACE(testing::Message()
                         << shape.height << "² " << shape.in << " to " << shape.out << ", kernel "
                         << shape.kernel_h << ", groups " << shape.groups << ", " << threads << " threads");
            constexpr std::int64_t batch = 6;
            const Shape x_shape{batch, shape.height, shape.width, shape.in},
                y_shape{batch, shape.out_height(), shape.out_width(), shape.out},
                w_shape{shape.out, shape.kernel_h, shape.kernel_w, shape.in / shape.groups};
            TestTensor x = random(x_shape, 1), weight = TestTensor::random(DType::f32, w_shape, 2),
                       dy = random(y_shape, 3);
            TestTensor bias = TestTensor::random(DType::f32, {shape.out}, 4);
            TestTensor y = empty(y_shape), dx = empty(x_shape), dweight = empty(w_shape),
                       dbias = empty({shape.out});
            const auto view_of_bias = [&](TestTensor& of) { return shape.bias ? of.view() : TensorView{}; };
            const auto op = ops_->conv2d(shape);
            op->forward(x.view(), weight.view(), view_of_bias(bias), y.view());
            op->backward(x.view(), weight.view(), dy.view(), dx.view(), dweight.view(), view_of_bias(dbias));
            for (const bool short_x : {false, true})
                for (const bool short_y : {false, true}) {
                    SCOPED_TRACE(testing::Message()
                                 << (short_x ? "x in bf16 " : "") << (short_y ? "y in bf16" : ""));
                    TestTensor in = short_x ? as_bf16(x) : x, gradient = short_y ? as_bf16(dy) : dy;
                    TestTensor out(short_y ? DType::bf16 : DType::f32, y_shape),
                        of_in(short_x ? DType::bf16 : DType::f32, x_shape);
                    TestTensor of_weight = empty(w_shape), of_bias = empty({shape.out});
                    const auto expect = [](const TestTensor& result, const TestTensor& expected,
                                           bool is_short) {
                        if (is_short)
                            expect_rounded(result, expected);
                        else
                            EXPECT_EQ(result.bytes(), expected.bytes());
                    };
                    op->forward(in.view(), weight.view(), view_of_bias(bias), out.view());
                    expect(out, y, short_y);
                    op->backward(in.view(), weight.view(), gradient.view(), of_in.view(), of_weight.view(),
                                 view_of_bias(of_bias));
                    expect(of_in, dx, short_x);
                    EXPECT_EQ(of_weight.bytes(), dweight.bytes());
                    if (shape.bias) {
                        EXPECT_EQ(of_bias.bytes(), dbias.bytes());
                    }
                    TestTensor data(short_x ? DType::bf16 : DType::f32, x_shape);
                    op->backward_data(weight.view(), gradient.view(), data.view());
                    TestTensor plain = empty(x_shape);
                    op->backward_data(weight.view(), dy.view(), plain.view());
                    expect(data, plain, short_x);
                }
        }
}

TEST_F(Bf16Images, linear_layers_take_them) {
    constexpr std::int64_t rows = 9;
    const LinearShape shape{.in = 48, .out = 10};
    TestTensor x = random({rows, 48}, 1), weight = TestTensor::random(DType::f32, {10, 48}, 2),
               bias = TestTensor::random(DType::f32, {10}, 3),
               dy = TestTensor::random(DType::f32, {rows, 10}, 4);
    TestTensor y = empty({rows, 10}), y16 = y, dx = empty({rows, 48}), dweight = empty({10, 48}),
               dweight16 = dweight, dbias = empty({10}), dbias16 = dbias, x16 = as_bf16(x),
               dx16 = empty_bf16(dx);
    const auto op = ops_->linear(shape);
    op->forward(x.view(), weight.view(), bias.view(), y.view());
    op->forward(x16.view(), weight.view(), bias.view(), y16.view());
    EXPECT_EQ(y16.bytes(), y.bytes());
    op->backward(x.view(), weight.view(), dy.view(), dx.view(), dweight.view(), dbias.view());
    op->backward(x16.view(), weight.view(), dy.view(), dx16.view(), dweight16.view(), dbias16.view());
    expect_rounded(dx16, dx);
    EXPECT_EQ(dweight16.bytes(), dweight.bytes());
    EXPECT_EQ(dbias16.bytes(), dbias.bytes());
}

}  // namespace
}  // namespace tutti::test
