#include "activation_plan.hpp"

#include <algorithm>
#include <array>
#include <numeric>

#include "tutti/model/freezing.hpp"
#include "tutti/model/memory_plan.hpp"

namespace tutti {
namespace {

constexpr std::size_t alignment = 64;

// Buffers that several tensors may share; a shared buffer lives as long as any of them.
class Buffers {
  public:
    explicit Buffers(std::span<const SampleRun> runs) : runs_(runs) {}
    std::size_t add(std::size_t bytes, std::size_t first, std::size_t last) {
        lifetimes_.push_back({bytes, begin_of_run(first), end_of_run(last)});
        return lifetimes_.size() - 1;
    }
    void extend(std::size_t buffer, std::size_t first, std::size_t last) {
        lifetimes_[buffer].first = std::min(lifetimes_[buffer].first, begin_of_run(first));
        lifetimes_[buffer].last = std::max(lifetimes_[buffer].last, end_of_run(last));
    }
    MemoryPlan plan() const { return plan_memory(lifetimes_, alignment); }

  private:
    std::size_t begin_of_run(std::size_t time) const {
        for (const SampleRun& run : runs_)
            if (run.first <= time && time <= run.last) return run.first;
        return time;
    }
    std::size_t end_of_run(std::size_t time) const {
        for (const SampleRun& run : runs_)
            if (run.first <= time && time <= run.last) return run.last;
        return time;
    }

    std::span<const SampleRun> runs_;
    std::vector<Lifetime> lifetimes_;
};

struct Uses {
    std::vector<std::size_t> consumers;  // ascending
    // Of the value as forward left it, and as it was computed again.
    std::array<std::size_t, 2> last_read{};
};

using Segments = std::vector<std::size_t>;  // by node, ascending

// When each layer runs forward again (0: never) and backward. What no trained layer comes before has no
// backward, and so is not computed again.
struct Times {
    Times(const Segments& segment, const std::vector<bool>& trained)
        : again(segment.size()), backward(segment.size()) {
        const std::size_t last = segment.size() - 1;
        std::size_t time = last + 1;
        for (std::size_t end = last; end >= 1;) {
            std::size_t begin = end;
            while (begin > 1 && segment[begin - 1] == segment[end]) --begin;
            if (end != last && trained[end])
                for (std::size_t i = begin; i <= end; ++i) again[i] = ++time;
            for (std::size_t i = end; i >= begin; --i) backward[i] = ++time;
            end = begin - 1;
        }
    }
    std::vector<std::size_t> again, backward;
};

// One plan: who reads what until when, then a buffer for each value and each gradient. The order in which
// buffers are added is part of the plan.
class Planning {
  public:
    Planning(const std::vector<GraphSpec::Node>& nodes, const std::vector<DType>& types,
             std::int64_t max_batch, const Segments& segment, std::span<const SampleRun> runs)
        : nodes_(nodes), types_(types), max_batch_(max_batch), segment_(segment), buffers_(runs) {
        find_uses();
        place_values();
        place_gradients();
    }

    ActivationPlan result() const {
        const MemoryPlan memory = buffers_.plan();
        const auto offset = [&](std::size_t buffer) {
            return buffer == ActivationPlan::none ? ActivationPlan::none : memory.offsets[buffer];
        };
        ActivationPlan result;
        result.bytes = memory.bytes;
        result.segment = segment_;
        result.again_from.assign(nodes_.size(), 0);
        for (std::size_t i = 0; i <= last_; ++i) {
            result.value.push_back(offset(values_[own_copy(i)][i]));
            result.state.push_back(offset(states_[own_copy(i)][i]));
            result.first_value.push_back(offset(values_[0][i]));
            result.first_state.push_back(offset(states_[0][i]));
            result.gradient.push_back(offset(gradient_[i]));
            result.batch_state.push_back(offset(batch_state_[i]));
            std::vector<std::size_t> row;
            for (const std::size_t buffer : scratch_[i]) row.push_back(offset(buffer));
            result.scratch.push_back(std::move(row));
            if (times_.again[i] > 0 && segment_[i + 1] != segment_[i])
                result.again_from[i] = static_cast<std::size_t>(
                    std::lower_bound(segment_.begin() + 1, segment_.end(), segment_[i]) - segment_.begin());
        }
        return result;
    }

  private:
    bool has_backward(std::size_t node) const { return trained_[node] || node == last_; }
    std::size_t backward_time(std::size_t node) const { return times_.backward[node]; }
    // Copy 0 is what forward leaves, copy 1 what is computed again; `reader` runs in the second pass.
    std::size_t own_copy(std::size_t node) const { return times_.again[node] > 0 ? 1 : 0; }
    std::size_t copy_read(std::size_t reader, std::size_t input) const {
        return segment_[input] == segment_[reader] ? own_copy(input) : 0;
    }
    std::size_t bytes_of(std::size_t node) const {
        return static_cast<std::size_t>(nodes_[node].shape.count() * max_batch_) * size_of(types_[node]);
    }

    void find_uses() {
        const auto read = [&](std::size_t node, std::size_t copy, std::size_t time) {
            uses_[node].last_read[copy] = std::max(uses_[node].last_read[copy], time);
        };
        for (std::size_t i = 1; i <= last_; ++i) {
            const Layer& layer = *nodes_[i].layer;
            if (layer.backward_reads_output() && has_backward(i)) read(i, own_copy(i), backward_time(i));
            if (i == last_ || nodes_[i].kept) read(i, 0, loss_);
            for (const NodeId input : nodes_[i].inputs) {
                uses_[input].consumers.push_back(i);
                read(input, 0, i);
                read(input, copy_read(i, input), times_.again[i]);
                if (layer.backward_reads_input() && has_backward(i))
                    read(input, copy_read(i, input), backward_time(i));
            }
        }
        if (nodes_[0].kept) read(0, 0, loss_);
    }

    void place_values() {
        for (std::size_t i = 0; i <= last_; ++i) place_value(i, 0, i);
        // Statistics of the batch are not computed again: one copy lives until backward, or, without it,
        // until all else is.
        for (std::size_t i = 1; i <= last_; ++i)
            if (nodes_[i].layer->batch_state_bytes() > 0)
                batch_state_[i] =
                    buffers_.add(static_cast<std::size_t>(nodes_[i].layer->batch_state_bytes()), i,
                                 has_backward(i) ? backward_time(i) : std::max(i, times_.again[i]));
        for (std::size_t i = 1; i <= last_; ++i)
            if (times_.again[i] > 0) place_value(i, 1, times_.again[i]);
    }

    /// The value and the state that the layer makes at `time`.
    void place_value(std::size_t i, std::size_t copy, std::size_t time) {
        const std::size_t until = std::max(uses_[i].last_read[copy], time);
        const Layer* layer = nodes_[i].layer.get();
        const NodeId source = layer ? nodes_[i].inputs.front() : 0;
        const std::size_t source_copy = copy == 0 ? 0 : copy_read(i, source);
        // In place: this layer alone reads the input, and only in forward. Not on the graph's own input,
        // which the caller fills, nor on a view, whose memory belongs to a value with readers of its own.
        const bool in_place = layer && layer->works_in_place() && source != 0 &&
                              uses_[source].last_read[source_copy] == time &&
                              uses_[source].consumers.size() == 1 && !nodes_[source].layer->is_view();
        if (layer && (layer->is_view() || in_place)) {
            values_[copy][i] = values_[source_copy][source];
            buffers_.extend(values_[copy][i], time, until);
        } else {
            values_[copy][i] = buffers_.add(bytes_of(i), time, until);
        }
        if (layer && layer->state_bytes_per_sample() > 0)
            states_[copy][i] =
                buffers_.add(static_cast<std::size_t>(layer->state_bytes_per_sample() * max_batch_), time,
                             copy == own_copy(i) && has_backward(i) ? backward_time(i) : time);
    }

    void place_gradients() {
        for (std::size_t i = last_; i >= 1; --i) {
            scratch_[i].assign(nodes_[i].inputs.size(), ActivationPlan::none);
            if (!has_backward(i)) continue;
            // Written first by the consumer that runs first in backward, or by the loss.
            if (gradient_[i] == ActivationPlan::none) {
                const std::size_t first =
                    uses_[i].consumers.empty() ? loss_ : backward_time(uses_[i].consumers.back());
                gradient_[i] = buffers_.add(bytes_of(i), first, backward_time(i));
            } else {
                buffers_.extend(gradient_[i], backward_time(i), backward_time(i));
            }
            for (std::size_t k = 0; k < nodes_[i].inputs.size(); ++k) place_input_gradient(i, k);
            share_gradient(i);
        }
    }

    /// The gradient of the k-th input: in this one's memory, or, where it is a part of a sum, in scratch.
    void place_input_gradient(std::size_t i, std::size_t k) {
        const auto& inputs = nodes_[i].inputs;
        const NodeId input = inputs[k];
        if (!trained_[input]) return;
        const Layer& layer = *nodes_[i].layer;
        const bool alone = uses_[input].consumers.size() == 1;
        const auto before = inputs.begin() + static_cast<std::ptrdiff_t>(k);
        const bool repeated = std::find(inputs.begin(), before, input) != before;
        // GELU reads its input in backward, so its output has memory of its own; but dx may be dy.
        const bool in_place = layer.works_in_place() || layer.kind() == "gelu";
        if (k == 0 && alone && (layer.is_view() || (in_place && !locked_[i]))) {
            gradient_[input] = gradient_[i];
            locked_[input] = locked_[i];
        } else if (repeated || i != uses_[input].consumers.back()) {
            if (k == 0 && nodes_[i].adds_gradient) return;
            scratch_[i][k] = buffers_.add(bytes_of(input), backward_time(i), backward_time(i));
        }
    }

    // A residual's gradient is never copied: a sum's second input may have its gradient where the sum's own
    // and so the first input's is, if all that reads that one has run backward before others write there. The
    // second input of a layer that adds it in its own pass, too: others write there later.
    void share_gradient(std::size_t i) {
        const auto& inputs = nodes_[i].inputs;
        const Layer& layer = *nodes_[i].layer;
        if (inputs.size() != 2 || !layer.passes_gradient_on(1) || locked_[i]) return;
        const NodeId one = inputs[0], other = inputs[1];
        const auto& readers = uses_[other].consumers;
        if (one == other || !trained_[other] || readers.back() != i || bytes_of(other) != bytes_of(i)) return;
        const auto source_of = [&](NodeId node) {
            while (node != 0 && nodes_[node].layer->is_view() &&
                   uses_[nodes_[node].inputs.front()].consumers.size() == 1)
                node = nodes_[node].inputs.front();
            return node;
        };
        if (nodes_[source_of(other)].layer->overwrites_output_gradient()) return;
        if (!layer.passes_gradient_on(0)) {
            if (!layer.overwrites_output_gradient()) gradient_[other] = gradient_[i];
            return;
        }
        if (gradient_[one] != gradient_[i]) return;
        const NodeId source = source_of(one);
        if (nodes_[source].layer->passes_gradient_on(1)) return;  // it would have to copy
        if (nodes_[source].layer->overwrites_output_gradient()) return;
        const auto runs_later = [&](std::size_t reader) { return reader == i || reader < source; };
        if (other > source && readers.size() > 1) return;
        if (!std::ranges::all_of(readers, runs_later)) return;
        gradient_[other] = gradient_[i];
        locked_[one] = true;
        locked_[other] = other > source;  // then neither writes there
    }

    const std::vector<GraphSpec::Node>& nodes_;
    const std::vector<DType>& types_;
    const std::int64_t max_batch_;
    const Segments& segment_;
    const std::size_t last_ = nodes_.size() - 1, loss_ = last_ + 1;
    /// Of the graph's input, and of what is computed from it without parameters that are trained, nobody
    /// needs a gradient.
    const std::vector<bool> trained_ = depends_on_trained(nodes_);
    const Times times_{segment_, trained_};
    std::vector<Uses> uses_ = std::vector<Uses>(nodes_.size());

    // By node the numbers of buffers.
    using Numbers = std::vector<std::size_t>;
    Buffers buffers_;
    const Numbers nothing_ = Numbers(nodes_.size(), ActivationPlan::none);
    std::array<Numbers, 2> values_{nothing_, nothing_}, states_{nothing_, nothing_};
    Numbers gradient_ = nothing_, batch_state_ = nothing_;
    std::vector<Numbers> scratch_ = std::vector<Numbers>(nodes_.size());  // by input of the node
    // Gradients that another value's sum begins with: they must outlive backward of their own node.
    std::vector<bool> locked_ = std::vector<bool>(nodes_.size(), false);
};

ActivationPlan plan(const std::vector<GraphSpec::Node>& nodes, const std::vector<DType>& types,
                    std::int64_t max_batch, const Segments& segment, std::span<const SampleRun> runs = {}) {
    return Planning(nodes, types, max_batch, segment, runs).result();
}

// Whether all that later layers read of the values up to `node` is `node` itself, or the graph's input.
std::vector<bool> find_cuts(const std::vector<GraphSpec::Node>& nodes) {
    std::vector<bool> cut(nodes.size(), true);
    cut.front() = cut.back() = false;
    for (std::size_t reader = 1; reader < nodes.size(); ++reader)
        for (const NodeId input : nodes[reader].inputs)
            for (std::size_t between = input + 1; input != 0 && between < reader; ++between)
                cut[between] = false;
    return cut;
}

}  // namespace

ActivationPlan plan_activations(const std::vector<GraphSpec::Node>& nodes, const std::vector<DType>& types,
                                std::int64_t max_batch, std::span<const SampleRun> runs) {
    Segments one(nodes.size(), 1);
    one.front() = 0;
    return plan(nodes, types, max_batch, one, runs);
}

ActivationPlan plan_recomputation(const std::vector<GraphSpec::Node>& nodes, const std::vector<DType>& types,
                                  std::int64_t max_batch) {
    const std::vector<bool> cut = find_cuts(nodes);
    const auto cuts = static_cast<std::int64_t>(std::count(cut.begin(), cut.end(), true));
    std::int64_t elements = 0;
    for (std::size_t i = 1; i < nodes.size(); ++i) elements += nodes[i].shape.count();

    ActivationPlan best = plan_activations(nodes, types, max_batch);
    constexpr std::int64_t most_segments = 64;
    for (std::int64_t count = 2; count <= std::min(cuts + 1, most_segments); ++count) {
        Segments segment(nodes.size(), 0);
        std::int64_t passed = 0;
        std::size_t current = 1;
        for (std::size_t i = 1; i < nodes.size(); ++i) {
            segment[i] = current;
            passed += nodes[i].shape.count();
            if (cut[i] && passed * count >= static_cast<std::int64_t>(current) * elements) ++current;
        }
        ActivationPlan candidate = plan(nodes, types, max_batch, segment);
        if (candidate.bytes < best.bytes) best = std::move(candidate);
    }
    return best;
}

}  // namespace tutti
