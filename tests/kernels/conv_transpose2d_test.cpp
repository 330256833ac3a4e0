#include "backend.hpp"
#include "reference.hpp"
#include "tutti/base/error.hpp"

namespace tutti::test {
namespace {

class ConvTranspose2dTest : public KernelTest {};
class ConvTranspose2dReferenceTest : public KernelTest {};
TUTTI_TEST_ON(ConvTranspose2dTest, backends);
TUTTI_TEST_ON(ConvTranspose2dReferenceTest, reference_backends);

// torch.nn.functional.conv_transpose2d: every input pixel stamps the kernel, scaled, two pixels apart.
TEST_P(ConvTranspose2dTest, stamps_the_kernel) {
    const ConvTranspose2dShape shape{.height = 2,
                                     .width = 2,
                                     .in = 1,
                                     .out = 1,
                                     .kernel_h = 2,
                                     .kernel_w = 3,
                                     .stride_h = 2,
                                     .stride_w = 2};
    ASSERT_EQ(shape.out_height(), 4);
    ASSERT_EQ(shape.out_width(), 5);
    auto x = tensor({1, 2, 2, 1}, {1, 2, 3, 4}), weight = tensor({1, 2, 3, 1}, {1, 2, 3, 4, 5, 6});
    auto bias = tensor({1}, {100}), y = tensor({1, 4, 5, 1});
    ops_->conv_transpose2d(shape)->forward(x.view(), weight.view(), bias.view(), y.view());
    expect_equal(y, {101, 102, 105, 104, 106, 104, 105, 114, 110, 112,  //
                     103, 106, 113, 108, 112, 112, 115, 134, 120, 124});
}

std::vector<ConvTranspose2dShape> transposed_shapes() {
    return {{.height = 3, .width = 4, .in = 2, .out = 3, .kernel_h = 3, .kernel_w = 2, .bias = true},
            {.height = 3,
             .width = 2,
             .in = 4,
             .out = 2,
             .kernel_h = 3,
             .kernel_w = 3,
             .stride_h = 2,
             .stride_w = 3,
             .padding_h = 1,
             .padding_w = 2,
             .output_padding_h = 1,
             .output_padding_w = 2,
             .bias = true},
            {.height = 4,
             .width = 4,
             .in = 16,
             .out = 16,
             .kernel_h = 2,
             .kernel_w = 2,
             .stride_h = 2,
             .stride_w = 2,
             .bias = false},
            {.height = 8,  // the locator's, which doubles an image
             .width = 4,
             .in = 64,
             .out = 32,
             .kernel_h = 4,
             .kernel_w = 4,
             .stride_h = 2,
             .stride_w = 2,
             .padding_h = 1,
             .padding_w = 1,
             .bias = true},
            {.height = 5, .width = 5, .in = 3, .out = 5, .bias = true}};
}

// y[h·s − p + kh] += x[h]·weight[kh]: with x and y exchanged, these are the products of a convolution.
Conv2dShape exchanged(const ConvTranspose2dShape& s) {
    return {.height = s.out_height(),
            .width = s.out_width(),
            .in = s.out,
            .out = s.in,
            .kernel_h = s.kernel_h,
            .kernel_w = s.kernel_w,
            .stride_h = s.stride_h,
            .stride_w = s.stride_w,
            .padding_h = s.padding_h,
            .padding_w = s.padding_w,
            .groups = 1,
            .bias = false};
}

TEST_P(ConvTranspose2dTest, agrees_with_the_definition) {
    for (const ConvTranspose2dShape& s : transposed_shapes())
        for (const std::int64_t batch : {0, 1, 3}) {
            SCOPED_TRACE(testing::Message() << s.in << " -> " << s.out << ", batch " << batch);
            const Shape in{batch, s.height, s.width, s.in}, out{batch, s.out_height(), s.out_width(), s.out};
            const Shape kernel{s.in, s.kernel_h, s.kernel_w, s.out};
            auto x = random(in, 1), weight = random(kernel, 2), bias = random({s.out}, 3);
            auto dy = random(out, 4);
            auto y = tensor(out), dx = tensor(in), dweight = tensor(kernel), dbias = tensor({s.out});
            Sums y_sums(y.size()), dx_sums(x.size()), dweight_sums(weight.size()), dbias_sums(bias.size());
            const std::vector<double> xs = x.values(), dys = dy.values(), weights = weight.values(),
                                      biases = bias.values();
            const auto add = [&](std::size_t i, std::size_t j, std::size_t k, std::size_t n) {
                for (const std::size_t end = i + n; i < end; ++i, ++j) {
                    y_sums[i].add(xs[k] * weights[j]);
                    dx_sums[k].add(dys[i] * weights[j]);
                    dweight_sums[j].add(dys[i] * xs[k]);
                }
            };
            for_each_dot_product(exchanged(s), batch, add);
            for (std::size_t i = 0; i < y.size(); ++i) {
                if (s.bias) y_sums[i].add(biases[i % biases.size()]);
                dbias_sums[i % biases.size()].add(dys[i]);
            }
            const auto op = ops_->conv_transpose2d(s);
            const TensorView none;
            op->forward(x.view(), weight.view(), s.bias ? bias.view() : none, y.view());
            op->backward(x.view(), weight.view(), dy.view(), dx.view(), dweight.view(),
                         s.bias ? dbias.view() : none);
            expect_sums(y, y_sums, unit_roundoff_);
            expect_sums(dx, dx_sums, unit_roundoff_);
            expect_sums(dweight, dweight_sums, unit_roundoff_);
            if (s.bias) expect_sums(dbias, dbias_sums, unit_roundoff_);
        }
}

TEST_P(ConvTranspose2dTest, refuses_output_padding_as_large_as_the_stride) {
    EXPECT_THROW(ops_->conv_transpose2d({.height = 2, .width = 2, .in = 1, .out = 1, .output_padding_h = 1}),
                 UsageError);
}

TEST_P(ConvTranspose2dReferenceTest, the_gradient_agrees_with_finite_differences) {
    const ConvTranspose2dShape s = transposed_shapes()[1];
    const Shape in{2, s.height, s.width, s.in}, out{2, s.out_height(), s.out_width(), s.out};
    auto x = random(in, 1), weight = random({s.in, s.kernel_h, s.kernel_w, s.out}, 2);
    auto bias = random({s.out}, 3), dy = random(out, 4), y = tensor(out), dx = tensor(in);
    auto dweight = tensor({s.in, s.kernel_h, s.kernel_w, s.out}), dbias = tensor({s.out});
    const auto op = ops_->conv_transpose2d(s);
    op->backward(x.view(), weight.view(), dy.view(), dx.view(), dweight.view(), dbias.view());
    const auto loss = [&] {
        op->forward(x.view(), weight.view(), bias.view(), y.view());
        return dot(y, dy);
    };
    expect_near(dx.values(), numeric_gradient(x, 1e-3, loss), 1e-10);
    expect_near(dweight.values(), numeric_gradient(weight, 1e-3, loss), 1e-10);
    expect_near(dbias.values(), numeric_gradient(bias, 1e-3, loss), 1e-10);
}

}  // namespace
}  // namespace tutti::test
