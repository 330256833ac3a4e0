#include "tokens.hpp"

#include "storage_cases.hpp"

namespace tutti::test {
namespace {

struct TokenSizes {
    std::int64_t samples, tokens, width;
};
constexpr TokenSizes token_sizes[] = {{0, 3, 8}, {1, 1, 1}, {3, 5, 7}, {2, 9, 24}, {5, 4, 40}};

class CudaTokensTest : public CudaKernelTest {};
TUTTI_KERNEL_TEST(CudaTokensTest);

TEST_P(CudaTokensTest, embedding_has_the_bits_of_the_cpu) {
    for (const DType dtype : storage_types)
        for (const TokenSizes& s : token_sizes)
            for (const bool with_class : {true, false}) {
                const std::int64_t rows = s.tokens + (with_class ? 1 : 0);
                const Shape in{s.samples, s.tokens, s.width}, out{s.samples, rows, s.width};
                auto x = TestTensor::random(dtype, in, 1), exact_x = converted(x, DType::f32);
                auto token = TestTensor::random(dtype, {s.width}, 2),
                     exact_token = converted(token, DType::f32);
                auto places = TestTensor::random(dtype, {rows, s.width}, 3);
                auto exact_places = converted(places, DType::f32);
                TestTensor y(dtype, out), cpu_y(DType::f32, out);
                const TensorView none;
                cuda::embed_tokens_forward(x.view(), with_class ? token.view() : none, places.view(),
                                           y.view(), stream_);
                cpu_.embed_tokens_forward(exact_x.view(), with_class ? exact_token.view() : none,
                                          exact_places.view(), cpu_y.view());
                expect_equal(y, stored(cpu_y, dtype));

                auto dy = TestTensor::random(dtype, out, 4), exact_dy = converted(dy, DType::f32);
                TestTensor dx(dtype, in), cpu_dx(DType::f32, in);
                TestTensor dtoken(DType::f32, {s.width}), cpu_dtoken(DType::f32, {s.width});
                TestTensor dplaces(DType::f32, {rows, s.width}), cpu_dplaces(DType::f32, {rows, s.width});
                cuda::embed_tokens_backward(dy.view(), dx.view(), with_class ? dtoken.view() : none,
                                            dplaces.view(), stream_);
                cpu_.embed_tokens_backward(exact_dy.view(), cpu_dx.view(),
                                           with_class ? cpu_dtoken.view() : none, cpu_dplaces.view());
                expect_equal(dx, cpu_dx.values());
                expect_equal(dtoken, cpu_dtoken.values());
                expect_equal(dplaces, cpu_dplaces.values());
            }
}

TEST_P(CudaTokensTest, embedding_backward_can_leave_the_input_out) {
    auto dy = TestTensor::random(DType::f32, {2, 3, 4}, 1);
    TestTensor dplaces(DType::f32, {3, 4});
    cuda::embed_tokens_backward(dy.view(), {}, {}, dplaces.view(), stream_);
    EXPECT_EQ(dplaces.get(11), static_cast<float>(dy.get(11)) + static_cast<float>(dy.get(23)));
}

TEST_P(CudaTokensTest, pooling_has_the_bits_of_the_cpu) {
    for (const DType dtype : storage_types)
        for (const TokenSizes& s : token_sizes)
            for (const auto pooling : {TokenPooling::first, TokenPooling::mean}) {
                const Shape in{s.samples, s.tokens, s.width}, out{s.samples, s.width};
                auto x = TestTensor::random(dtype, in, 1), exact_x = converted(x, DType::f32);
                TestTensor y(dtype, out), cpu_y(DType::f32, out);
                cuda::pool_tokens_forward(pooling, x.view(), y.view(), stream_);
                cpu_.pool_tokens_forward(pooling, exact_x.view(), cpu_y.view());
                expect_equal(y, stored(cpu_y, dtype));

                auto dy = TestTensor::random(dtype, out, 2), exact_dy = converted(dy, DType::f32);
                TestTensor dx(dtype, in), cpu_dx(DType::f32, in);
                cuda::pool_tokens_backward(pooling, dy.view(), dx.view(), stream_);
                cpu_.pool_tokens_backward(pooling, exact_dy.view(), cpu_dx.view());
                expect_equal(dx, stored(cpu_dx, dtype));
            }
}

}  // namespace
}  // namespace tutti::test
