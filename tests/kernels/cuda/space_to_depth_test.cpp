#include "space_to_depth.hpp"

#include "../reference.hpp"
#include "storage_cases.hpp"

namespace tutti::test {
namespace {

/// Odd and even sizes, kernels and paddings; 4 and 8 windows side by side; borders that no window reaches.
std::vector<Conv2dShape> foldable() {
    return {{11, 8, 3, 2, 7, 7, 2, 2, 3, 3},
            {9, 17, 1, 3, 5, 6, 2, 2, 0, 2},
            {7, 16, 4, 2, 6, 5, 2, 2, 2, 2},
            {10, 13, 2, 1, 8, 7, 2, 2, 1, 0},
            {5, 9, 3, 5, 5, 9, 2, 2, 4, 3}};
}

TEST(Folded, is_a_strided_convolution_of_few_channels_with_a_large_kernel) {
    const Conv2dShape stem{224, 224, 3, 64, 7, 7, 2, 2, 3, 3};
    const std::optional<Conv2dShape> f = cuda::folded(stem);
    ASSERT_TRUE(f);
    EXPECT_EQ(f->height, 115);
    EXPECT_EQ(f->width, 29);
    EXPECT_EQ(f->in, 64);
    EXPECT_EQ(f->out, 256);
    EXPECT_EQ(f->kernel_h, 4);
    EXPECT_EQ(f->kernel_w, 2);
    EXPECT_EQ(f->out_height(), 112);
    EXPECT_EQ(f->out_width() * 4, 112);
    EXPECT_FALSE(f->bias);
    const auto changed = [&](const auto& change) {
        Conv2dShape other = stem;
        change(other);
        return cuda::folded(other).has_value();
    };
    EXPECT_TRUE(changed([](Conv2dShape& s) { s.in = 4; }));
    EXPECT_FALSE(changed([](Conv2dShape& s) { s.in = 5; }));
    EXPECT_FALSE(changed([](Conv2dShape& s) { s.stride_h = 1; }));
    EXPECT_FALSE(changed([](Conv2dShape& s) { s.stride_w = 4; }));
    EXPECT_FALSE(changed([](Conv2dShape& s) { s.kernel_h = 3; }));
    EXPECT_FALSE(changed([](Conv2dShape& s) { s.kernel_w = 3; }));
    EXPECT_FALSE(changed([](Conv2dShape& s) { s.width = 222; })) << "111 windows are no fours";
    EXPECT_FALSE(changed([](Conv2dShape& s) { s.groups = s.in; }));
    for (const Conv2dShape& shape : foldable()) {
        const std::optional<Conv2dShape> small = cuda::folded(shape);
        ASSERT_TRUE(small);
        EXPECT_EQ(small->out_height(), shape.out_height());
        EXPECT_EQ(small->out_width() * 4, shape.out_width());
    }
}

class CudaSpaceToDepthTest : public CudaKernelTest {};
TUTTI_KERNEL_TEST(CudaSpaceToDepthTest);

TEST_P(CudaSpaceToDepthTest, the_folded_convolution_is_the_convolution) {
    unsigned seed = 1;
    for (Conv2dShape shape : foldable())
        for (const DType given : storage_types)
            for (const DType computed : storage_types) {
                shape.bias = false;
                SCOPED_TRACE(testing::Message() << shape.height << " x " << shape.width << " from "
                                                << name_of(given) << " to " << name_of(computed));
                const Conv2dShape f = cuda::folded(shape).value();
                const Extents small(shape, 2), large(f, 2);
                auto x = TestTensor::random(given, small.x, ++seed),
                     weight = TestTensor::random(given, small.weight, ++seed);
                TestTensor cells(computed, large.x), weights(computed, large.weight);
                cuda::space_to_depth(shape, x.view(), cells.view(), stream_);
                cuda::fold_weight(shape, weight.view(), weights.view(), stream_);
                const TestTensor rounded_x = converted(x, computed),
                                 rounded_weight = converted(weight, computed);
                const Sums y = reference_forward(f, 2, cells, weights, {DType::f32, large.bias}),
                           expected = reference_forward(shape, 2, rounded_x, rounded_weight,
                                                        {DType::f32, small.bias});
                ASSERT_EQ(y.size(), expected.size());
                for (std::size_t i = 0; i < y.size(); ++i)
                    ASSERT_NEAR(y[i].value, expected[i].value, 1e-12) << i;
            }
}

TEST_P(CudaSpaceToDepthTest, of_no_images_is_nothing) {
    const Conv2dShape shape = foldable()[0], f = cuda::folded(shape).value();
    TestTensor x(DType::bf16, Extents(shape, 0).x), cells(DType::bf16, Extents(f, 0).x);
    cuda::space_to_depth(shape, x.view(), cells.view(), stream_);
}

}  // namespace
}  // namespace tutti::test
