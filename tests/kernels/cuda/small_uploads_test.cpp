// Values of the host that are gone when the call returns: on a fake GPU that reads them as late as may be,
// each operator has its own.
#include "small_uploads.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "cuda_device.hpp"
#include "fake_gpu.hpp"

namespace tutti::test {
namespace {

std::ptrdiff_t waits_of_the_host() {
    return std::ranges::count_if(fake_gpu::record(),
                                 [](const std::string& line) { return line.starts_with("host: wait"); });
}

class SmallUploadsTest : public testing::Test {
  protected:
    static cuda::CudaDevice made() {
        fake_gpu::reset();
        return cuda::CudaDevice(0);
    }
    TensorView tensor(const Shape& shape, DType dtype = DType::f32) {
        memory_.push_back(
            device_.allocate(static_cast<std::size_t>(shape.count()) * size_of(dtype), "a test"));
        return memory_.back().view(0, dtype, shape);
    }
    template <class T>
    std::vector<T> host(const TensorView& view) {
        std::vector<T> values(static_cast<std::size_t>(view.count()));
        device_.copy_to_host(values.data(), view);
        return values;
    }

    cuda::CudaDevice device_ = made();
    std::vector<Buffer> memory_;
};

TEST_F(SmallUploadsTest, have_memory_of_their_own_until_they_are_read) {
    constexpr std::int64_t count = 1500;  // beyond the first memory of a slot
    const TensorView target = tensor({200, count}, DType::i64);
    const cuda::Stream stream = device_.compute_stream();
    const auto to = [&](std::int64_t row) {
        return target.data + row * count * static_cast<std::int64_t>(sizeof(std::int64_t));
    };
    cuda::SmallUploads uploads;
    fake_gpu::hold_back({1});
    fake_gpu::clear_record();
    std::vector<std::int64_t> sent(count);
    for (std::int64_t row = 0; row < 200; ++row) {
        std::ranges::fill(sent, row);
        const std::size_t bytes = sizeof(std::int64_t) * (row % 2 ? count : 1);
        uploads.send(sent.data(), to(row), bytes, stream);
        // The host is far ahead, and not without an end.
        if (row == 60) {
            EXPECT_EQ(waits_of_the_host(), 0);
        }
    }
    EXPECT_GT(waits_of_the_host(), 0);
    fake_gpu::hold_back({});
    const std::vector<std::int64_t> found = host<std::int64_t>(target);
    for (std::int64_t row = 0; row < 200; ++row) {
        EXPECT_EQ(found[static_cast<std::size_t>(row * count)], row);
        EXPECT_EQ(found[static_cast<std::size_t>(row * count + count - 1)], row % 2 ? row : 0);
    }
}

TEST_F(SmallUploadsTest, take_one_memory_where_the_gpu_keeps_up) {
    const TensorView target = tensor({1});
    cuda::SmallUploads uploads;
    fake_gpu::clear_record();
    for (float value = 0; value < 10; ++value)
        uploads.send(&value, target.data, sizeof value, device_.compute_stream());
    EXPECT_EQ(host<float>(target)[0], 9.0F);
    EXPECT_EQ(std::ranges::count(fake_gpu::record(), "stream 1: record event 1"), 10);
}

TEST_F(SmallUploadsTest, are_what_each_operator_was_given) {
    constexpr std::int64_t samples = 4, width = 8;
    Ops& ops = device_.ops(DType::f32);
    const auto filled = [&](const TensorView& view, float value) {
        ops.fill(view, value);
        return view;
    };
    const TensorView pixels = tensor({1, samples * width, 1}, DType::u8);
    const TensorView labels = tensor({samples}, DType::i64), keep = tensor({samples, width}, DType::u8);
    const TensorView ones = filled(tensor({samples, width}), 1);
    const std::vector<unsigned char> grey(samples * width, 51);
    device_.copy_from_host(pixels, grey.data());
    // All results at once, in the order of the calls; of two calls the second's values lie where the first's
    // were.
    const auto results = [&] {
        std::vector<TensorView> found;
        const auto result = [&] { return found.emplace_back(filled(tensor({samples, width}), 1)); };
        for (const int which : {1, 2}) {
            const std::vector<std::int64_t> positions{3 * which, 5 * which, 7 * which, 11 * which};
            const DropoutAddress address{7, which, positions, 3};
            ops.dropout_forward(address, 0.5, ones, result(), keep);
            ops.drop_path(address, 0.5, ones, result());
            ops.scale(which, result());
            ops.scale_samples(ones, std::vector<double>(samples, which), result());
            ops.softmax_cross_entropy_backward(ones, labels, which, result());
            const std::vector<float> mean{0.1F * static_cast<float>(which)}, std{0.5F};
            ops.normalize(pixels, mean, std, result().reshaped(pixels.shape));
        }
        return found;
    };
    const auto values = [&](const std::vector<TensorView>& views) {
        std::vector<std::vector<float>> all;
        for (const TensorView& view : views) all.push_back(host<float>(view));
        return all;
    };
    const auto expected = values(results());  // in lockstep, and scratch has its size
    fake_gpu::hold_back({1});
    const auto late = results();
    EXPECT_EQ(values(late), expected);
    for (std::size_t i = 0; i < expected.size() / 2; ++i)
        EXPECT_NE(expected[i], expected[i + expected.size() / 2]) << "operator " << i;
    fake_gpu::hold_back({});
}

TEST_F(SmallUploadsTest, are_no_way_for_the_windows_of_average_pooling_which_are_read_at_once) {
    Ops& ops = device_.ops(DType::f32);
    fake_gpu::hold_back({1});
    const std::vector<PoolWindow> halves = {{0, 2, 2}, {2, 4, 2}};
    const auto pooling =
        ops.average_pool2d({.height = 4, .width = 4, .channels = 1, .rows = halves, .columns = halves});
    const std::vector<std::int64_t> in_their_place(64, -1);
    const TensorView x = tensor({1, 4, 4, 1}), y = tensor({1, 2, 2, 1});
    ops.fill(x, 3);
    pooling->forward(x, y);
    EXPECT_EQ(host<float>(y), std::vector<float>(4, 3.0F));
    fake_gpu::hold_back({});
}

}  // namespace
}  // namespace tutti::test
