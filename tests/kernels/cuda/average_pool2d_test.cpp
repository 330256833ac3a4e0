#include "average_pool2d.hpp"

#include "storage_cases.hpp"
#include "tutti/base/error.hpp"

namespace tutti::test {
namespace {

class CudaAveragePool2dTest : public CudaKernelTest {
  protected:
    void compare(const AveragePool2dShape& s, std::int64_t batch, DType dtype) {
        SCOPED_TRACE(std::string(name_of(dtype)) + " batch " + std::to_string(batch) + " channels " +
                     std::to_string(s.channels));
        const auto oh = static_cast<std::int64_t>(s.rows.size());
        const auto ow = static_cast<std::int64_t>(s.columns.size());
        const Shape in{batch, s.height, s.width, s.channels}, out{batch, oh, ow, s.channels};
        auto words = cuda::average_pool2d_table(s);
        const auto table = view_of(std::span(words));
        const auto op = cpu_.average_pool2d(s);

        auto x = TestTensor::random(dtype, in, 1), exact_x = converted(x, DType::f32);
        TestTensor y(dtype, out), cpu_y(DType::f32, out);
        cuda::average_pool2d_forward(s, table, x.view(), y.view(), stream_);
        op->forward(exact_x.view(), cpu_y.view());
        expect_equal(y, stored(cpu_y, dtype));

        auto dy = TestTensor::random(dtype, out, 2), exact_dy = converted(dy, DType::f32);
        TestTensor dx(dtype, in), cpu_dx(DType::f32, in);
        cuda::average_pool2d_backward(s, table, dy.view(), dx.view(), stream_);
        op->backward(exact_dy.view(), cpu_dx.view());
        expect_equal(dx, stored(cpu_dx, dtype));
    }
};
TUTTI_KERNEL_TEST(CudaAveragePool2dTest);

/// Windows that overlap and are cut at the border, that leave places out, and one over everything.
const std::vector<PoolWindow> overlapping = {{0, 2, 3}, {1, 4, 3}, {3, 6, 3}, {5, 7, 3}};
const std::vector<PoolWindow> sparse = {{1, 2, 1}, {4, 6, 2}};
const std::vector<PoolWindow> whole = {{0, 7, 7}};

TEST_P(CudaAveragePool2dTest, has_the_bits_of_the_cpu) {
    for (const DType dtype : storage_types)
        for (const std::int64_t channels : {1, 5, 8})
            for (const std::int64_t batch : {0, 1, 3}) {
                compare({7, 7, channels, overlapping, sparse}, batch, dtype);
                compare({7, 7, channels, whole, whole}, batch, dtype);
                compare({7, 7, channels, sparse, overlapping}, batch, dtype);
            }
}

TEST_P(CudaAveragePool2dTest, fills_more_than_a_block) {
    compare({7, 7, 24, overlapping, overlapping}, 9, DType::bf16);
}

TEST_P(CudaAveragePool2dTest, refuses_windows_out_of_order) {
    EXPECT_THROW(cuda::average_pool2d_table({7, 7, 1, {{4, 6, 2}, {1, 2, 1}}, whole}), UsageError);
}

}  // namespace
}  // namespace tutti::test
