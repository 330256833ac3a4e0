// Batches on their way to the GPU: whatever stream is late, each is computed from its own data; and every
// wait is needed for that.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "cuda_device.hpp"
#include "fake_gpu.hpp"
#include "tutti/base/error.hpp"

namespace tutti::test {
namespace {

constexpr std::size_t pixels = 6, labels = 2, batches = 7;
constexpr int compute_stream = 1, copy_stream = 2;
using Bytes = std::vector<unsigned char>;

Bytes batch_of(std::size_t number, std::size_t bytes, std::size_t salt) {
    Bytes batch(bytes);
    for (std::size_t i = 0; i < bytes; ++i) batch[i] = static_cast<unsigned char>(number * 31 + i * 7 + salt);
    return batch;
}

/// What normalisation without mean and deviation makes of a batch.
std::vector<float> normalised(const Bytes& bytes) {
    std::vector<float> result;
    for (const unsigned char value : bytes) result.push_back(static_cast<float>(value) / 255.0F);
    return result;
}

struct Result {
    std::vector<std::vector<float>> samples, labels;  // of each batch
    bool operator==(const Result&) const = default;
};

Result expected() {
    Result result;
    for (std::size_t k = 0; k < batches; ++k) {
        result.samples.push_back(normalised(batch_of(k, pixels, 0)));
        result.labels.push_back(normalised(batch_of(k, labels, 100)));
    }
    return result;
}

/// Sends the batches through a lane, one ahead, from two buffers by turns that are overwritten as soon as
/// they may be, and "computes" each by normalising its parts.
Result sent(const std::set<int>& late, const std::string& forgotten = {}) {
    fake_gpu::reset();
    cuda::CudaDevice device(0);
    Ops& ops = device.ops(DType::f32);
    const std::array<UploadPart, 2> parts{UploadPart{.bytes = pixels},
                                          UploadPart{.bytes = labels, .one_address = true}};
    const auto lane = device.make_upload_lane(parts);
    const Buffer host = device.allocate_host(2 * (pixels + labels), "a test");
    const Buffer results = device.allocate(batches * (pixels + labels) * sizeof(float), "a test");
    const auto result_of = [&](std::size_t k, bool of_labels) {
        return results.view((k * (pixels + labels) + (of_labels ? pixels : 0)) * sizeof(float), DType::f32,
                            {1, static_cast<std::int64_t>(of_labels ? labels : pixels), 1});
    };
    const std::vector<float> mean{0.0F}, std{1.0F};
    // The device's memory for small values grows once, and waits for that.
    ops.normalize({results.data(), DType::u8, result_of(0, false).shape}, mean, std, result_of(1, false));
    fake_gpu::clear_record();
    fake_gpu::forget_waits(forgotten);
    fake_gpu::hold_back(late);

    const auto begin = [&](std::size_t k) {
        lane->wait_until_read();
        std::byte* const memory = host.data() + k % 2 * (pixels + labels);
        const Bytes samples = batch_of(k, pixels, 0), numbers = batch_of(k, labels, 100);
        std::memcpy(memory, samples.data(), pixels);
        std::memcpy(memory + pixels, numbers.data(), labels);
        const std::array<std::span<const std::byte>, 2> given{std::span<const std::byte>(memory, pixels),
                                                              {memory + pixels, labels}};
        lane->begin(given);
    };
    std::byte* one_address = nullptr;
    begin(0);
    for (std::size_t k = 0; k < batches; ++k) {
        const auto found = lane->take();
        const auto at = [&](bool of_labels) {
            return TensorView{found[of_labels ? 1 : 0], DType::u8, result_of(k, of_labels).shape};
        };
        ops.normalize(at(false), mean, std, result_of(k, false));
        ops.normalize(at(true), mean, std, result_of(k, true));
        EXPECT_TRUE(k == 0 || found[1] == one_address) << "labels are always at one address";
        one_address = found[1];
        lane->release();
        if (k + 1 < batches) begin(k + 1);
    }

    Result result;
    for (std::size_t k = 0; k < batches; ++k) {
        result.samples.emplace_back(pixels);
        device.copy_to_host(result.samples.back().data(), result_of(k, false));
        result.labels.emplace_back(labels);
        device.copy_to_host(result.labels.back().data(), result_of(k, true));
    }
    fake_gpu::hold_back({});
    return result;
}

const std::vector<std::set<int>> schedules{
    {}, {compute_stream}, {copy_stream}, {compute_stream, copy_stream}};

TEST(UploadLane, every_batch_is_computed_from_its_own_data_whichever_stream_is_late) {
    for (const std::set<int>& late : schedules) {
        SCOPED_TRACE(testing::PrintToString(late));
        EXPECT_EQ(sent(late), expected());
    }
}

/// That it shows, in the data of one schedule at least, when these waits are left out.
void expect_needed(const std::string& wait) {
    std::size_t wrong = 0;
    for (const std::set<int>& late : schedules) wrong += sent(late, wait) != expected();
    EXPECT_GT(wrong, 0u) << wait;
    EXPECT_EQ(sent({}, wait), expected()) << "in lockstep nothing shows";
}

TEST(UploadLane, computing_must_wait_for_the_copy) {
    expect_needed("stream 1: wait for event");
}
TEST(UploadLane, a_copy_must_wait_for_the_computation_on_what_it_overwrites) {
    expect_needed("stream 2: wait for event");
}
TEST(UploadLane, the_host_must_wait_for_the_copy_before_it_fills_its_memory_again) {
    expect_needed("host: wait for event");
}

TEST(UploadLane, goes_on_by_events_and_the_host_waits_for_copies_alone) {
    sent({});
    // From the work on the third batch to the next copy's end.
    const std::vector<std::string>& record = fake_gpu::record();
    auto from = record.begin();
    for (int batch = 0; batch < 3; ++batch) {
        from = std::find_if(from + (batch > 0), record.end(), [](const std::string& line) {
            return line.starts_with("stream 1: wait for event");
        });
    }
    ASSERT_GE(record.end() - from, 15);
    EXPECT_EQ(
        std::vector<std::string>(from, from + 15),
        (std::vector<std::string>{
            "stream 1: wait for event 1", "stream 1: copy 2 bytes within the device",
            "stream 1: copy 8 bytes to the device", "stream 1: record event 5", "stream 1: launch normalize",
            "stream 1: copy 8 bytes to the device", "stream 1: record event 5", "stream 1: launch normalize",
            "stream 1: record event 2", "host: wait for event 1", "stream 2: wait for event 4",
            "stream 2: copy 6 bytes to the device", "stream 2: copy 2 bytes to the device",
            "stream 2: record event 3", "stream 1: wait for event 3"}));
}

TEST(UploadLane, memory_that_cannot_be_locked_is_refused_with_its_purpose) {
    fake_gpu::reset();
    cuda::CudaDevice device(0);
    fake_gpu::fail_next("cudaHostAlloc", 2);
    try {
        device.allocate_host(std::size_t{3} << 20, "batches");
        FAIL();
    } catch (const RunError& error) {
        EXPECT_NE(std::string(error.what()).find("cudaHostAlloc of 3 MiB for batches"), std::string::npos)
            << error.what();
    }
}

TEST(UploadLane, takes_the_memory_that_the_device_says) {
    fake_gpu::reset();
    cuda::CudaDevice device(0);
    constexpr std::size_t pages = 64 << 10;  // whole ones, of any host
    const std::array<UploadPart, 2> parts{UploadPart{.bytes = 3 * pages},
                                          UploadPart{.bytes = pages, .one_address = true}};
    const std::size_t before = fake_gpu::live_bytes();
    const auto lane = device.make_upload_lane(parts);
    // Each of its allocations is aligned within a page more.
    EXPECT_EQ(fake_gpu::live_bytes() - before, 9 * pages + 3 * 4096)
        << "two batches, and labels in one place";
    EXPECT_EQ(device.upload_lane_bytes(parts), 9 * pages);
}

TEST(UploadLane, leaves_nothing_on_the_gpu) {
    fake_gpu::reset();
    const std::size_t before = fake_gpu::live_allocations();
    sent({copy_stream});
    EXPECT_EQ(fake_gpu::live_allocations(), before);
}

}  // namespace
}  // namespace tutti::test
