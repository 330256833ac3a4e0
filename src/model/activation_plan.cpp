#include "activation_plan.hpp"

#include <algorithm>
#include <numeric>

#include "tutti/model/memory_plan.hpp"

namespace tutti {
namespace {

constexpr std::size_t alignment = 64;

// Buffers that several tensors may share; a shared buffer lives as long as any of them.
class Buffers {
  public:
    std::size_t add(std::size_t bytes, std::size_t first, std::size_t last) {
        lifetimes_.push_back({bytes, first, last});
        return lifetimes_.size() - 1;
    }
    void extend(std::size_t buffer, std::size_t first, std::size_t last) {
        lifetimes_[buffer].first = std::min(lifetimes_[buffer].first, first);
        lifetimes_[buffer].last = std::max(lifetimes_[buffer].last, last);
    }
    MemoryPlan plan() const { return plan_memory(lifetimes_, alignment); }

  private:
    std::vector<Lifetime> lifetimes_;
};

struct Uses {
    std::vector<std::size_t> consumers;  // ascending
    std::size_t last_read = 0;           // of the value
};

}  // namespace

ActivationPlan plan_activations(const std::vector<GraphSpec::Node>& nodes, std::size_t element_bytes,
                                std::int64_t max_batch) {
    const std::size_t last = nodes.size() - 1;
    const std::size_t loss = last + 1;
    const auto backward_time = [&](std::size_t node) { return 2 * last + 2 - node; };
    const auto bytes_of = [&](std::size_t node) {
        return static_cast<std::size_t>(nodes[node].shape.count() * max_batch) * element_bytes;
    };

    std::vector<Uses> uses(nodes.size());
    for (std::size_t i = 1; i <= last; ++i) {
        const Layer& layer = *nodes[i].layer;
        if (layer.backward_reads_output()) uses[i].last_read = std::max(uses[i].last_read, backward_time(i));
        for (const NodeId input : nodes[i].inputs) {
            uses[input].consumers.push_back(i);
            const std::size_t read = layer.backward_reads_input() ? backward_time(i) : i;
            uses[input].last_read = std::max(uses[input].last_read, read);
        }
    }
    uses[last].last_read = std::max(uses[last].last_read, loss);

    Buffers buffers;
    std::vector<std::size_t> value(nodes.size()), gradient(nodes.size(), ActivationPlan::none),
        state(nodes.size(), ActivationPlan::none);
    std::vector<std::vector<std::size_t>> scratch(nodes.size());
    for (std::size_t i = 0; i <= last; ++i) {
        const std::size_t until = std::max(uses[i].last_read, i);
        const Layer* layer = nodes[i].layer.get();
        const NodeId source = layer ? nodes[i].inputs.front() : 0;
        // In place: this layer alone reads the input, and only in forward. Not on the graph's own input,
        // which the caller fills, nor on a view, whose memory belongs to a value with readers of its own.
        const bool in_place = layer && layer->works_in_place() && source != 0 &&
                              uses[source].last_read == i && uses[source].consumers.size() == 1 &&
                              !nodes[source].layer->is_view();
        if (layer && (layer->is_view() || in_place)) {
            value[i] = value[source];
            buffers.extend(value[i], i, until);
        } else {
            value[i] = buffers.add(bytes_of(i), i, until);
        }
        if (layer && layer->state_bytes_per_sample() > 0)
            state[i] = buffers.add(static_cast<std::size_t>(layer->state_bytes_per_sample() * max_batch), i,
                                   backward_time(i));
    }

    for (std::size_t i = last; i >= 1; --i) {
        // Written first by the consumer that runs first in backward, or by the loss.
        if (gradient[i] == ActivationPlan::none) {
            const std::size_t first =
                uses[i].consumers.empty() ? loss : backward_time(uses[i].consumers.back());
            gradient[i] = buffers.add(bytes_of(i), first, backward_time(i));
        } else {
            buffers.extend(gradient[i], backward_time(i), backward_time(i));
        }
        scratch[i].assign(nodes[i].inputs.size(), ActivationPlan::none);
        for (std::size_t k = 0; k < nodes[i].inputs.size(); ++k) {
            const NodeId input = nodes[i].inputs[k];
            if (input == 0) continue;
            const Layer& layer = *nodes[i].layer;
            const bool alone = uses[input].consumers.size() == 1;
            const auto before = nodes[i].inputs.begin() + static_cast<std::ptrdiff_t>(k);
            const bool repeated = std::find(nodes[i].inputs.begin(), before, input) != before;
            if (k == 0 && alone && (layer.is_view() || layer.works_in_place()))
                gradient[input] = gradient[i];
            else if (repeated || i != uses[input].consumers.back())
                scratch[i][k] = buffers.add(bytes_of(input), backward_time(i), backward_time(i));
        }
    }

    const MemoryPlan plan = buffers.plan();
    const auto offset = [&](std::size_t buffer) {
        return buffer == ActivationPlan::none ? ActivationPlan::none : plan.offsets[buffer];
    };
    ActivationPlan result;
    result.bytes = plan.bytes;
    for (std::size_t i = 0; i <= last; ++i) {
        result.value.push_back(offset(value[i]));
        result.gradient.push_back(offset(gradient[i]));
        result.state.push_back(offset(state[i]));
        std::vector<std::size_t> row;
        for (const std::size_t buffer : scratch[i]) row.push_back(offset(buffer));
        result.scratch.push_back(std::move(row));
    }
    return result;
}

}  // namespace tutti
