#include "max_pool2d.hpp"

#include <cmath>

#include "storage_cases.hpp"

namespace tutti::test {
namespace {

class CudaMaxPool2dTest : public CudaKernelTest {
  protected:
    /// Forward and backward against the CPU.
    void compare(const Pool2dShape& s, std::int64_t batch, DType dtype) {
        SCOPED_TRACE(std::string(name_of(dtype)) + " batch " + std::to_string(batch) + " channels " +
                     std::to_string(s.channels) + " kernel " + std::to_string(s.kernel_h));
        const Shape in{batch, s.height, s.width, s.channels};
        const Shape out{batch, s.out_height(), s.out_width(), s.channels};
        auto x = TestTensor::random(dtype, in, 1), exact_x = converted(x, DType::f32);
        TestTensor y(dtype, out), winner(DType::u8, out), cpu_y(DType::f32, out), cpu_winner(DType::u8, out);
        cuda::max_pool2d_forward(s, x.view(), y.view(), winner.view(), stream_);
        cpu_.max_pool2d_forward(s, exact_x.view(), cpu_y.view(), cpu_winner.view());
        expect_equal(y, cpu_y.values());
        expect_equal(winner, cpu_winner.values());

        auto dy = TestTensor::random(dtype, out, 2), exact_dy = converted(dy, DType::f32);
        TestTensor dx(dtype, in), cpu_dx(DType::f32, in);
        cuda::max_pool2d_backward(s, dy.view(), winner.view(), dx.view(), stream_);
        cpu_.max_pool2d_backward(s, exact_dy.view(), cpu_winner.view(), cpu_dx.view());
        expect_equal(dx, stored(cpu_dx, dtype));
    }
};
TUTTI_KERNEL_TEST(CudaMaxPool2dTest);

TEST_P(CudaMaxPool2dTest, has_the_bits_of_the_cpu) {
    for (const DType dtype : storage_types)
        for (const std::int64_t channels : {1, 3, 8, 24})
            for (const std::int64_t batch : {0, 1, 2}) {
                compare({.height = 7, .width = 5, .channels = channels}, batch, dtype);
                compare({.height = 7,
                         .width = 6,
                         .channels = channels,
                         .kernel_h = 3,
                         .kernel_w = 2,
                         .stride_h = 2,
                         .stride_w = 1,
                         .padding_h = 1,
                         .padding_w = 1},
                        batch, dtype);
            }
}

TEST_P(CudaMaxPool2dTest, with_relu_it_has_the_bits_of_the_cpu) {
    for (const DType dtype : storage_types)
        for (const std::int64_t channels : {1, 3, 8, 24}) {
            Pool2dShape s{.height = 7, .width = 5, .channels = channels};
            s.relu = true;
            compare(s, 2, dtype);
        }
}

TEST_P(CudaMaxPool2dTest, windows_of_3_by_3_and_stride_2_have_the_bits_of_the_cpu) {
    for (const DType dtype : storage_types)
        for (const std::int64_t channels : {1, 8, 12})
            for (const std::int64_t padding : {0, 1, 2})
                for (const std::int64_t height : {7, 8})
                    for (const bool relu : {false, true})
                        compare({.height = height,
                                 .width = 13 - height,
                                 .channels = channels,
                                 .kernel_h = 3,
                                 .kernel_w = 3,
                                 .padding_h = padding,
                                 .padding_w = 2 - padding,
                                 .relu = relu},
                                2, dtype);
}

TEST_P(CudaMaxPool2dTest, of_3_by_3_the_first_of_equals_and_the_last_nan_win) {
    Pool2dShape s{.height = 3, .width = 3, .channels = 1, .kernel_h = 3, .kernel_w = 3};
    const auto expect = [&](const std::vector<double>& x, const std::vector<double>& best,
                            const std::vector<double>& places) {
        TestTensor in(DType::bf16, {1, 3, 3, 1}, x);
        const Shape out{1, s.out_height(), s.out_width(), 1};
        TestTensor y(DType::bf16, out), winner(DType::u8, out);
        cuda::max_pool2d_forward(s, in.view(), y.view(), winner.view(), stream_);
        expect_equal(y, best);
        expect_equal(winner, places);
    };
    expect({1, 2, 2, 0, 2, 1, 1, 1, 1}, {2}, {1});
    expect({1, NAN, 2, 0, NAN, 1, 1, 9, 1}, {NAN}, {4});
    const std::vector<double> lowest(9, -INFINITY);
    expect(lowest, {-INFINITY}, {0});
    s.padding_h = s.padding_w = 1;
    expect(lowest, {-INFINITY, -INFINITY, -INFINITY, -INFINITY}, {4, 3, 1, 0});
}

TEST_P(CudaMaxPool2dTest, pixels_between_windows_get_no_gradient) {
    compare({.height = 8,
             .width = 9,
             .channels = 8,
             .kernel_h = 2,
             .kernel_w = 1,
             .stride_h = 3,
             .stride_w = 4,
             .padding_h = 0,
             .padding_w = 0},
            1, DType::f32);
}

TEST_P(CudaMaxPool2dTest, the_first_of_equals_and_the_last_nan_win) {
    const Pool2dShape s{.height = 2, .width = 6, .channels = 1};
    TestTensor x(DType::f32, {1, 2, 6, 1}, {1, 1, NAN, 2, -1, NAN, 1, 1, 3, 4, NAN, 5});
    TestTensor y(DType::f32, {1, 1, 3, 1}), winner(DType::u8, {1, 1, 3, 1});
    cuda::max_pool2d_forward(s, x.view(), y.view(), winner.view(), stream_);
    expect_equal(y, {1, NAN, NAN});
    expect_equal(winner, {0, 0, 2});
}

}  // namespace
}  // namespace tutti::test
