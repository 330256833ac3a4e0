#include "channel_padding.hpp"

#include "storage_cases.hpp"

namespace tutti::test {
namespace {

class CudaChannelPaddingTest : public CudaKernelTest {};
TUTTI_KERNEL_TEST(CudaChannelPaddingTest);

TEST_P(CudaChannelPaddingTest, rows_get_zeros_behind_them_or_lose_their_end) {
    for (const DType from : storage_types)
        for (const DType to : storage_types)
            for (const auto& [channels, padded] : {std::pair{3, 8}, {8, 3}, {1, 1}, {5, 16}}) {
                constexpr std::int64_t rows = 101;
                auto x = TestTensor::random(from, {rows, channels}, 1);
                TestTensor y(to, {rows, padded});
                cuda::pad_channels(x.view(), y.view(), stream_);
                const std::vector<double> values = stored(x, to);
                std::vector<double> expected;
                for (std::int64_t i = 0; i < rows * padded; ++i) {
                    const std::int64_t row = i / padded, c = i % padded;
                    expected.push_back(c < channels ? values[static_cast<std::size_t>(row * channels + c)]
                                                    : 0);
                }
                expect_equal(y, expected);
            }
}

}  // namespace
}  // namespace tutti::test
