// Linear and conv2d with products in bf16: only their inputs are rounded.
#include <cmath>
#include <type_traits>

#include "backend.hpp"
#include "bf16_reference.hpp"
#include "bf16_winograd_gradient.hpp"
#include "onednn_ops.hpp"
#include "reference.hpp"
#include "tutti/base/error.hpp"

namespace tutti::test {
namespace {

/// Two inputs, each within 2⁻⁸ of itself, change a product by at most 2⁻⁷ + 2⁻¹⁶ of it; to that comes the
/// rounding of the sum in fp32 (see expect_sums).
void expect_bf16_sums(const TestTensor& tensor, const Sums& expected) {
    ASSERT_EQ(tensor.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
        const double bound = 0x1p-7 + 0x1p-16 + 2 * (expected[i].terms + 1) * 0x1p-24;
        ASSERT_NEAR(tensor.get(i), expected[i].value, bound * expected[i].magnitude) << "element " << i;
    }
}

class Bf16Products : public testing::Test {
  protected:
    void SetUp() override {
        try {
            ops_ = make_onednn_bf16_ops();
        } catch (const UsageError& error) {
            refused_bf16(Bf16Need::products, error.what());
        }
    }

    static TestTensor tensor(const Shape& shape) { return {DType::f32, shape}; }
    static TestTensor tensor(const Shape& shape, const std::vector<double>& values) {
        return {DType::f32, shape, values};
    }

    std::unique_ptr<Ops> ops_;
};

// Where the other tests are skipped.
TEST(Bf16Refusal, NamesTheSettingAndTheRemedyWhereTheProcessorHasNoProductsInBf16) {
    try {
        make_onednn_bf16_ops();
    } catch (const UsageError& error) {
        const std::string text = error.what();
        // A build without oneDNN has a remedy more.
        EXPECT_TRUE(text.starts_with("train.precision bf16")) << text;
        EXPECT_TRUE(text.find("; set train.precision: fp32") != std::string::npos) << text;
        return;
    }
    GTEST_SKIP() << "this processor has them";
}

/// Inputs, outputs and gradients of one operator.
template <class OpShape>
struct Tensors {
    TestTensor x, weight, bias, dy, y, dx, dweight, dbias;
    Tensors(const OpShape& shape, std::int64_t batch, unsigned seed, bool representable)
        : Tensors(Extents(shape, batch), seed) {
        has_bias = shape.bias;
        if (!representable) return;
        for (TestTensor* one : {&x, &weight, &dy}) *one = rounded(*one);
    }
    template <class Op>
    void run(Op& op) {
        op.forward(x.view(), weight.view(), has_bias ? bias.view() : TensorView{}, y.view());
        op.backward(x.view(), weight.view(), dy.view(), dx.view(), dweight.view(),
                    has_bias ? dbias.view() : TensorView{});
    }
    template <class Compare>
    void expect(const OpShape& shape, std::int64_t batch, const Compare& compare) {
        compare(y, reference_forward(shape, batch, x, weight, bias));
        const Gradients expected = reference_backward(shape, batch, x, weight, dy);
        compare(dx, expected.dx);
        compare(dweight, expected.dweight);
        if (has_bias) compare(dbias, expected.dbias);
    }
    bool has_bias = true;

  private:
    Tensors(const Extents& extents, unsigned seed)
        : x(TestTensor::random(DType::f32, extents.x, seed)),
          weight(TestTensor::random(DType::f32, extents.weight, seed + 1)),
          bias(TestTensor::random(DType::f32, extents.bias, seed + 2)),
          dy(TestTensor::random(DType::f32, extents.y, seed + 3)),
          y(DType::f32, extents.y),
          dx(DType::f32, extents.x),
          dweight(DType::f32, extents.weight),
          dbias(DType::f32, extents.bias) {}
};

void expect_fp32_sums(const TestTensor& tensor, const Sums& expected) {
    expect_sums(tensor, expected, 0x1p-24);
}

const std::vector<LinearShape>& linear_shapes() {
    static const std::vector<LinearShape> shapes = {{.in = 7, .out = 5},
                                                    {.in = 1, .out = 1},
                                                    {.in = 64, .out = 33, .bias = false},
                                                    {.in = 100, .out = 130},
                                                    {.in = 400, .out = 120}};
    return shapes;
}

/// By size of the image, channels, kernel, stride, padding and groups.
Conv2dShape square(std::int64_t size, std::int64_t in, std::int64_t out, std::int64_t kernel,
                   std::int64_t stride = 1, std::int64_t padding = 0, std::int64_t groups = 1,
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

std::vector<Conv2dShape> convolutions() {
    std::vector<Conv2dShape> shapes = {
        square(7, 3, 4, 3, 1, 1), square(14, 1, 6, 5, 1, 2), square(14, 6, 16, 5), square(8, 16, 32, 3, 1, 1),
        square(9, 17, 33, 3, 2, 1), square(6, 4, 6, 1), square(8, 32, 48, 1, 2, 0, 1, false),
        square(4, 4, 6, 1, 1, 0, 2), square(5, 6, 6, 3, 1, 1, 6), square(9, 32, 32, 3, 2, 1, 32),
        square(5, 32, 32, 3, 1, 1, 2), square(6, 4, 8, 3, 1, 1, 4), square(2, 1, 2, 3, 1, 2),
        // The input's gradient as a convolution forward, in several orders.
        square(7, 64, 16, 3, 1, 1, 1, false), square(6, 32, 48, 3, 1, 2), square(9, 128, 16, 2, 1, 0),
        square(4, 32, 48, 3, 1, 1), square(3, 16, 16, 3, 1, 0)};
    shapes.push_back({.height = 11,
                      .width = 10,
                      .in = 1,
                      .out = 5,
                      .kernel_h = 5,
                      .kernel_w = 4,
                      .stride_h = 3,
                      .stride_w = 2,
                      .padding_h = 2,
                      .padding_w = 1});
    return shapes;
}

std::string name(const Conv2dShape& s) {
    return to_string(Shape{s.height, s.width, s.in}) + " -> " + std::to_string(s.out) + ", kernel " +
           to_string(Shape{s.kernel_h, s.kernel_w}) + ", " + std::to_string(s.groups) + " groups";
}

TEST_F(Bf16Products, linear_rounds_its_inputs_to_nearest_even_and_sums_in_fp32) {
    // Between 1 and 2 bf16 has steps of 2⁻⁷. 257 and 1/256 + 256 are no bf16 numbers, sums of such are exact.
    auto op = ops_->linear({.in = 2, .out = 1});
    auto x = tensor({4, 2}, {1 + 0x1p-8, 0, 1 + 3 * 0x1p-8, 0, 256, 1, 256, 0x1p-8});
    auto weight = tensor({1, 2}, {1, 1}), bias = tensor({1}, {0}), y = tensor({4, 1});
    op->forward(x.view(), weight.view(), bias.view(), y.view());
    expect_equal(y, {1, 1 + 0x1p-6, 257, 256 + 0x1p-8});

    auto dy = tensor({4, 1}, {1 + 0x1p-8, 2, 0, 4}), dx = tensor({4, 2});
    auto dweight = tensor({1, 2}), dbias = tensor({1});
    op->backward(x.view(), weight.view(), dy.view(), dx.view(), dweight.view(), dbias.view());
    expect_equal(dx, {1, 1, 2, 2, 0, 0, 4, 4});
    expect_equal(dweight, {1027 + 0x1p-5, 0x1p-6});
    expect_equal(dbias, {7 + 0x1p-8});  // no product: the fp32 gradients themselves
}

TEST_F(Bf16Products, linear_is_the_definition_on_rounded_inputs) {
    for (const LinearShape& shape : linear_shapes()) {
        auto op = ops_->linear(shape);
        for (const std::int64_t batch : {4, 1, 33, 4, 1}) {
            SCOPED_TRACE(testing::Message() << shape.in << " -> " << shape.out << ", batch " << batch);
            Tensors t(shape, batch, 10, false);
            t.run(*op);
            t.expect(shape, batch, expect_bf16_sums);
            const auto x = rounded(t.x), weight = rounded(t.weight), dy = rounded(t.dy);
            expect_fp32_sums(t.y, reference_forward(shape, batch, x, weight, t.bias));
            const Gradients expected = reference_backward(shape, batch, x, weight, dy);
            expect_fp32_sums(t.dx, expected.dx);
            expect_fp32_sums(t.dweight, expected.dweight);
        }
    }
}

// So many rows that dy is rounded once for both products.
TEST_F(Bf16Products, linear_of_many_rows_is_the_definition_on_rounded_inputs) {
    const LinearShape shape{.in = 16, .out = 33};
    constexpr std::int64_t batch = 1025;
    Tensors t(shape, batch, 10, false);
    t.run(*ops_->linear(shape));
    const Gradients expected =
        reference_backward(shape, batch, rounded(t.x), rounded(t.weight), rounded(t.dy));
    expect_fp32_sums(t.dx, expected.dx);
    expect_fp32_sums(t.dweight, expected.dweight);
    expect_fp32_sums(t.dbias, reference_backward(shape, batch, t.x, t.weight, t.dy).dbias);
}

TEST_F(Bf16Products, convolution_agrees_with_the_definition_while_the_batch_size_changes) {
    for (const Conv2dShape& shape : convolutions()) {
        auto op = ops_->conv2d(shape);
        unsigned seed = 1;
        for (const std::int64_t batch : {3, 1, 2, 3}) {
            SCOPED_TRACE(testing::Message() << name(shape) << ", batch " << batch);
            Tensors t(shape, batch, seed += 4, false);
            t.run(*op);
            t.expect(shape, batch, expect_bf16_sums);
        }
    }
}

TEST_F(Bf16Products, numbers_that_bf16_has_give_what_fp32_gives) {
    for (const Conv2dShape& shape : convolutions()) {
        SCOPED_TRACE(name(shape));
        Tensors t(shape, 2, 5, true);
        t.run(*ops_->conv2d(shape));
        t.expect(shape, 2, expect_fp32_sums);
    }
    for (const LinearShape& shape : linear_shapes()) {
        SCOPED_TRACE(testing::Message() << shape.in << " -> " << shape.out);
        Tensors t(shape, 9, 5, true);
        t.run(*ops_->linear(shape));
        t.expect(shape, 9, expect_fp32_sums);
    }
}

/// Small whole numbers, whose sums of four, and quarters of sums of nine, bf16 has: so Winograd's transforms
/// of them are exact, too.
template <class OpShape>
void make_whole(Tensors<OpShape>& t) {
    for (TestTensor* one : {&t.x, &t.dy, &t.bias})
        for (std::size_t i = 0; i < one->size(); ++i) one->set(i, std::round(one->get(i) * 4));
    for (std::size_t i = 0; i < t.weight.size(); ++i) t.weight.set(i, 4 * std::round(t.weight.get(i) * 4));
}

/// Forward and backward of all kinds against the definition. Parameters' gradients that are told to be final
/// must be so then.
template <class OpShape>
void expect_whole_numbers(Ops& ops, const OpShape& shape, std::int64_t batch) {
    Tensors t(shape, batch, 5, false);
    make_whole(t);
    const auto op = [&] {
        if constexpr (std::is_same_v<OpShape, LinearShape>)
            return ops.linear(shape);
        else
            return ops.conv2d(shape);
    }();
    t.run(*op);
    t.expect(shape, batch, expect_fp32_sums);
    const Gradients expected = reference_backward(shape, batch, t.x, t.weight, t.dy);
    for (const bool with_dx : {true, false}) {
        Tensors again(shape, batch, 5, false);
        make_whole(again);
        int finals = 0;
        const ParametersFinal at_final = [&] {
            ++finals;
            expect_fp32_sums(again.dweight, expected.dweight);
            if (shape.bias) expect_fp32_sums(again.dbias, expected.dbias);
        };
        op->backward(again.x.view(), again.weight.view(), again.dy.view(),
                     with_dx ? again.dx.view() : TensorView{}, again.dweight.view(),
                     shape.bias ? again.dbias.view() : TensorView{}, &at_final);
        EXPECT_LE(finals, 1);
        expect_fp32_sums(again.dweight, expected.dweight);
        if (shape.bias) expect_fp32_sums(again.dbias, expected.dbias);
        if (with_dx) expect_fp32_sums(again.dx, expected.dx);
    }
    if constexpr (std::is_same_v<OpShape, Conv2dShape>) {
        Tensors again(shape, batch, 5, false);
        op->backward_data(t.weight.view(), t.dy.view(), again.dx.view());
        expect_fp32_sums(again.dx, expected.dx);
    }
}

TEST_F(Bf16Products, whole_numbers_of_wide_layers_give_what_fp32_gives) {
    for (const bool bias : {true, false}) {
        SCOPED_TRACE(bias);
        expect_whole_numbers(*ops_, square(7, 64, 80, 3, 1, 1, 1, bias), 3);
        const Conv2dShape small = square(4, 64, 80, 3, 1, 1, 1, bias);
        ASSERT_TRUE(takes_bf16_winograd_gradient(small, 24));
        expect_whole_numbers(*ops_, small, 24);
        // Many rows and few.
        for (const std::int64_t rows : {600, 5})
            expect_whole_numbers(*ops_, LinearShape{.in = 64, .out = 80, .bias = bias}, rows);
    }
}

TEST_F(Bf16Products, differ_from_fp32_where_oneDNN_computes) {
    // Guards against a silent fp32 path: of the shapes of LeNet none falls back.
    for (const Conv2dShape& shape : {square(28, 1, 6, 5, 1, 2), square(14, 6, 16, 5)}) {
        SCOPED_TRACE(name(shape));
        Tensors bf16(shape, 2, 1, false), fp32(shape, 2, 1, false);
        bf16.run(*ops_->conv2d(shape));
        fp32.run(*make_onednn_ops()->conv2d(shape));
        EXPECT_NE(bf16.y.bytes(), fp32.y.bytes());
        EXPECT_NE(bf16.dx.bytes(), fp32.dx.bytes());
        EXPECT_NE(bf16.dweight.bytes(), fp32.dweight.bytes());
    }
}

TEST_F(Bf16Products, an_undefined_input_gradient_is_skipped) {
    for (const Conv2dShape& shape : convolutions()) {
        SCOPED_TRACE(name(shape));
        Tensors t(shape, 2, 1, true);
        ops_->conv2d(shape)->backward(t.x.view(), t.weight.view(), t.dy.view(), {}, t.dweight.view(),
                                      shape.bias ? t.dbias.view() : TensorView{});
        expect_fp32_sums(t.dweight, reference_backward(shape, 2, t.x, t.weight, t.dy).dweight);
    }
}

TEST_F(Bf16Products, an_empty_batch_has_zero_gradients) {
    for (const Conv2dShape& shape : convolutions()) {
        SCOPED_TRACE(name(shape));
        Tensors t(shape, 0, 1, false);
        t.run(*ops_->conv2d(shape));
        expect_equal(t.dweight, std::vector<double>(t.dweight.size(), 0.0));
    }
    for (const LinearShape& shape : linear_shapes()) {
        Tensors t(shape, 0, 1, false);
        t.run(*ops_->linear(shape));
        expect_equal(t.dweight, std::vector<double>(t.dweight.size(), 0.0));
    }
}

TEST_F(Bf16Products, give_the_same_bits_each_time) {
    const Conv2dShape shape = square(14, 32, 64, 3, 1, 1);
    Tensors first(shape, 9, 1, false), second(shape, 9, 1, false);
    auto op = ops_->conv2d(shape);
    first.run(*op);
    second.run(*ops_->conv2d(shape));
    for (int run = 0; run < 2; ++run) {
        EXPECT_EQ(first.y.bytes(), second.y.bytes());
        EXPECT_EQ(first.dx.bytes(), second.dx.bytes());
        EXPECT_EQ(first.dweight.bytes(), second.dweight.bytes());
        EXPECT_EQ(first.dbias.bytes(), second.dbias.bytes());
        second.run(*op);
    }
}

}  // namespace
}  // namespace tutti::test
