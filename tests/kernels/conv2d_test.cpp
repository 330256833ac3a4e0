#include "backend.hpp"
#include "reference.hpp"
#include "tutti/base/error.hpp"

namespace tutti::test {
namespace {

class Conv2dTest : public KernelTest {};
class Conv2dReferenceTest : public KernelTest {};
TUTTI_TEST_ON(Conv2dTest, backends);
TUTTI_TEST_ON(Conv2dReferenceTest, reference_backends);

struct Case {
    const char* name;
    Conv2dShape shape;
};

std::vector<Case> small_cases() {
    return {
        {"3x3",
         {.height = 7,
          .width = 5,
          .in = 3,
          .out = 4,
          .kernel_h = 3,
          .kernel_w = 3,
          .padding_h = 1,
          .padding_w = 1}},
        {"one channel",
         {.height = 6,
          .width = 6,
          .in = 1,
          .out = 2,
          .kernel_h = 3,
          .kernel_w = 3,
          .padding_h = 1,
          .padding_w = 1}},
        {"3x2, stride 2x1, no bias",
         {.height = 8,
          .width = 9,
          .in = 2,
          .out = 3,
          .kernel_h = 3,
          .kernel_w = 2,
          .stride_h = 2,
          .padding_h = 1,
          .bias = false}},
        {"last windows do not reach the border",
         {.height = 11,
          .width = 10,
          .in = 1,
          .out = 5,
          .kernel_h = 5,
          .kernel_w = 4,
          .stride_h = 3,
          .stride_w = 2,
          .padding_h = 2,
          .padding_w = 1}},
        {"1x1", {.height = 4, .width = 3, .in = 4, .out = 6}},
        {"1x1, stride 2", {.height = 6, .width = 7, .in = 4, .out = 6, .stride_h = 2, .stride_w = 2}},
        {"patches",
         {.height = 6,
          .width = 4,
          .in = 3,
          .out = 5,
          .kernel_h = 3,
          .kernel_w = 2,
          .stride_h = 3,
          .stride_w = 2}},
        {"patches and a rest",
         {.height = 7,
          .width = 5,
          .in = 3,
          .out = 5,
          .kernel_h = 3,
          .kernel_w = 2,
          .stride_h = 3,
          .stride_w = 2}},
        {"patches of wide rows",
         {.height = 8,
          .width = 16,
          .in = 4,
          .out = 8,
          .kernel_h = 4,
          .kernel_w = 8,
          .stride_h = 4,
          .stride_w = 8,
          .bias = false}},
        {"1x1, two groups", {.height = 4, .width = 4, .in = 4, .out = 6, .groups = 2}},
        {"1x1, padded", {.height = 3, .width = 2, .in = 2, .out = 3, .padding_h = 1, .padding_w = 1}},
        {"depthwise",
         {.height = 5,
          .width = 5,
          .in = 6,
          .out = 6,
          .kernel_h = 3,
          .kernel_w = 3,
          .padding_h = 1,
          .padding_w = 1,
          .groups = 6}},
        {"depthwise, two outputs each",
         {.height = 5,
          .width = 6,
          .in = 4,
          .out = 8,
          .kernel_h = 3,
          .kernel_w = 3,
          .padding_h = 1,
          .padding_w = 1,
          .groups = 4}},
        {"three groups, stride 2",
         {.height = 6,
          .width = 5,
          .in = 6,
          .out = 9,
          .kernel_h = 3,
          .kernel_w = 3,
          .stride_h = 2,
          .stride_w = 2,
          .padding_h = 1,
          .padding_w = 1,
          .groups = 3}},
        {"kernel as large as the image",
         {.height = 5, .width = 7, .in = 2, .out = 3, .kernel_h = 5, .kernel_w = 7}},
        {"one pixel, 3x3",
         {.height = 1,
          .width = 1,
          .in = 4,
          .out = 6,
          .kernel_h = 3,
          .kernel_w = 3,
          .padding_h = 1,
          .padding_w = 1,
          .bias = false}},
        {"one window that moves by 2",
         {.height = 2,
          .width = 1,
          .in = 3,
          .out = 5,
          .kernel_h = 3,
          .kernel_w = 4,
          .stride_h = 2,
          .stride_w = 3,
          .padding_h = 1,
          .padding_w = 2}},
        {"one window, two groups",
         {.height = 2,
          .width = 2,
          .in = 4,
          .out = 6,
          .kernel_h = 3,
          .kernel_w = 3,
          .stride_h = 2,
          .stride_w = 2,
          .padding_h = 1,
          .padding_w = 1,
          .groups = 2}},
        {"image smaller than the kernel",
         {.height = 2,
          .width = 2,
          .in = 1,
          .out = 2,
          .kernel_h = 3,
          .kernel_w = 3,
          .padding_h = 2,
          .padding_w = 2}},
    };
}

/// Sizes that fill vectors and blocks, exactly and not.
std::vector<Case> all_cases() {
    auto cases = small_cases();
    cases.push_back({"odd channels",
                     {.height = 3,
                      .width = 3,
                      .in = 17,
                      .out = 33,
                      .kernel_h = 3,
                      .kernel_w = 3,
                      .padding_h = 1,
                      .padding_w = 1}});
    cases.push_back({"even channels",
                     {.height = 8,
                      .width = 8,
                      .in = 16,
                      .out = 32,
                      .kernel_h = 3,
                      .kernel_w = 3,
                      .padding_h = 1,
                      .padding_w = 1}});
    cases.push_back({"two wide groups",
                     {.height = 4,
                      .width = 5,
                      .in = 32,
                      .out = 32,
                      .kernel_h = 3,
                      .kernel_w = 3,
                      .padding_h = 1,
                      .padding_w = 1,
                      .groups = 2}});
    cases.push_back({"wide depthwise, stride 2",
                     {.height = 9,
                      .width = 8,
                      .in = 32,
                      .out = 32,
                      .kernel_h = 3,
                      .kernel_w = 3,
                      .stride_h = 2,
                      .stride_w = 2,
                      .padding_h = 1,
                      .padding_w = 1,
                      .groups = 32}});
    cases.push_back(
        {"wide 1x1, stride 2",
         {.height = 8, .width = 8, .in = 32, .out = 48, .stride_h = 2, .stride_w = 2, .bias = false}});
    return cases;
}

/// Inputs, outputs and gradients of one convolution.
struct Tensors {
    TestTensor x, weight, bias, dy, y, dx, dweight, dbias;
    Tensors(DType dtype, const Conv2dShape& shape, std::int64_t batch, unsigned seed = 1)
        : Tensors(dtype, Extents(shape, batch), seed) {
        has_bias = shape.bias;
    }
    void run(Conv2dOp& op) {
        op.forward(x.view(), weight.view(), has_bias ? bias.view() : TensorView{}, y.view());
        op.backward(x.view(), weight.view(), dy.view(), dx.view(), dweight.view(),
                    has_bias ? dbias.view() : TensorView{});
    }
    bool has_bias = true;

  private:
    Tensors(DType dtype, const Extents& extents, unsigned seed)
        : x(TestTensor::random(dtype, extents.x, seed)),
          weight(TestTensor::random(dtype, extents.weight, seed + 1)),
          bias(TestTensor::random(dtype, extents.bias, seed + 2)),
          dy(TestTensor::random(dtype, extents.y, seed + 3)),
          y(dtype, extents.y),
          dx(dtype, extents.x),
          dweight(dtype, extents.weight),
          dbias(dtype, extents.bias) {}
};

TEST_P(Conv2dTest, computes_a_hand_sized_case) {
    // One 3×3 image, a 2×2 kernel: a cross-correlation, the kernel is not flipped.
    auto op = ops_->conv2d({.height = 3, .width = 3, .in = 1, .out = 1, .kernel_h = 2, .kernel_w = 2});
    auto x = tensor({1, 3, 3, 1}, {1, 2, 3, 4, 5, 6, 7, 8, 9});
    auto weight = tensor({1, 2, 2, 1}, {1, 2, 3, 4}), bias = tensor({1}, {0.5});
    auto y = tensor({1, 2, 2, 1});
    op->forward(x.view(), weight.view(), bias.view(), y.view());
    expect_equal(y, {37.5, 47.5, 67.5, 77.5});

    auto dy = tensor({1, 2, 2, 1}, {1, 0, 0, 2});
    auto dx = tensor({1, 3, 3, 1}), dweight = tensor({1, 2, 2, 1}), dbias = tensor({1});
    op->backward(x.view(), weight.view(), dy.view(), dx.view(), dweight.view(), dbias.view());
    expect_equal(dx, {1, 2, 0, 3, 6, 4, 0, 6, 8});
    expect_equal(dweight, {11, 14, 20, 23});
    expect_equal(dbias, {3});
}

TEST_P(Conv2dTest, agrees_with_the_definition_while_the_batch_size_changes) {
    for (const Case& c : all_cases()) {
        auto op = ops_->conv2d(c.shape);
        unsigned seed = 1;
        for (const std::int64_t batch : {3, 1, 2, 3}) {
            SCOPED_TRACE(testing::Message() << c.name << ", batch " << batch);
            Tensors t(dtype_, c.shape, batch, seed += 4);
            t.run(*op);
            expect_sums(t.y, reference_forward(c.shape, batch, t.x, t.weight, t.bias), unit_roundoff_);
            const Gradients expected = reference_backward(c.shape, batch, t.x, t.weight, t.dy);
            expect_sums(t.dx, expected.dx, unit_roundoff_);
            expect_sums(t.dweight, expected.dweight, unit_roundoff_);
            if (c.shape.bias) expect_sums(t.dbias, expected.dbias, unit_roundoff_);
        }
    }
}

TEST_P(Conv2dTest, several_operators_share_their_scratch) {
    const auto cases = all_cases();
    std::vector<std::unique_ptr<Conv2dOp>> operators;
    for (const Case& c : cases) operators.push_back(ops_->conv2d(c.shape));
    for (int round = 0; round < 2; ++round)
        for (std::size_t i = 0; i < cases.size(); ++i) {
            SCOPED_TRACE(cases[i].name);
            Tensors t(dtype_, cases[i].shape, 2);
            t.run(*operators[i]);
            expect_sums(t.y, reference_forward(cases[i].shape, 2, t.x, t.weight, t.bias), unit_roundoff_);
        }
}

TEST_P(Conv2dTest, skips_an_undefined_input_gradient) {
    for (const Case& c : all_cases()) {
        SCOPED_TRACE(c.name);
        Tensors t(dtype_, c.shape, 2);
        ops_->conv2d(c.shape)->backward(t.x.view(), t.weight.view(), t.dy.view(), {}, t.dweight.view(),
                                        c.shape.bias ? t.dbias.view() : TensorView{});
        expect_sums(t.dweight, reference_backward(c.shape, 2, t.x, t.weight, t.dy).dweight, unit_roundoff_);
    }
}

TEST_P(Conv2dTest, adds_to_what_dx_holds_where_it_is_asked_to) {
    std::size_t adding = 0;
    for (Case c : all_cases()) {
        if (!ops_->adds_conv2d_gradient(c.shape, dtype_)) continue;
        ++adding;
        SCOPED_TRACE(c.name);
        auto plain = ops_->conv2d(c.shape);
        c.shape.adds_to_dx = true;
        auto op = ops_->conv2d(c.shape);
        for (const std::int64_t batch : {2, 3}) {
            Tensors t(dtype_, c.shape, batch);
            t.dx = random(t.x.view().shape, 9);
            const std::vector<double> before = t.dx.values();
            const Sums own = reference_backward(c.shape, batch, t.x, t.weight, t.dy).dx;
            Sums expected = own;
            for (std::size_t i = 0; i < own.size(); ++i) expected[i].add(before[i]);
            t.run(*op);
            expect_sums(t.dx, expected, unit_roundoff_);
            // One of the same shape that does not add has a plan of its own.
            t.run(*plain);
            expect_sums(t.dx, own, unit_roundoff_);
        }
    }
    if (adding == 0) GTEST_SKIP() << "this backend has the sum in a pass of its own";
}

TEST_P(Conv2dTest, an_empty_batch_has_zero_gradients) {
    for (const Case& c : all_cases()) {
        SCOPED_TRACE(c.name);
        auto op = ops_->conv2d(c.shape);
        Tensors empty(dtype_, c.shape, 0);
        empty.run(*op);
        expect_equal(empty.dweight, std::vector<double>(empty.dweight.size(), 0.0));
        if (c.shape.bias) expect_equal(empty.dbias, std::vector<double>(empty.dbias.size(), 0.0));
    }
}

TEST_P(Conv2dTest, gives_the_same_bits_each_time) {
    const Conv2dShape shape{.height = 14,
                            .width = 14,
                            .in = 32,
                            .out = 64,
                            .kernel_h = 3,
                            .kernel_w = 3,
                            .padding_h = 1,
                            .padding_w = 1};
    Tensors first(dtype_, shape, 9), second(dtype_, shape, 9);
    auto op = ops_->conv2d(shape);
    first.run(*op);
    second.run(*ops_->conv2d(shape));
    EXPECT_EQ(first.y.bytes(), second.y.bytes());
    EXPECT_EQ(first.dx.bytes(), second.dx.bytes());
    EXPECT_EQ(first.dweight.bytes(), second.dweight.bytes());
    EXPECT_EQ(first.dbias.bytes(), second.dbias.bytes());
    second.run(*op);
    EXPECT_EQ(first.dweight.bytes(), second.dweight.bytes());
}

TEST_P(Conv2dTest, refuses_shapes_that_make_no_sense_and_names_the_dimension) {
    const auto message = [&](const Conv2dShape& shape) -> std::string {
        try {
            ops_->conv2d(shape);
        } catch (const UsageError& error) {
            return error.what();
        }
        return "accepted";
    };
    EXPECT_NE(message({.height = 4, .width = 4, .in = 1, .out = 1, .kernel_h = 5}).find("height 5 exceeds"),
              std::string::npos);
    EXPECT_NE(message({.height = 4, .width = 4, .in = 1, .out = 1, .stride_w = 0}).find("stride_w is 0"),
              std::string::npos);
    EXPECT_NE(message({.height = 4, .width = 4, .in = 3, .out = 4, .groups = 2}).find("input channels 3"),
              std::string::npos);
    EXPECT_NE(message({.height = 4, .width = 4, .in = 4, .out = 3, .groups = 2}).find("output channels 3"),
              std::string::npos);
}

TEST_P(Conv2dReferenceTest, gradients_agree_with_finite_differences) {
    for (const Case& c : small_cases()) {
        SCOPED_TRACE(c.name);
        auto op = ops_->conv2d(c.shape);
        Tensors t(dtype_, c.shape, 2);
        t.run(*op);
        const auto loss = [&] {
            op->forward(t.x.view(), t.weight.view(), c.shape.bias ? t.bias.view() : TensorView{}, t.y.view());
            return dot(t.y, t.dy);
        };
        // The loss is linear in each argument: only rounding, divided by the step, is left.
        expect_near(t.dx.values(), numeric_gradient(t.x, 0.01, loss), 1e-11);
        expect_near(t.dweight.values(), numeric_gradient(t.weight, 0.01, loss), 1e-11);
        if (c.shape.bias) expect_near(t.dbias.values(), numeric_gradient(t.bias, 0.01, loss), 1e-11);
    }
}

}  // namespace
}  // namespace tutti::test
