#include "tutti/train/memory_statement.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "shard_lanes.hpp"
#include "tutti/base/memory_use.hpp"
#include "tutti/comm/butterfly.hpp"
#include "tutti/model/loss.hpp"
#include "tutti/train/batch_stage.hpp"
#include "tutti/train/gradient_tree.hpp"
#include "tutti/train/precision.hpp"
#include "tutti/train/virtual_shards.hpp"

namespace tutti {
namespace {

/// The batches held ready and those in use (two where the device copies one ahead), each with labels,
/// positions, indices and targets; the list of an epoch, and the targets of all samples.
std::size_t loader_bytes(const DatasetInfo& info, const Config& config, const Device& device,
                         std::int64_t batch) {
    const std::int64_t in_use = device.uploads_ahead() ? 2 : 1;
    const std::int64_t held = in_use + (loader_workers(config.data) == 0 ? 0 : config.data.prefetch);
    const std::size_t targets = static_cast<std::size_t>(info.targets) * sizeof(float);
    const std::size_t sample =
        static_cast<std::size_t>(info.sample_bytes()) + 3 * sizeof(std::int64_t) + targets;
    return static_cast<std::size_t>(held * batch) * sample +
           static_cast<std::size_t>(info.samples) * (sizeof(std::int64_t) + targets);
}

/// What one more thread keeps for its shard (ShardLane): labels, or about as much of targets, and positions,
/// too.
std::size_t lane_bytes(const GraphMemory& memory, std::int64_t batch) {
    return memory.activations + memory.statistics +
           2 * static_cast<std::size_t>(batch) * sizeof(std::int64_t);
}

/// Of a GPU's sum along the tree. Through host memory each piece under way, of which there are two where one
/// is not all, has pinned memory for what is sent and received, rounded up to a power of two.
std::size_t device_exchange_bytes(const Config& config, std::size_t gradients) {
    const std::size_t received = device_butterfly_bytes(gradients), pieces = received < 2 * gradients ? 2 : 1;
    const Backend backend = config.distributed.backend;
    const bool through_host = backend == Backend::mpi || backend == Backend::gloo;
    return received + (through_host ? pieces * std::bit_ceil(received) : 0);
}

/// What the gradients of an update's several micro-batches take beside the arena of gradients, and the lanes
/// that compute them at once.
void add_micro_batches(std::vector<MemoryItem>& items, const Config& config, const GraphMemory& memory,
                       const Device& device, int world) {
    const bool deterministic = config.run.deterministic;
    const std::int64_t shards = micro_batches_per_update(config, world);
    const int threads = deterministic ? shard_lanes(shards, device.threads()) : 1;
    if (deterministic && shards > 1)
        items.push_back(
            {"shards",
             memory.gradients * static_cast<std::size_t>(GradientTree::more_arenas(shards, threads)),
             "arenas: gradients of this rank's virtual shards that are computed or wait for their "
             "neighbours"});
    else if (!deterministic && config.train.accumulate > 1)
        items.push_back({"accumulated", memory.gradients, "arena: gradients of the micro-batches"});
    if (threads > 1)
        items.push_back(
            {"lanes",
             lane_bytes(memory, largest_micro_batch(config, world)) * static_cast<std::size_t>(threads - 1),
             fmt::format("activations and statistics of {} more thread{} with a shard of {} own", threads - 1,
                         threads == 2 ? "" : "s", threads == 2 ? "its" : "their")});
}

void add_communication(std::vector<MemoryItem>& items, const Config& config, std::size_t gradients,
                       const Device& device, int world) {
    if (world == 1) return;
    // The gradients are rounded where they lie.
    const bool compressed = config.distributed.compress == Compress::bf16;
    if (config.run.deterministic)
        items.push_back({"communication",
                         device.kind() == "cpu" ? butterfly_bytes : device_exchange_bytes(config, gradients),
                         "pieces of gradients on their way"});
    else
        items.push_back(
            {"communication", compressed ? gradients / 2 : gradients,
             compressed ? "MPI's copy of buckets under way, in bf16" : "MPI's copy of buckets under way"});
}

}  // namespace

bool keeps_buffers(const Config& config, const Graph& graph) {
    return config.train.nan_policy == NanPolicy::skip && graph.batch_statistics().count() > 0;
}

std::vector<MemoryItem> state_memory(const Config& config, const Graph& graph, const Optimizer& optimizer,
                                     const Device& device, const DatasetInfo& train, const DatasetInfo* val,
                                     int world) {
    const GraphMemory memory = graph.memory();
    std::size_t state = 0;
    for (const Optimizer::State& one : optimizer.state()) state += one.arena.bytes();
    const std::int64_t batch = largest_micro_batch(config, world);
    std::size_t loaders = loader_bytes(train, config, device, batch);
    if (val) loaders += loader_bytes(*val, config, device, batch);
    std::vector<MemoryItem> items = {
        {"parameters", memory.parameters, "arena", true},
        {"gradients", memory.gradients, "arena", true},
        {"optimizer", state,
         shards_optimizer(config, world) ? "arenas of a rank's part of its state: zero1"
                                         : "arenas of its state",
         true},
        {"activations", memory.activations, "arena: values, gradients and states by liveness", true},
        {"loader", loaders, "batches held ready, and the order of an epoch"},
    };
    // Training and evaluation have a BatchStage each, and so a lane each.
    std::size_t lanes = device.upload_lane_bytes(upload_parts(train, batch));
    if (val) lanes += device.upload_lane_bytes(upload_parts(*val, batch));
    if (lanes > 0)
        items.push_back({"upload", lanes, "on the device: batches on their way, and the labels in use"});
    const std::size_t buffers = graph.buffer_arena().bytes();
    if (buffers > 0) items.push_back({"buffers", buffers, "running statistics, tables", true});
    if (keeps_buffers(config, graph))
        items.push_back({"kept buffers", buffers, "those before an update, for train.nan_policy: skip"});
    if (memory.rounded > 0)
        items.push_back({"rounded", memory.rounded, "arena: the parameters as products read them", true});
    if (memory.discarded > 0)
        items.push_back({"discarded", memory.discarded, "gradients of frozen weights above trained ones"});
    add_micro_batches(items, config, memory, device, world);
    const std::size_t average = config.train.ema ? graph.parameter_arena().bytes() : 0;
    if (average > 0) items.push_back({"average", average, "arena: moving average of the weights"});
    add_communication(items, config, memory.gradients, device, world);
    const std::size_t whole_state =
        state * static_cast<std::size_t>(shards_optimizer(config, world) ? world : 1);
    items.push_back({"checkpoint", memory.parameters + whole_state + average, "rank 0 while it saves"});
    return items;
}

std::size_t total_bytes(const std::vector<MemoryItem>& items) {
    std::size_t sum = 0;
    for (const MemoryItem& item : items) sum += item.bytes;
    return sum;
}

namespace {

/// One step of the largest batch.
void step_on_zeros(Graph& graph, Device& device) {
    const std::int64_t n = graph.max_batch();
    const auto loss = make_softmax_cross_entropy(device, graph.compute());
    const Buffer labels = device.allocate(static_cast<std::size_t>(n) * sizeof(std::int64_t), "labels");
    const TensorView label_view = labels.view(0, DType::i64, {n});
    const std::vector<std::int64_t> positions(static_cast<std::size_t>(n));
    const StepContext step{Phase::train, 0, 0, positions};
    // Whatever the outputs are, as the scores of so many classes: only the gradients' memory is asked for.
    const auto scores = [n](TensorView outputs) {
        outputs.shape = {n, outputs.count() / n};
        return outputs;
    };
    const TensorView gradient = scores(graph.output_gradient(n));
    loss->forward(scores(graph.forward(n, step)), label_view, gradient);
    loss->backward(label_view, 1.0 / static_cast<double>(n), gradient);
    graph.backward(n, step, {});
}

}  // namespace

std::size_t measured_library_bytes(Graph& graph, Device& device, std::size_t allocated) {
    step_on_zeros(graph, device);
    const auto peak = static_cast<std::size_t>(peak_resident_bytes());
    return peak > allocated ? peak - allocated : 0;
}

std::size_t measured_lane_workspaces(const Graph& graph, Device& device, const Config& config,
                                     const DatasetInfo& train, int world) {
    const std::int64_t shards = micro_batches_per_update(config, world);
    const int more = config.run.deterministic ? shard_lanes(shards, device.threads()) - 1 : 0;
    if (more < 1) return 0;
    std::size_t grown = 0;
    device.run_lanes(2, [&](int number) {
        if (number == 0) return;
        const std::int64_t before = resident_bytes();
        ShardLane lane(device, graph, config, train, {});
        lane.graph().redirect_gradients(graph.gradient_arena());
        step_on_zeros(lane.graph(), lane.device());
        grown = static_cast<std::size_t>(std::max<std::int64_t>(resident_bytes() - before, 0));
    });
    const std::size_t stated = lane_bytes(graph.memory(), graph.max_batch());
    return grown > stated ? static_cast<std::size_t>(more) * (grown - stated) : 0;
}

}  // namespace tutti
