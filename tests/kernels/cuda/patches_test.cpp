#include "patches.hpp"

#include "storage_cases.hpp"
#include "tutti/base/error.hpp"

namespace tutti::test {
namespace {

class CudaPatchesTest : public CudaKernelTest {};
TUTTI_KERNEL_TEST(CudaPatchesTest);

TEST_P(CudaPatchesTest, a_linear_layer_on_patches_is_the_cpus_convolution) {
    for (const std::int64_t channels : {1, 3})
        for (const std::int64_t batch : {0, 1, 3}) {
            const cuda::PatchShape s{
                .height = 9, .width = 8, .channels = channels, .patch_height = 3, .patch_width = 4};
            auto x = TestTensor::random(DType::f32, {batch, 9, 8, channels}, 1);
            auto weight = TestTensor::random(DType::f32, {5, 3, 4, channels}, 2);
            TestTensor tokens(DType::f32, {batch, 6, 12 * channels});
            cuda::extract_patches(s, x.view(), tokens.view(), stream_);

            TestTensor y(DType::f32, {batch * 6, 5}), expected(DType::f32, {batch, 3, 2, 5});
            cpu_.linear({.in = 12 * channels, .out = 5, .bias = false})
                ->forward(tokens.view().reshaped({batch * 6, 12 * channels}),
                          weight.view().reshaped({5, 12 * channels}), {}, y.view());
            cpu_.conv2d({.height = 9,
                         .width = 8,
                         .in = channels,
                         .out = 5,
                         .kernel_h = 3,
                         .kernel_w = 4,
                         .stride_h = 3,
                         .stride_w = 4,
                         .bias = false})
                ->forward(x.view(), weight.view(), {}, expected.view());
            expect_near(y.values(), expected.values(), 1e-5);
        }
}

TEST_P(CudaPatchesTest, clips_are_cut_in_time_too_and_joined_again) {
    constexpr std::int64_t pf = 2, ph = 2, pw = 3, frames = 4, height = 4, width = 6, channels = 2;
    const cuda::PatchShape s{height, width, channels, ph, pw, frames, pf};
    for (const DType dtype : {DType::u8, DType::bf16, DType::f32}) {
        TestTensor x(dtype, {2, frames, height, width, channels}), again = x;
        for (std::size_t i = 0; i < x.size(); ++i) x.set(i, static_cast<double>(i % 251));
        TestTensor tokens(dtype, {2, s.tokens(), s.token_width()});
        cuda::extract_patches(s, x.view(), tokens.view(), stream_);
        std::size_t i = 0;
        for (std::int64_t n = 0; n < 2; ++n)
            for (std::int64_t t = 0; t < s.tokens(); ++t)
                for (std::int64_t e = 0; e < s.token_width(); ++e) {
                    const std::int64_t c = e % channels, w = t % (width / pw) * pw + e / channels % pw;
                    const std::int64_t h = t / (width / pw) % (height / ph) * ph + e / channels / pw % ph;
                    const std::int64_t f = t / (width / pw) / (height / ph) * pf + e / channels / pw / ph;
                    const std::int64_t from = (((n * frames + f) * height + h) * width + w) * channels + c;
                    EXPECT_EQ(tokens.get(i++), x.get(static_cast<std::size_t>(from)));
                }
        cuda::join_patches(s, tokens.view(), again.view(), stream_);
        expect_equal(again, x.values());
    }
}

TEST_P(CudaPatchesTest, rows_of_whole_vectors_are_moved_as_such) {
    const cuda::PatchShape s{.height = 6, .width = 20, .channels = 8, .patch_height = 2, .patch_width = 4};
    auto x = TestTensor::random(DType::bf16, {3, 6, 20, 8}, 1),
         again = TestTensor(DType::bf16, {3, 6, 20, 8});
    TestTensor tokens(DType::bf16, {3, 15, 64});
    cuda::extract_patches(s, x.view(), tokens.view(), stream_);
    EXPECT_EQ(tokens.get(64), x.get(32));  // the second token begins at column 4
    cuda::join_patches(s, tokens.view(), again.view(), stream_);
    expect_equal(again, x.values());
}

TEST_P(CudaPatchesTest, refuses_patches_that_do_not_fit) {
    TestTensor x(DType::f32, {1, 5, 4, 1});
    EXPECT_THROW(cuda::extract_patches({5, 4, 1, 2, 2}, x.view(), x.view(), stream_), UsageError);
}

}  // namespace
}  // namespace tutti::test
