#include "dropout.hpp"

#include "storage_cases.hpp"
#include "tutti/base/random.hpp"

namespace tutti::test {
namespace {

class CudaDropoutTest : public CudaKernelTest {
  protected:
    static constexpr std::int64_t seed = -7, epoch = 3;
    static constexpr std::uint64_t layer = 5;

    CudaDropoutTest() : epoch_(DType::i64, {1}, {static_cast<double>(epoch)}) {}

    std::vector<std::int64_t> positions(std::int64_t samples) {
        std::vector<std::int64_t> result;
        for (std::int64_t n = 0; n < samples; ++n)
            result.push_back((n * n + 1) * 100'000'000'019 % (1LL << 40));
        return result;
    }
    cuda::DropoutPlace place(std::vector<std::int64_t>& positions) {
        return {seed, layer, epoch_.view(), view_of(std::span(positions))};
    }
    void compare(const Shape& shape, DType dtype, double probability) {
        std::string trace = std::string(name_of(dtype)) + " p " + std::to_string(probability);
        for (std::size_t i = 0; i < shape.rank(); ++i) trace += " " + std::to_string(shape[i]);
        SCOPED_TRACE(trace);
        auto where = positions(shape[0]);
        auto x = TestTensor::random(dtype, shape, 1), exact_x = converted(x, DType::f32);
        TestTensor y(dtype, shape), keep(DType::u8, shape), cpu_y(DType::f32, shape),
            cpu_keep(DType::u8, shape);
        cuda::dropout_forward(place(where), probability, x.view(), y.view(), keep.view(), stream_);
        cpu_.dropout_forward({seed, epoch, where, layer}, probability, exact_x.view(), cpu_y.view(),
                             cpu_keep.view());
        expect_equal(keep, cpu_keep.values());
        expect_equal(y, stored(cpu_y, dtype));

        cuda::dropout_backward(probability, y.view(), keep.view(), y.view(), stream_);
        auto exact_dy = TestTensor(DType::f32, shape, stored(cpu_y, dtype));
        cpu_.dropout_backward(probability, exact_dy.view(), cpu_keep.view(), cpu_y.view());
        expect_equal(y, stored(cpu_y, dtype));
    }
    TestTensor epoch_;
};
TUTTI_KERNEL_TEST(CudaDropoutTest);

TEST_P(CudaDropoutTest, draws_the_masks_of_the_cpu) {
    for (const DType dtype : storage_types) {
        // Vectors of features: whole blocks of numbers, and not.
        for (const std::int64_t width : {1, 3, 8, 70}) compare({3, width}, dtype, 0.3);
        // Images: pixels that four divides and not, one channel, whole vectors of channels and not.
        for (const std::int64_t height : {1, 3, 4})
            for (const std::int64_t channels : {1, 5, 16}) compare({2, height, 3, channels}, dtype, 0.5);
        compare({0, 4, 4, 8}, dtype, 0.5);
        compare({3, 17, 24}, dtype, 0.1);
    }
}

TEST_P(CudaDropoutTest, drops_nothing_or_everything) {
    compare({2, 9}, DType::f32, 0.0);
    compare({2, 9}, DType::f32, 1.0);
}

TEST_P(CudaDropoutTest, drop_path_has_the_bits_of_the_cpu) {
    constexpr double probability = 0.4;
    for (const DType dtype : storage_types)
        for (const Shape& shape : {Shape{0, 4}, Shape{1, 1}, Shape{9, 5, 8}, Shape{3, 7}, Shape{2, 4104}}) {
            auto where = positions(shape[0]);
            std::vector<double> factors;
            for (const std::int64_t position : where) {
                const RandomStream random(seed, RandomPlace::drop_path, epoch,
                                          static_cast<std::uint64_t>(position));
                factors.push_back(random.uniform(layer) < probability ? 0.0 : 1.0 / (1.0 - probability));
            }
            auto x = TestTensor::random(dtype, shape, 1), exact_x = converted(x, DType::f32);
            TestTensor y(dtype, shape), cpu_y(DType::f32, shape);
            cuda::drop_path(place(where), probability, x.view(), y.view(), stream_);
            cpu_.scale_samples(exact_x.view(), factors, cpu_y.view());
            expect_equal(y, stored(cpu_y, dtype));
        }
}

}  // namespace
}  // namespace tutti::test
