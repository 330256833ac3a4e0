#include "shard_sums.hpp"

#include <algorithm>
#include <span>

#include "tutti/comm/butterfly.hpp"

namespace tutti {

ShardSums::ShardSums(const Graph& graph, Device& device, const ShardLayout& layout, int threads)
    : device_(device),
      on_gpu_(device.kind() != "cpu"),
      layout_(layout),
      gradient_arena_(graph.gradient_arena()),
      batch_statistics_(graph.batch_statistics()),
      gradients_(device, gradient_arena_, graph.parameters(), layout.per_rank(), threads),
      statistics_(static_cast<std::size_t>(layout.per_rank() * batch_statistics_.count())),
      losses_(static_cast<std::size_t>(layout.per_rank())) {
    if (on_gpu_ && layout.ranks > 1)
        received_ =
            device.allocate(device_butterfly_bytes(gradient_arena_.bytes()), "gradients of other ranks");
}

void ShardSums::take(std::int64_t shard, const LossSums& loss, const TensorView& batch_statistics) {
    losses_[static_cast<std::size_t>(shard)] = loss;
    double* const mine = statistics_.data() + shard * batch_statistics.count();
    // Only a GPU's is one thread's.
    if (on_gpu_)
        device_.copy_to_host(mine, batch_statistics);
    else
        std::ranges::copy(batch_statistics.span<double>(), mine);
}

LossSums ShardSums::losses_of_rank() const {
    LossSums sums;
    std::vector<double> losses, weights;
    for (const LossSums& one : losses_) {
        losses.push_back(one.loss);
        weights.push_back(one.weight);
        sums.correct += one.correct;
    }
    sums.loss = sum_of_neighbours(std::move(losses));
    sums.weight = sum_of_neighbours(std::move(weights));
    return sums;
}

void ShardSums::sum_statistics(Communicator& control) {
    const auto count = static_cast<std::size_t>(batch_statistics_.count());
    // Neighbours, then their sums, …: into the left one's place.
    for (std::size_t distance = 1; distance < losses_.size(); distance *= 2)
        for (std::size_t left = 0; left < losses_.size(); left += 2 * distance)
            for (std::size_t i = 0; i < count; ++i)
                statistics_[left * count + i] += statistics_[(left + distance) * count + i];
    butterfly_sum(control, view_of(std::span(statistics_).first(count)));
    device_.copy_from_host(batch_statistics_, statistics_.data());
}

void ShardSums::sum_gradients(Communicator& gradients) {
    if (on_gpu_)
        butterfly_sum(gradients, gradient_arena_, received_, device_.ops(gradient_arena_.dtype));
    else
        butterfly_sum(gradients, gradient_arena_);
}

}  // namespace tutti
