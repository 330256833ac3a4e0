// Batches from a loader to a GPU that computes one while the next is copied.

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <set>

#include "cuda_device.hpp"
#include "fake_gpu.hpp"
#include "tutti/base/error.hpp"
#include "tutti/input/loader.hpp"
#include "tutti/train/batch_stage.hpp"

namespace tutti::test {
namespace {

constexpr std::int64_t sample_size = 5, batch_size = 4;

/// Pixel j of sample i is (3i + j) mod 256, its label i mod 7. Sample `bad` cannot be read.
class Samples final : public Dataset {
  public:
    explicit Samples(std::int64_t count, std::int64_t bad = -1) : bad_(bad) {
        info_.samples = count;
        info_.sample_shape = {1, sample_size, 1};
        info_.classes = 7;
    }
    const DatasetInfo& info() const override { return info_; }
    std::string name() const override { return "samples"; }
    void read(std::span<const std::int64_t> indices, std::span<std::byte> samples,
              std::span<std::int64_t> labels) const override {
        for (std::size_t i = 0; i < indices.size(); ++i) {
            if (indices[i] == bad_) throw DataError("a bad sample");
            for (std::int64_t j = 0; j < sample_size; ++j)
                samples[i * sample_size + static_cast<std::size_t>(j)] =
                    static_cast<std::byte>((3 * indices[i] + j) % 256);
            labels[i] = indices[i] % 7;
        }
    }

  private:
    DatasetInfo info_;
    std::int64_t bad_;
};

/// What the device had of a batch, and what the host knew of it then; no indices: it could not be read.
struct Seen {
    std::vector<float> pixels;
    std::vector<std::int64_t> labels, indices;
};

class BatchStageOnGpu : public testing::TestWithParam<int> {  // workers
  protected:
    ~BatchStageOnGpu() override { fake_gpu::hold_back({}); }

    Loader loader_of(const Samples& data) { return {data, batch_size, GetParam(), 2, &device_}; }
    BatchStage stage_of(const Samples& data) { return {device_, data.info(), {}, DType::f32, batch_size}; }

    /// The last window is empty, as those of ranks beyond the tail.
    static void start(BatchStage& stage, Loader& loader, std::int64_t samples) {
        std::vector<std::int64_t> order(static_cast<std::size_t>(samples));
        std::iota(order.rbegin(), order.rend(), std::int64_t{0});
        std::vector<BatchWindow> windows;
        for (std::int64_t first = 0; first <= samples; first += batch_size) {
            const std::int64_t end = std::min(samples, first + batch_size);
            windows.push_back(
                {.first = first, .stride = 1, .count = end - first, .begin = first, .end = end});
        }
        stage.start(loader, std::move(order), std::move(windows));
    }

    /// As a step does: take, load, fetch ahead, and only then wait for a result.
    std::vector<Seen> run(BatchStage& stage, Loader& loader, std::size_t most = 1000) {
        std::vector<Seen> result;
        while (result.size() < most) {
            try {
                const std::optional<HostBatch> batch = stage.next(loader);
                if (!batch) break;
                result.emplace_back();
                const std::int64_t n = batch->window.count;
                const TensorView input = input_.view(0, DType::f32, {n, 1, sample_size, 1});
                if (n > 0)
                    stage.load(*batch, input);
                else
                    stage.load_nothing();
                stage.fetch_ahead(loader);
                Seen& seen = result.back();
                seen.pixels.resize(static_cast<std::size_t>(n * sample_size));
                seen.labels.resize(static_cast<std::size_t>(n));
                device_.copy_to_host(seen.pixels.data(), input);
                device_.copy_to_host(seen.labels.data(), stage.wanted());
                seen.indices.assign(batch->indices.begin(), batch->indices.end());
            } catch (const DataError&) {
                result.emplace_back();
                stage.load_nothing();
                stage.fetch_ahead(loader);
            }
        }
        return result;
    }

    static void expect_batch(const Seen& seen, std::int64_t number, std::int64_t samples) {
        SCOPED_TRACE("batch " + std::to_string(number));
        ASSERT_EQ(seen.indices.size(),
                  static_cast<std::size_t>(std::min(batch_size, samples - number * batch_size)));
        for (std::size_t i = 0; i < seen.indices.size(); ++i) {
            const std::int64_t index = samples - 1 - number * batch_size - static_cast<std::int64_t>(i);
            EXPECT_EQ(seen.indices[i], index);
            EXPECT_EQ(seen.labels[i], index % 7);
            for (std::int64_t j = 0; j < sample_size; ++j)
                EXPECT_EQ(seen.pixels[i * sample_size + static_cast<std::size_t>(j)],
                          static_cast<float>((3 * index + j) % 256) / 255.0F);
        }
    }

    struct NewGpu {
        NewGpu() { fake_gpu::reset(); }
    } new_gpu_;  // before the device, whose stream is then the first
    cuda::CudaDevice device_{0};
    Buffer input_ = device_.allocate(batch_size * sample_size * sizeof(float), "input");
};

TEST_P(BatchStageOnGpu, every_batch_arrives_whole_whichever_stream_is_late) {
    const Samples data(38);
    // Stream 1 computes; each lane makes one of its own.
    for (int lane = 2; lane < 6; ++lane) {
        Loader loader = loader_of(data);
        BatchStage stage = stage_of(data);
        std::set<int> late;
        if (lane % 2 == 1) late.insert(1);
        if (lane >= 4) late.insert(lane);
        SCOPED_TRACE(testing::PrintToString(late));
        fake_gpu::hold_back(late);
        start(stage, loader, 38);
        const std::vector<Seen> seen = run(stage, loader);
        ASSERT_EQ(seen.size(), 10u);
        for (std::int64_t k = 0; k < 10; ++k) expect_batch(seen[static_cast<std::size_t>(k)], k, 38);
        fake_gpu::hold_back({});
    }
}

TEST_P(BatchStageOnGpu, an_epoch_begins_anew_with_a_batch_on_its_way) {
    const Samples data(38);
    Loader loader = loader_of(data);
    BatchStage stage = stage_of(data);
    for (std::size_t most = 0; most < 4; ++most) {
        start(stage, loader, 38);
        run(stage, loader, most);
    }
    start(stage, loader, 38);
    stage.next(loader);  // and not loaded
    start(stage, loader, 38);
    const std::vector<Seen> seen = run(stage, loader);
    ASSERT_EQ(seen.size(), 10u);
    for (std::int64_t k = 0; k < 10; ++k) expect_batch(seen[static_cast<std::size_t>(k)], k, 38);
}

TEST_P(BatchStageOnGpu, what_reading_ahead_throws_comes_at_its_batch_and_the_next_can_be_read) {
    const Samples data(40, 40 - 1 - 13);  // in the fourth batch
    Loader loader = loader_of(data);
    BatchStage stage = stage_of(data);
    start(stage, loader, 40);
    const std::vector<Seen> seen = run(stage, loader);
    ASSERT_EQ(seen.size(), 11u);
    for (std::int64_t k = 0; k < 10; ++k) {
        if (k == 3)
            EXPECT_TRUE(seen[3].indices.empty());
        else
            expect_batch(seen[static_cast<std::size_t>(k)], k, 40);
    }
}

TEST_P(BatchStageOnGpu, the_next_batch_is_copied_before_a_result_is_waited_for) {
    const Samples data(38);
    Loader loader = loader_of(data);
    BatchStage stage = stage_of(data);
    start(stage, loader, 38);
    run(stage, loader, 3);
    fake_gpu::clear_record();
    run(stage, loader, 1);
    // Pixels of a batch go over the bus as they are in the file: a byte each.
    const auto place = [](const std::string& line) {
        const auto& record = fake_gpu::record();
        EXPECT_EQ(std::count(record.begin(), record.end(), line), 1) << line;
        return std::find(record.begin(), record.end(), line) - record.begin();
    };
    EXPECT_LT(place("stream 2: copy 20 bytes to the device"), place("stream 1: copy 80 bytes to the host"));
    EXPECT_LT(place("stream 1: launch normalize"), place("stream 2: copy 20 bytes to the device"));
}

INSTANTIATE_TEST_SUITE_P(Workers, BatchStageOnGpu, testing::Values(0, 2));

}  // namespace
}  // namespace tutti::test
