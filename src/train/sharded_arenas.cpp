#include "sharded_arenas.hpp"

#include <vector>

namespace tutti {

ShardedArenas::ShardedArenas(const Graph& graph, Device& device, Communicator& communicator, ShardPlan plan)
    : device_(device),
      ops_(device.ops(graph.gradient_arena().dtype)),
      communicator_(communicator),
      plan_(std::move(plan)),
      parameters_(graph.parameter_arena()),
      gradients_(graph.gradient_arena()),
      sums_(device.allocate(plan_.owned.size() * sizeof(double), "gradient norm")) {}

void ShardedArenas::gather(const TensorView& arena) {
    // The next forward begins with the layers of the last bucket.
    std::vector<Work> works;
    for (std::size_t b = plan_.buckets.size(); b-- > 0;)
        works.push_back(
            communicator_.all_gather(slice(arena, plan_.owned[b]), slice(arena, plan_.buckets[b])));
    for (Work& work : works) work.wait();
}

void ShardedArenas::gather_parameters() {
    try {
        gather(parameters_);
    } catch (const PeerError& error) {
        throw PeerError(std::string("gathering the parameters: ") + error.what());
    }
}

template <class Copy>
void ShardedArenas::for_parts(const TensorView& state, const Copy& copy) {
    std::int64_t done = 0;
    for (const ArenaRange& range : plan_.owned) {
        copy(slice(gradients_, range), slice(state, {done, range.count}));
        done += range.count;
    }
}

TensorView ShardedArenas::gather(const Optimizer::State& state) {
    for_parts(state.arena, [&](const TensorView& whole, const TensorView& part) { ops_.copy(part, whole); });
    try {
        gather(gradients_);
    } catch (const PeerError& error) {
        throw PeerError("gathering the optimizer's " + state.name + ": " + error.what());
    }
    return gradients_;
}

void ShardedArenas::scatter(const Optimizer::State& state) {
    communicator_.broadcast(gradients_, 0).wait();
    for_parts(state.arena, [&](const TensorView& whole, const TensorView& part) { ops_.copy(whole, part); });
}

double ShardedArenas::sum_of_squares(Communicator& control) {
    const auto blocks = static_cast<std::int64_t>(plan_.owned.size());
    for (std::size_t b = 0; b < plan_.owned.size(); ++b)
        ops_.sum_of_squares(slice(gradients_, plan_.owned[b]),
                            sums_.view(b * sizeof(double), DType::f64, {1}));
    std::vector<double> sums(plan_.owned.size());
    device_.copy_to_host(sums.data(), sums_.view(0, DType::f64, {blocks}));
    control.all_reduce(view_of(std::span(sums)), ReduceOp::sum).wait();
    double total = 0;
    for (const double sum : sums) total += sum;
    return total;
}

void ShardedArenas::scale_gradients(double factor) {
    for (const ArenaRange& range : plan_.owned) ops_.scale(factor, slice(gradients_, range));
}

}  // namespace tutti
