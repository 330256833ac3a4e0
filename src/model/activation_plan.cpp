#include "activation_plan.hpp"

#include <algorithm>
#include <array>
#include <numeric>

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

// When each layer runs forward again (0: never) and backward.
struct Times {
    explicit Times(const Segments& segment) : again(segment.size()), backward(segment.size()) {
        const std::size_t last = segment.size() - 1;
        std::size_t time = last + 1;
        for (std::size_t end = last; end >= 1;) {
            std::size_t begin = end;
            while (begin > 1 && segment[begin - 1] == segment[end]) --begin;
            if (end != last)
                for (std::size_t i = begin; i <= end; ++i) again[i] = ++time;
            for (std::size_t i = end; i >= begin; --i) backward[i] = ++time;
            end = begin - 1;
        }
    }
    std::vector<std::size_t> again, backward;
};

/// Of the graph's input, and of what is computed from it without parameters, nobody needs a gradient.
std::vector<bool> depends_on_parameters(const std::vector<GraphSpec::Node>& nodes) {
    std::vector<bool> result(nodes.size(), false);
    for (std::size_t i = 1; i < nodes.size(); ++i)
        result[i] = !nodes[i].layer->parameters().empty() ||
                    std::ranges::any_of(nodes[i].inputs, [&](NodeId input) { return result[input]; });
    return result;
}

ActivationPlan plan(const std::vector<GraphSpec::Node>& nodes, const std::vector<DType>& types,
                    std::int64_t max_batch, const Segments& segment, std::span<const SampleRun> runs = {}) {
    const std::size_t last = nodes.size() - 1;
    const std::size_t loss = last + 1;
    const Times times(segment);
    const auto backward_time = [&](std::size_t node) { return times.backward[node]; };
    // Copy 0 is what forward leaves, copy 1 what is computed again; `reader` runs in the second pass.
    const auto own_copy = [&](std::size_t node) { return times.again[node] > 0 ? 1U : 0U; };
    const auto copy_read = [&](std::size_t reader, std::size_t input) {
        return segment[input] == segment[reader] ? own_copy(input) : 0U;
    };
    const auto bytes_of = [&](std::size_t node) {
        return static_cast<std::size_t>(nodes[node].shape.count() * max_batch) * size_of(types[node]);
    };

    std::vector<Uses> uses(nodes.size());
    for (std::size_t i = 1; i <= last; ++i) {
        const Layer& layer = *nodes[i].layer;
        const auto read = [&](std::size_t node, std::size_t copy, std::size_t time) {
            uses[node].last_read[copy] = std::max(uses[node].last_read[copy], time);
        };
        if (layer.backward_reads_output()) read(i, own_copy(i), backward_time(i));
        if (i == last || nodes[i].kept) read(i, 0, loss);
        for (const NodeId input : nodes[i].inputs) {
            uses[input].consumers.push_back(i);
            read(input, 0, i);
            read(input, copy_read(i, input), times.again[i]);
            if (layer.backward_reads_input()) read(input, copy_read(i, input), backward_time(i));
        }
    }
    if (nodes[0].kept) uses[0].last_read[0] = std::max(uses[0].last_read[0], loss);

    Buffers buffers(runs);
    const std::vector<std::size_t> nothing(nodes.size(), ActivationPlan::none);
    std::array<std::vector<std::size_t>, 2> values{nothing, nothing}, states{nothing, nothing};
    std::vector<std::size_t> gradient = nothing, batch_state = nothing;
    std::vector<std::vector<std::size_t>> scratch(nodes.size());
    const auto add_value = [&](std::size_t i, std::size_t copy, std::size_t time) {
        const std::size_t until = std::max(uses[i].last_read[copy], time);
        const Layer* layer = nodes[i].layer.get();
        const NodeId source = layer ? nodes[i].inputs.front() : 0;
        const std::size_t source_copy = copy == 0 ? 0 : copy_read(i, source);
        // In place: this layer alone reads the input, and only in forward. Not on the graph's own input,
        // which the caller fills, nor on a view, whose memory belongs to a value with readers of its own.
        const bool in_place = layer && layer->works_in_place() && source != 0 &&
                              uses[source].last_read[source_copy] == time &&
                              uses[source].consumers.size() == 1 && !nodes[source].layer->is_view();
        if (layer && (layer->is_view() || in_place)) {
            values[copy][i] = values[source_copy][source];
            buffers.extend(values[copy][i], time, until);
        } else {
            values[copy][i] = buffers.add(bytes_of(i), time, until);
        }
        if (layer && layer->state_bytes_per_sample() > 0)
            states[copy][i] =
                buffers.add(static_cast<std::size_t>(layer->state_bytes_per_sample() * max_batch), time,
                            copy == own_copy(i) ? backward_time(i) : time);
    };
    for (std::size_t i = 0; i <= last; ++i) add_value(i, 0, i);
    // Statistics of the batch are not computed again: one copy lives until backward.
    for (std::size_t i = 1; i <= last; ++i)
        if (nodes[i].layer->batch_state_bytes() > 0)
            batch_state[i] = buffers.add(static_cast<std::size_t>(nodes[i].layer->batch_state_bytes()), i,
                                         backward_time(i));
    for (std::size_t i = 1; i <= last; ++i)
        if (times.again[i] > 0) add_value(i, 1, times.again[i]);

    const std::vector<bool> trained = depends_on_parameters(nodes);
    // Gradients that another value's sum begins with: they must outlive backward of their own node.
    std::vector<bool> locked(nodes.size(), false);
    // A residual's gradient is never copied: a sum's second input may have its gradient where the sum's own
    // and so the first input's is, if all that reads that one has run backward before others write there. The
    // second input of a layer that adds it in its own pass, too: others write there later.
    const auto share_gradient = [&](std::size_t i) {
        const auto& inputs = nodes[i].inputs;
        const Layer& layer = *nodes[i].layer;
        if (inputs.size() != 2 || !layer.passes_gradient_on(1) || locked[i]) return;
        const NodeId one = inputs[0], other = inputs[1];
        const auto& readers = uses[other].consumers;
        if (one == other || !trained[other] || readers.back() != i || bytes_of(other) != bytes_of(i)) return;
        const auto source_of = [&](NodeId node) {
            while (node != 0 && nodes[node].layer->is_view() &&
                   uses[nodes[node].inputs.front()].consumers.size() == 1)
                node = nodes[node].inputs.front();
            return node;
        };
        const NodeId source_of_other = source_of(other);
        if (nodes[source_of_other].layer->overwrites_output_gradient()) return;
        if (!layer.passes_gradient_on(0)) {
            if (!layer.overwrites_output_gradient()) gradient[other] = gradient[i];
            return;
        }
        if (gradient[one] != gradient[i]) return;
        const NodeId source = source_of(one);
        if (nodes[source].layer->passes_gradient_on(1)) return;  // it would have to copy
        if (nodes[source].layer->overwrites_output_gradient()) return;
        const auto runs_later = [&](std::size_t reader) { return reader == i || reader < source; };
        if (other > source && readers.size() > 1) return;
        if (!std::ranges::all_of(readers, runs_later)) return;
        gradient[other] = gradient[i];
        locked[one] = true;
        locked[other] = other > source;  // then neither writes there
    };
    for (std::size_t i = last; i >= 1; --i) {
        scratch[i].assign(nodes[i].inputs.size(), ActivationPlan::none);
        if (!trained[i] && i != last) continue;
        // Written first by the consumer that runs first in backward, or by the loss.
        if (gradient[i] == ActivationPlan::none) {
            const std::size_t first =
                uses[i].consumers.empty() ? loss : backward_time(uses[i].consumers.back());
            gradient[i] = buffers.add(bytes_of(i), first, backward_time(i));
        } else {
            buffers.extend(gradient[i], backward_time(i), backward_time(i));
        }
        for (std::size_t k = 0; k < nodes[i].inputs.size(); ++k) {
            const NodeId input = nodes[i].inputs[k];
            if (!trained[input]) continue;
            const Layer& layer = *nodes[i].layer;
            const bool alone = uses[input].consumers.size() == 1;
            const auto before = nodes[i].inputs.begin() + static_cast<std::ptrdiff_t>(k);
            const bool repeated = std::find(nodes[i].inputs.begin(), before, input) != before;
            // GELU reads its input in backward, so its output has memory of its own; but dx may be dy.
            const bool in_place = layer.works_in_place() || layer.kind() == "gelu";
            if (k == 0 && alone && (layer.is_view() || (in_place && !locked[i]))) {
                gradient[input] = gradient[i];
                locked[input] = locked[i];
            } else if (repeated || i != uses[input].consumers.back()) {
                if (k == 0 && nodes[i].adds_gradient) continue;
                scratch[i][k] = buffers.add(bytes_of(input), backward_time(i), backward_time(i));
            }
        }
        share_gradient(i);
    }

    const MemoryPlan memory = buffers.plan();
    const auto offset = [&](std::size_t buffer) {
        return buffer == ActivationPlan::none ? ActivationPlan::none : memory.offsets[buffer];
    };
    ActivationPlan result;
    result.bytes = memory.bytes;
    result.segment = segment;
    result.again_from.assign(nodes.size(), 0);
    for (std::size_t i = 0; i <= last; ++i) {
        result.value.push_back(offset(values[own_copy(i)][i]));
        result.state.push_back(offset(states[own_copy(i)][i]));
        result.first_value.push_back(offset(values[0][i]));
        result.first_state.push_back(offset(states[0][i]));
        result.gradient.push_back(offset(gradient[i]));
        result.batch_state.push_back(offset(batch_state[i]));
        std::vector<std::size_t> row;
        for (const std::size_t buffer : scratch[i]) row.push_back(offset(buffer));
        result.scratch.push_back(std::move(row));
        if (times.again[i] > 0 && segment[i + 1] != segment[i])
            result.again_from[i] = static_cast<std::size_t>(
                std::lower_bound(segment.begin() + 1, segment.end(), segment[i]) - segment.begin());
    }
    return result;
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
