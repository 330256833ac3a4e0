#include "shard_lanes.hpp"

#include <algorithm>

#include "tutti/train/objective.hpp"
#include "tutti/train/precision.hpp"

namespace tutti {

int shard_lanes(std::int64_t shards_of_rank, int threads) {
    return static_cast<int>(std::min<std::int64_t>(shards_of_rank, threads));
}

struct ShardLane::Own {
    Own(Device& first, const Graph& rank, const Config& config, const DatasetInfo& data,
        std::span<const double> class_weights)
        : device(first.make_lane()),
          graph(build_model(config.model, model_input(data, config.data)), *device,
                arithmetic_of(config.train.precision), rank),
          loss(make_training_loss(*device, graph.compute(), config.train, data, class_weights)),
          stage(*device, data, config.data, graph.compute(), graph.max_batch()) {}

    std::unique_ptr<Device> device;
    Graph graph;
    std::unique_ptr<Loss> loss;
    BatchStage stage;
};

ShardLane::ShardLane(Device& device, Graph& graph, Loss& loss, BatchStage& stage, Ops& arena_ops)
    : device_(&device),
      graph_(&graph),
      loss_(&loss),
      stage_(&stage),
      arena_ops_(&arena_ops),
      positions_(static_cast<std::size_t>(graph.max_batch())) {}

ShardLane::ShardLane(Device& first, const Graph& graph, const Config& config, const DatasetInfo& data,
                     std::span<const double> class_weights)
    : own_(std::make_unique<Own>(first, graph, config, data, class_weights)),
      device_(own_->device.get()),
      graph_(&own_->graph),
      loss_(own_->loss.get()),
      stage_(&own_->stage),
      arena_ops_(&own_->device->ops(graph.gradient_arena().dtype)),
      positions_(static_cast<std::size_t>(graph.max_batch())) {}

ShardLane::~ShardLane() = default;

void ShardLane::load(const HostBatch& batch) {
    samples_ = batch.window.count;
    if (samples_ == 0) return stage_->load_nothing();
    stage_->load(batch, graph_->input(samples_));
    stage_->keep_wanted();
    std::ranges::copy(batch.positions, positions_.begin());
}

std::span<const std::int64_t> ShardLane::positions() const {
    return std::span(positions_).first(static_cast<std::size_t>(samples_));
}

}  // namespace tutti
