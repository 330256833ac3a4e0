#include "tutti/train/gradient_tree.hpp"

#include <algorithm>
#include <bit>
#include <cassert>

namespace tutti {

GradientTree::GradientTree(Device& device, const TensorView& result, const std::vector<Parameter>& parameters,
                           std::int64_t leaves, int threads)
    : parameters_(parameters),
      leaves_(leaves),
      arenas_{result},
      of_leaf_(static_cast<std::size_t>(leaves)),
      one_is_there_(static_cast<std::size_t>(leaves) * parameters.size()),
      merged_(static_cast<std::size_t>(leaves)) {
    const std::int64_t more = more_arenas(leaves, threads);
    for (std::int64_t i = 0; i < more; ++i) {
        memory_.push_back(device.allocate(result.bytes(), "gradients of virtual shards"));
        arenas_.push_back(memory_.back().view(0, result.dtype, result.shape));
    }
    free_.reserve(arenas_.size());
}

std::int64_t GradientTree::more_arenas(std::int64_t leaves, int threads) {
    assert(std::has_single_bit(static_cast<std::uint64_t>(leaves)));
    // Leaves are begun in order. Of those that are finished, the sums that wait are as many as their number
    // has bits, at most log2(leaves): with one arena more somebody can always go on. Threads that keep step
    // need no more than this.
    const std::int64_t levels = std::countr_zero(static_cast<std::uint64_t>(leaves));
    return std::min(leaves, levels + std::max(threads, 1)) - 1;
}

void GradientTree::begin() {
    for (auto& flag : one_is_there_) flag.store(false, std::memory_order_relaxed);
    for (auto& count : merged_) count.store(0, std::memory_order_relaxed);
    free_.assign(arenas_.rbegin(), arenas_.rend());
    given_ = 0;
    stopped_ = false;
}

std::optional<TensorView> GradientTree::next_arena() {
    assert(given_ < leaves_);
    std::unique_lock lock(mutex_);
    // A model without parameters (layers: [flatten]) has nothing to add: no arena would ever be given back.
    freed_.wait(lock, [this] { return parameters_.empty() || !free_.empty() || stopped_; });
    if (stopped_) return {};
    if (parameters_.empty()) return arenas_.front();
    const TensorView arena = free_.back();
    free_.pop_back();
    of_leaf_[static_cast<std::size_t>(given_++)] = arena;
    return arena;
}

TensorView GradientTree::slice(std::int64_t leaf, std::size_t parameter) const {
    const TensorView& arena = of_leaf_[static_cast<std::size_t>(leaf)];
    const Parameter& one = parameters_[parameter];
    return {
        arena.data + static_cast<std::size_t>(one.offset) * size_of(arena.dtype), arena.dtype, {one.count}};
}

void GradientTree::take(std::int64_t leaf, std::size_t parameter, Ops& add) {
    for (std::int64_t size = 1; size < leaves_; size *= 2) {
        const std::int64_t left = leaf / (2 * size) * (2 * size), right = left + size;
        const auto pair = static_cast<std::size_t>(right);
        // With the exchange the second of the two sees what the first has written.
        if (!one_is_there_[pair * parameters_.size() + parameter].exchange(true, std::memory_order_acq_rel))
            return;
        add.add(slice(right, parameter), slice(left, parameter));
        if (merged_[pair].fetch_add(1, std::memory_order_acq_rel) + 1 == parameters_.size()) release(right);
    }
}

void GradientTree::take(std::int64_t leaf, Ops& add) {
    if (parameters_.empty()) return;
    for (std::int64_t size = 1; size < leaves_; size *= 2) {
        const std::int64_t left = leaf / (2 * size) * (2 * size), right = left + size;
        // Leaves come in order, so the right one is the second.
        if (leaf < right) return;
        add.add(of_leaf_[static_cast<std::size_t>(right)], of_leaf_[static_cast<std::size_t>(left)]);
        release(right);
    }
}

void GradientTree::release(std::int64_t leaf) {
    {
        const std::lock_guard lock(mutex_);
        free_.push_back(of_leaf_[static_cast<std::size_t>(leaf)]);
    }
    freed_.notify_one();
}

void GradientTree::stop() {
    {
        const std::lock_guard lock(mutex_);
        stopped_ = true;
    }
    freed_.notify_all();
}

}  // namespace tutti
