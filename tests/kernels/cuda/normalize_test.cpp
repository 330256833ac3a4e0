#include "normalize.hpp"

#include "storage_cases.hpp"

namespace tutti::test {
namespace {

class CudaNormalizeTest : public CudaKernelTest {
  protected:
    void compare(DType from, std::int64_t pixels, std::int64_t channels, DType dtype) {
        SCOPED_TRACE(std::string(name_of(from)) + " to " + std::string(name_of(dtype)) + " " +
                     std::to_string(pixels) + "×" + std::to_string(channels));
        TestTensor x(from, {pixels, channels});
        for (std::size_t i = 0; i < x.size(); ++i) {
            const auto value = static_cast<double>((i * 37 + i / 256) % 256);
            x.set(i, from == DType::u8 ? value : value / 16 - 3);
        }
        std::vector<float> mean, std;
        for (std::int64_t c = 0; c < channels; ++c) {
            mean.push_back(0.485f - 0.01f * static_cast<float>(c));
            std.push_back(0.229f + 0.02f * static_cast<float>(c));
        }
        TestTensor y(dtype, {pixels, channels}), expected(DType::f32, {pixels, channels});
        cuda::normalize(x.view(), view_of(std::span(mean)), view_of(std::span(std)), y.view(), stream_);
        cpu_.normalize(x.view(), mean, std, expected.view());
        expect_equal(y, stored(expected, dtype));
    }
};
TUTTI_KERNEL_TEST(CudaNormalizeTest);

TEST_P(CudaNormalizeTest, has_the_bits_of_the_cpu) {
    for (const DType dtype : storage_types)
        for (const std::int64_t channels : {1, 3, 32, 33})
            for (const std::int64_t pixels : {0, 1, 257})
                for (const DType from : {DType::u8, DType::f32}) compare(from, pixels, channels, dtype);
}

}  // namespace
}  // namespace tutti::test
