#include "tutti/train/memory_statement.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <optional>

#include "tutti/base/memory_use.hpp"
#include "tutti/model/zoo.hpp"

namespace tutti {
namespace {

std::size_t bytes_of(const std::vector<MemoryItem>& items, const std::string& name) {
    const auto found =
        std::find_if(items.begin(), items.end(), [&](const MemoryItem& item) { return item.name == name; });
    return found == items.end() ? 0 : found->bytes;
}

class MemoryStatement : public ::testing::Test {
  protected:
    MemoryStatement() {
        config_.train.batch_size = 8;
        config_.optim.momentum = 0.9;
        info_.samples = 100;
        info_.sample_shape = {28, 28, 1};
        info_.classes = 10;
    }
    std::unique_ptr<Device> device_ = make_cpu_device(1);
    Config config_;
    DatasetInfo info_;
    Graph graph_{build_lenet({28, 28, 1}, 10), *device_, DType::f32, 8};
};

TEST_F(MemoryStatement, CountsEachPart) {
    const auto optimizer = make_optimizer(config_.optim, graph_, *device_);
    const auto items = state_memory(config_, graph_, *optimizer, *device_, info_, nullptr, 1);
    EXPECT_EQ(bytes_of(items, "parameters"), graph_.memory().parameters);
    EXPECT_EQ(bytes_of(items, "optimizer"), graph_.memory().parameters) << "the momentum";
    EXPECT_EQ(bytes_of(items, "loader"), 5U * 8 * (784 + 3 * 8) + 100 * 8) << "prefetch 4 and one in use";
    EXPECT_EQ(bytes_of(items, "communication"), 0U);
    EXPECT_EQ(bytes_of(items, "checkpoint"), 2 * graph_.memory().parameters);

    const auto with_val = state_memory(config_, graph_, *optimizer, *device_, info_, &info_, 2);
    EXPECT_EQ(bytes_of(with_val, "loader"), 2 * bytes_of(items, "loader"));
    EXPECT_EQ(bytes_of(with_val, "communication"), graph_.memory().gradients);
    EXPECT_GT(total_bytes(with_val), total_bytes(items));

    Config compressed = config_;
    compressed.distributed.compress = Compress::bf16;
    const auto halved = state_memory(compressed, graph_, *optimizer, *device_, info_, nullptr, 2);
    EXPECT_EQ(bytes_of(halved, "communication"), graph_.memory().gradients / 2);
}

TEST_F(MemoryStatement, SaysWhichPartsTheGraphAndTheOptimizerHold) {
    config_.train.ema = EmaConfig{};
    config_.train.nan_policy = NanPolicy::skip;
    ModelConfig model;
    model.name = "resnet18";
    model.stem = "cifar";
    const Graph graph{build_model(model, {{28, 28, 1}, 10}), *device_, DType::f32, 8};
    const auto optimizer = make_optimizer(config_.optim, graph, *device_);
    const std::size_t buffers = graph.buffer_arena().bytes();
    const GraphMemory memory = graph.memory();
    const std::size_t expected =
        2 * memory.parameters + memory.gradients + memory.activations + memory.rounded + buffers;
    for (const bool deterministic : {false, true}) {
        config_.run.deterministic = deterministic;
        config_.train.accumulate = deterministic ? 1 : 2;
        const auto items = state_memory(config_, graph, *optimizer, *device_, info_, nullptr, 1);
        std::size_t held = 0;
        for (const MemoryItem& item : items) held += item.arena ? item.bytes : 0;
        EXPECT_EQ(held, expected) << "with the momentum";
        for (const char* more : {"average", deterministic ? "shards" : "accumulated"})
            EXPECT_GE(bytes_of(items, more), memory.gradients) << more;
        EXPECT_EQ(bytes_of(items, "buffers"), buffers);
        EXPECT_EQ(bytes_of(items, "kept buffers"), buffers);
    }
}

/// Computes nothing here: it copies ahead, into memory of its own.
struct UploadingDevice final : Device {
    std::string kind() const override { return "uploading"; }
    std::string description() const override { return "uploading"; }
    Buffer allocate(std::size_t, const std::string&) override { return {}; }
    Buffer allocate_host(std::size_t, const std::string&) override { return {}; }
    bool uploads_ahead() const override { return true; }
    std::unique_ptr<UploadLane> make_upload_lane(std::span<const UploadPart>) override { return nullptr; }
    std::size_t upload_lane_bytes(std::span<const UploadPart> parts) const override {
        std::size_t total = 1;
        for (const UploadPart& part : parts) total += part.bytes * (part.one_address ? 1000 : 1);
        return total;
    }
    void copy_from_host(const TensorView&, const void*) override {}
    void copy_to_host(void*, const TensorView&) override {}
    Ops& ops(Arithmetic) override { throw std::logic_error("it does not compute"); }
    void set_progress(std::function<void()>) override {}
};

TEST_F(MemoryStatement, CountsABatchMoreAndTheLanesWhereTheDeviceCopiesAhead) {
    const auto optimizer = make_optimizer(config_.optim, graph_, *device_);
    const UploadingDevice device;
    for (const bool with_val : {false, true}) {
        const DatasetInfo* const val = with_val ? &info_ : nullptr;
        const auto here = state_memory(config_, graph_, *optimizer, *device_, info_, val, 1);
        const auto there = state_memory(config_, graph_, *optimizer, device, info_, val, 1);
        const std::size_t loaders = val ? 2 : 1;
        EXPECT_EQ(bytes_of(there, "loader"), bytes_of(here, "loader") + loaders * 8 * (784 + 3 * 8));
        EXPECT_EQ(bytes_of(there, "upload"), loaders * (1U + 8 * 784 + 1000 * 8 * 8))
            << "samples, and labels in one place, for training and for evaluation";
        EXPECT_EQ(bytes_of(here, "upload"), 0U);
    }
}

TEST_F(MemoryStatement, CountsPinnedMemoryOfTheExchangeWhereTheBackendIsKnownToNeedIt) {
    config_.run.deterministic = true;
    const UploadingDevice device;
    const auto optimizer = make_optimizer(config_.optim, graph_, *device_);
    const auto communication = [&](Backend backend, const Graph& graph) {
        config_.distributed.backend = backend;
        return bytes_of(state_memory(config_, graph, *optimizer, device, info_, nullptr, 2), "communication");
    };
    const std::size_t twice = 2 * graph_.memory().gradients;
    for (const Backend backend : {Backend::automatic, Backend::nccl})
        EXPECT_EQ(communication(backend, graph_), twice);
    for (const Backend backend : {Backend::mpi, Backend::gloo})
        EXPECT_EQ(communication(backend, graph_), twice + std::bit_ceil(twice)) << "one piece";

    ModelConfig wide;
    wide.name = "mlp";
    wide.hidden = {3072, 3072};
    const Graph large{build_model(wide, {{28, 28, 1}, 10}), *device_, DType::f32, 8};
    ASSERT_GT(large.memory().gradients, std::size_t{32} << 20);
    EXPECT_EQ(communication(Backend::nccl, large), std::size_t{64} << 20);
    EXPECT_EQ(communication(Backend::mpi, large), std::size_t{3 * 64} << 20) << "two pieces";
}

TEST_F(MemoryStatement, TheLibrariesAreWhatTheProcessHasBesides) {
    EXPECT_GT(resident_bytes(), 0);
    EXPECT_GE(peak_resident_bytes(), resident_bytes());
    const std::size_t all = measured_library_bytes(graph_, *device_, 0);
    EXPECT_GE(all, graph_.memory().activations);
    EXPECT_EQ(measured_library_bytes(graph_, *device_, all + (std::size_t{1} << 40)), 0U);
}

TEST_F(MemoryStatement, MeasuresModelsWhoseOutputsAreOfSteps) {
    config_.model = {};
    config_.model.name = "temporal_transformer";
    config_.model.dim = 8;
    config_.model.depth = 1;
    config_.model.heads = 2;
    Graph graph(build_model(config_.model, {{6, 5}, 12}), *device_, DType::f32, 2);
    EXPECT_GT(measured_library_bytes(graph, *device_, 0), 0U);
}

TEST_F(MemoryStatement, EachThreadThatComputesShardsHasWorkspacesOfItsOwn) {
    const auto device = make_cpu_device(3);
    if (device->description().find("without oneDNN") != std::string::npos ||
        !__builtin_cpu_supports("avx512f"))
        GTEST_SKIP() << "convolutions by Winograd, which have workspaces, need oneDNN and AVX-512";
    config_.model.name = "resnet18";
    config_.model.stem = "cifar";
    config_.run.deterministic = true;
    std::optional<Graph> graph;
    device->run_lanes(1, [&](int) {
        graph.emplace(build_model(config_.model, {{28, 28, 1}, 10}), *device, DType::f32, 1);
        measured_library_bytes(*graph, *device, 0);
    });
    const auto of_ranks = [&](int ranks) {
        return measured_lane_workspaces(*graph, *device, config_, info_, ranks);
    };
    EXPECT_GT(of_ranks(1), std::size_t{2} << 20) << "of two threads beside the first";
    EXPECT_EQ(of_ranks(8), 0U) << "a rank has one of eight shards";
    config_.run.deterministic = false;
    EXPECT_EQ(of_ranks(1), 0U);
}

}  // namespace
}  // namespace tutti
