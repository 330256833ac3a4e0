#include "shard_sums.hpp"

#include <cassert>

#include "tutti/comm/butterfly.hpp"

namespace tutti {

ShardSums::ShardSums(const Graph& graph, Device& device, const ShardLayout& layout)
    : layout_(layout),
      gradient_arena_(graph.gradient_arena()),
      batch_statistics_(graph.batch_statistics()),
      gradients_(device, device.ops(gradient_arena_.dtype), gradient_arena_, layout.per_rank(),
                 "gradients of virtual shards"),
      statistics_(device, device.ops(DType::f64), batch_statistics_, layout.per_rank(),
                  "batch statistics of virtual shards") {
    losses_.reserve(static_cast<std::size_t>(layout.per_rank()));
}

void ShardSums::take(const LossSums& loss) {
    gradients_.take();
    statistics_.take();
    losses_.push_back(loss);
}

LossSums ShardSums::losses_of_rank() {
    assert(losses_.size() == static_cast<std::size_t>(layout_.per_rank()));
    LossSums sums;
    std::vector<double> losses, weights;
    for (const LossSums& one : losses_) {
        losses.push_back(one.loss);
        weights.push_back(one.weight);
        sums.correct += one.correct;
    }
    losses_.clear();
    sums.loss = sum_of_neighbours(std::move(losses));
    sums.weight = sum_of_neighbours(std::move(weights));
    return sums;
}

void ShardSums::sum_statistics(Communicator& control) const {
    butterfly_sum(control, batch_statistics_);
}

void ShardSums::sum_gradients(Communicator& gradients) const {
    butterfly_sum(gradients, gradient_arena_);
}

}  // namespace tutti
