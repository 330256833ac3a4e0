#include "layer_norm.hpp"

#include <cstring>

#include "kernel_test.hpp"
#include "tutti/base/error.hpp"

namespace tutti::test {
namespace {

/// Rows and widths: none, one, less and more than a warp's vectors, as many as a lane can hold and one fewer,
/// and rows that take a whole block.
constexpr std::pair<std::int64_t, std::int64_t> row_sizes[] = {
    {0, 5},   {1, 1},   {1, 8},   {3, 45},   {19, 48},  {3, 256},  {9, 264},
    {2, 512}, {5, 760}, {6, 768}, {3, 1016}, {2, 1024}, {3, 1027}, {2, 2056}};

class CudaLayerNormTest : public CudaKernelTest {
  protected:
    struct Batch {
        TestTensor x, dy, gamma, beta, y, statistics, dx, dgamma, dbeta;
        Batch(DType dtype, std::int64_t rows, std::int64_t width)
            : x(TestTensor::random(dtype, {rows, width}, 1)),
              dy(TestTensor::random(dtype, {rows, width}, 2)),
              gamma(TestTensor::random(DType::f32, {width}, 3)),
              beta(TestTensor::random(DType::f32, {width}, 4)),
              y(dtype, {rows, width}),
              statistics(DType::f64, {rows, 2}),
              dx(dtype, {rows, width}),
              dgamma(DType::f32, {width}),
              dbeta(DType::f32, {width}) {}
        /// The same numbers in fp64, whose outputs these are compared with.
        Batch in_fp64() {
            Batch b(DType::f64, x.view().shape[0], x.view().shape[1]);
            b.x = exact(x);
            b.dy = exact(dy);
            b.gamma = exact(gamma);
            b.beta = exact(beta);
            b.dgamma = exact(dgamma);
            b.dbeta = exact(dbeta);
            return b;
        }
        static TestTensor exact(TestTensor& tensor) {
            return {DType::f64, tensor.view().shape, tensor.values()};
        }
    };

    void run(Batch& b, const TensorView& dx, const TensorView& addend = {}) {
        const std::int64_t rows = b.x.view().shape[0], width = b.x.view().shape[1];
        cuda::layer_norm_forward(b.x.view(), b.gamma.view(), b.beta.view(), 1e-3, b.y.view(),
                                 b.statistics.view(), stream_);
        TestTensor workspace(DType::f32, {cuda::layer_norm_workspace(rows, width)});
        cuda::layer_norm_backward(b.x.view(), b.gamma.view(), b.statistics.view(), b.dy.view(),
                                  workspace.view(), dx, b.dgamma.view(), b.dbeta.view(), addend, stream_);
    }
    void run(Batch& b) { run(b, b.dx.view()); }
    Batch expected(Batch& b, const TensorView& addend = {}) {
        Batch e = b.in_fp64();
        exact_.layer_norm_forward(e.x.view(), e.gamma.view(), e.beta.view(), 1e-3, e.y.view(),
                                  e.statistics.view());
        exact_.layer_norm_backward(e.x.view(), e.gamma.view(), e.statistics.view(), e.dy.view(), e.dx.view(),
                                   e.dgamma.view(), e.dbeta.view(), addend);
        return e;
    }
};
TUTTI_KERNEL_TEST(CudaLayerNormTest);

TEST_P(CudaLayerNormTest, agrees_with_the_cpu_in_fp64) {
    for (const DType dtype : {DType::f32, DType::bf16})
        for (const auto& [rows, width] : row_sizes) {
            SCOPED_TRACE(testing::Message() << name_of(dtype) << ", " << rows << " x " << width);
            Batch b(dtype, rows, width);
            run(b);
            Batch e = expected(b);
            // Sums of `width` numbers along a tree, times a scale of at most 32 (width 1: variance 0).
            const double tolerance = 32 * 32 * 0x1p-24, stored = dtype == DType::bf16 ? 0x1p-7 : tolerance;
            expect_near(b.statistics.values(), e.statistics.values(), tolerance);
            expect_near(b.y.values(), e.y.values(), stored);
            expect_near(b.dx.values(), e.dx.values(), stored);
            expect_near(b.dgamma.values(), e.dgamma.values(), tolerance);
            expect_near(b.dbeta.values(), e.dbeta.values(), tolerance);
        }
}

TEST_P(CudaLayerNormTest, adds_to_the_input_gradient) {
    for (const DType dtype : {DType::f32, DType::bf16})
        for (const auto& [rows, width] : row_sizes) {
            Batch b(dtype, rows, width);
            TestTensor addend = TestTensor::random(dtype, {rows, width}, 5), exact = Batch::exact(addend);
            Batch e = expected(b, exact.view());
            const double tolerance = 32 * 32 * 0x1p-24, stored = dtype == DType::bf16 ? 0x1p-6 : tolerance;
            for (const bool in_place : {false, true}) {
                SCOPED_TRACE(testing::Message()
                             << name_of(dtype) << ", " << rows << " x " << width << ", " << in_place);
                TestTensor& to = in_place ? addend : b.dx;
                run(b, to.view(), addend.view());
                expect_near(to.values(), e.dx.values(), stored);
                expect_near(b.dgamma.values(), e.dgamma.values(), tolerance);
            }
        }
}

TEST_P(CudaLayerNormTest, the_input_gradient_may_take_the_outputs_place) {
    for (const DType dtype : {DType::f32, DType::bf16})
        for (const auto& [rows, width] : row_sizes) {
            SCOPED_TRACE(testing::Message() << name_of(dtype) << ", " << rows << " x " << width);
            Batch apart(dtype, rows, width), b(dtype, rows, width);
            run(apart);
            run(b, b.dy.view());
            EXPECT_EQ(b.dy.bytes(), apart.dx.bytes());
        }
}

TEST_P(CudaLayerNormTest, many_rows_take_several_rounds) {
    for (const std::int64_t width : {3, 4}) {  // in a loop, and in registers
        SCOPED_TRACE(width);
        Batch b(DType::f32, 8 * 512 + 77, width);
        run(b);
        Batch e = expected(b);
        expect_near(b.dx.values(), e.dx.values(), 4096 * 0x1p-24);
        expect_near(b.dgamma.values(), e.dgamma.values(), 4096 * 0x1p-24);
        expect_near(b.dbeta.values(), e.dbeta.values(), 4096 * 0x1p-24);
    }
}

TEST_P(CudaLayerNormTest, rows_that_are_not_aligned_are_read_by_the_element) {
    constexpr std::int64_t rows = 5, width = 16;
    for (const DType dtype : {DType::f32, DType::bf16}) {
        SCOPED_TRACE(name_of(dtype));
        Batch b(dtype, rows, width), apart(dtype, rows, width);
        TestTensor addend = TestTensor::random(dtype, {rows, width}, 5), room(dtype, {rows * width + 1});
        TensorView beside = room.view();
        beside.data = static_cast<std::byte*>(beside.data) + size_of(dtype);
        beside.shape = {rows, width};
        std::memcpy(beside.data, addend.view().data, addend.bytes().size());
        run(apart, apart.dx.view(), addend.view());
        run(b, b.dx.view(), beside);
        expect_near(b.dx.values(), apart.dx.values(), dtype == DType::bf16 ? 0x1p-6 : 0x1p-18);
    }
}

TEST_P(CudaLayerNormTest, skips_an_undefined_input_gradient) {
    Batch b(DType::f32, 19, 48), with_dx(DType::f32, 19, 48);
    run(b, {});
    run(with_dx);
    EXPECT_EQ(b.dgamma.bytes(), with_dx.dgamma.bytes());
    EXPECT_EQ(b.dbeta.bytes(), with_dx.dbeta.bytes());
    EXPECT_EQ(b.dx.bytes(), TestTensor::Bytes(19 * 48 * 4, std::byte{0xff}));
}

// Launches that are refused are refused before a thread runs: the threads' order shows nothing, and so wide
// rows take long.
class CudaLayerNormLaunchTest : public CudaLayerNormTest {};
INSTANTIATE_TEST_SUITE_P(, CudaLayerNormLaunchTest, testing::Values(kcpu::Order::forward), order_name);

TEST_P(CudaLayerNormLaunchTest, rows_that_do_not_fit_are_refused) {
    Batch b(DType::f32, 1, 29041);
    EXPECT_THROW(run(b), UsageError);
}

TEST_P(CudaLayerNormLaunchTest, rows_that_fill_a_blocks_shared_memory_fit) {
    // 8 bytes for each channel: all that a kernel has unasked, and all that there is, but for its static
    // part.
    for (const std::int64_t width : {6144, 29040}) {
        Batch b(DType::f32, 1, width);
        EXPECT_NO_THROW(run(b)) << width;
    }
}

}  // namespace
}  // namespace tutti::test
