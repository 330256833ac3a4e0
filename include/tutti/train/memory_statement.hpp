#pragma once
// What a rank will keep in memory, before it does.

#include <cstddef>
#include <string>
#include <vector>

#include "tutti/base/config.hpp"
#include "tutti/input/dataset.hpp"
#include "tutti/model/graph.hpp"
#include "tutti/train/optimizer.hpp"

namespace tutti {

struct MemoryItem {
    std::string name;
    std::size_t bytes = 0;
    std::string note;    ///< where the number comes from, for people
    bool arena = false;  ///< held by the graph and the optimizer from their construction on
};

/// Whether a training keeps what the graph's buffers were before an update: one that train.nan_policy leaves
/// out leaves no trace in running statistics, where the model has any.
bool keeps_buffers(const Config& config, const Graph& graph);

/// The parts of a training rank's memory, in the order of a table. Arenas, staging and loaders are exact. On
/// several ranks MPI may hold a copy of every bucket under way: at most the gradients once more. Rank 0 holds
/// a host copy of parameters and optimizer state while it saves. What kernels and libraries need, workspaces
/// among it, is not in it: it shows only when the model runs (measured_library_bytes,
/// measured_lane_workspaces). `device` is where it trains: batches may lie there, too.
std::vector<MemoryItem> state_memory(const Config& config, const Graph& graph, const Optimizer& optimizer,
                                     const Device& device, const DatasetInfo& train, const DatasetInfo* val,
                                     int world);

std::size_t total_bytes(const std::vector<MemoryItem>& items);

/// Runs one step (forward, loss, backward) of the largest batch on zeros and returns by how much the process
/// then exceeds what it knowingly allocated: the program, its libraries, their kernels and workspaces.
/// `allocated`: bytes of the arenas and staging that are there. Changes gradients and activations only.
std::size_t measured_library_bytes(Graph& graph, Device& device, std::size_t allocated);

/// In deterministic mode each thread that computes shards has workspaces of its own: those of all but the
/// first, whose step has run (measured_library_bytes), by what a step on zeros takes on one more. 0 where
/// there is one thread. Overwrites gradients.
std::size_t measured_lane_workspaces(const Graph& graph, Device& device, const Config& config,
                                     const DatasetInfo& train, int world);

}  // namespace tutti
