#pragma once
// What each thread of a rank computes virtual shards with.

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "tutti/base/config.hpp"
#include "tutti/input/dataset.hpp"
#include "tutti/model/graph.hpp"
#include "tutti/model/loss.hpp"
#include "tutti/train/batch_stage.hpp"

namespace tutti {

/// How many threads of a device compute the shards of a rank at once.
int shard_lanes(std::int64_t shards_of_rank, int threads);

/// One thread's: a graph with activations of its own, on the parameters of the rank's graph, and what goes
/// with it. Lane 0 has the rank's own; the others' operations have memory of their own, too.
class ShardLane {
  public:
    /// Lane 0. All must outlive it.
    ShardLane(Device& device, Graph& graph, Loss& loss, BatchStage& stage, Ops& arena_ops);
    /// Another. To be called by its thread, so that its memory is near it.
    ShardLane(Device& first, const Graph& graph, const Config& config, const DatasetInfo& data,
              std::span<const double> class_weights);
    ~ShardLane();
    ShardLane(const ShardLane&) = delete;
    ShardLane& operator=(const ShardLane&) = delete;

    Device& device() { return *device_; }
    Graph& graph() { return *graph_; }
    Loss& loss() { return *loss_; }
    BatchStage& stage() { return *stage_; }
    Ops& arena_ops() { return *arena_ops_; }

    /// Brings a batch that stage() has given into the graph's input, and keeps what else a step needs of it,
    /// so that the loader may go on. n = 0: no batch.
    void load(const HostBatch& batch);
    void load_nothing() {
        samples_ = 0;
        stage_->load_nothing();
    }
    std::int64_t samples() const { return samples_; }
    TensorView wanted() const { return stage_->wanted(); }
    std::span<const std::int64_t> positions() const;

  private:
    struct Own;
    std::unique_ptr<Own> own_;
    Device* device_;
    Graph* graph_;
    Loss* loss_;
    BatchStage* stage_;
    Ops* arena_ops_;
    std::vector<std::int64_t> positions_;
    std::int64_t samples_ = 0;
};

}  // namespace tutti
