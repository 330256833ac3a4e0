// Where everything of a graph lies: parameters and gradients in their arenas, activations by their lifetimes,
// and the views of each layer's calls.

#include <algorithm>
#include <utility>

#include "gelu_fusion.hpp"
#include "gradient_sums.hpp"
#include "graph_impl.hpp"
#include "pool_fusion.hpp"
#include "relu_fusion.hpp"
#include "tutti/base/error.hpp"
#include "value_types.hpp"

namespace tutti {
namespace {

// One cache line, and what vector instructions like.
constexpr std::size_t parameter_alignment = 64;

std::size_t padded(std::size_t bytes) {
    return (bytes + parameter_alignment - 1) / parameter_alignment * parameter_alignment;
}

/// Memory that somebody else owns.
Buffer borrowed(const Buffer& memory) {
    return {memory.data(), memory.size(), [](std::byte*, std::size_t) noexcept {}};
}

/// The sizes of buffers, in bytes and added up, stay in 64 bits: what is more is refused here and not by who
/// allocates it.
void require_countable_batch(const std::vector<GraphSpec::Node>& nodes, std::int64_t samples) {
    constexpr double most = std::int64_t{1} << 50;
    for (const GraphSpec::Node& node : nodes)
        if (static_cast<double>(node.shape.count()) * static_cast<double>(samples) > most)
            throw RunError("no memory holds " + node.name + ", " + to_string(node.shape) + ", of " +
                               std::to_string(samples) + " samples",
                           "use a smaller train.batch_size or model");
}

/// By node, the last one that reads it.
template <class Nodes>
std::vector<std::size_t> last_consumers(const Nodes& nodes) {
    std::vector<std::size_t> last(nodes.size(), 0);
    for (std::size_t i = 1; i < nodes.size(); ++i)
        for (const NodeId input : nodes[i].inputs) last[input] = i;
    return last;
}

}  // namespace

void Graph::Impl::lay_out(const std::function<Buffer(std::size_t)>& give_gradient_memory, const Impl* first) {
    auto& nodes = spec.nodes();
    if (ops->fuses_residual()) fuse_sums(nodes);
    if (ops->fuses_relu()) fuse_relus(nodes, *ops);
    fuse_poolings(nodes, *ops);
    // With recompute a GPU's GELU by tanh has a kernel of its own, whose bits are others.
    fuse_gelus(nodes, *ops, recomputes);
    const std::vector<DType> types = value_types(nodes, {compute, ops->activations(), ops->images()});
    for (std::size_t i = 1; i < nodes.size(); ++i) nodes[i].layer->choose_what_is_kept(*ops, types[i]);
    lay_out_parameters();
    if (first) {
        parameter_memory = borrowed(first->parameter_memory);
        rounded_memory = borrowed(first->rounded_memory);
    } else {
        allocate_parameters(give_gradient_memory);
    }
    lay_out_activations(types, recomputes);
    lay_out_buffers(first);
    for (auto& node : nodes)
        if (node.layer) node.layer->prepare(*ops);
}

void Graph::Impl::lay_out_parameters() {
    auto& nodes = spec.nodes();
    std::size_t number = 0;
    for (const auto& node : nodes) {
        if (!node.layer) continue;
        for (std::size_t k = 0; k < node.layer->parameters().size(); ++k) {
            const ParameterSpec& one = node.layer->parameters()[k];
            (node.is_frozen(k) ? frozen : parameters)
                .push_back({GraphSpec::full_name(node, one), one, 0, one.file_shape.count(), number++});
        }
    }
    std::reverse(parameters.begin(), parameters.end());
    std::reverse(frozen.begin(), frozen.end());

    const auto alignment = static_cast<std::int64_t>(parameter_alignment / size_of(compute));
    const auto place = [&](Parameter& parameter, std::int64_t unit) {
        parameter.offset = all_count;
        all_count += (parameter.count + unit - 1) / unit * unit;
    };
    for (Parameter& parameter : parameters) place(parameter, alignment * shards);
    arena_count = all_count;
    for (Parameter& parameter : frozen) place(parameter, alignment);
}

void Graph::Impl::allocate_parameters(const std::function<Buffer(std::size_t)>& give_gradient_memory) {
    const std::size_t bytes = static_cast<std::size_t>(arena_count) * size_of(compute);
    const auto all = static_cast<std::size_t>(all_count);
    if (give_gradient_memory) gradient_memory = give_gradient_memory(bytes);
    if (gradient_memory.size() > 0)
        ops->fill(gradient_memory.view(0, compute, {arena_count}), 0.0);
    else
        gradient_memory = device->allocate(bytes, "gradients");
    parameter_memory = device->allocate(all * size_of(compute), "parameters");
    if (ops->product_inputs() != compute)
        rounded_memory =
            device->allocate(all * size_of(ops->product_inputs()), "parameters, rounded for products");
}

/// A layer computes the gradients of all its parameters; those of frozen ones go where the next such layer
/// writes its own.
void Graph::Impl::allocate_discarded_gradients() {
    std::size_t most = 0;
    for (std::size_t node = 1; node < calls.size(); ++node) {
        if (!calls[node].output_gradient.defined()) continue;
        std::size_t bytes = 0;
        const auto& specs = spec.nodes()[node].layer->parameters();
        for (std::size_t k = 0; k < specs.size(); ++k)
            if (spec.nodes()[node].is_frozen(k))
                bytes += padded(static_cast<std::size_t>(specs[k].file_shape.count()) * size_of(compute));
        most = std::max(most, bytes);
    }
    discarded_memory = device->allocate(most, "gradients of frozen parameters");
}

TensorView Graph::Impl::parameter_view(const TensorView& arena, const Parameter& parameter) const {
    if (!arena.defined()) return {};  // gradients that are still to be redirected
    return {arena.data + static_cast<std::size_t>(parameter.offset) * size_of(arena.dtype), arena.dtype,
            parameter.spec.arena_shape()};
}

void Graph::Impl::lay_out_activations(const std::vector<DType>& types, bool recompute) {
    auto& nodes = spec.nodes();
    require_countable_batch(nodes, max_batch);
    // What is computed again must get the same bits, and runs save nothing there that would be worth a second
    // plan.
    if (!recompute) runs = find_sample_runs(nodes, size_of(compute), max_batch, ops->cache_bytes());
    fuse_gradient_sums(nodes, types, *ops);
    const ActivationPlan plan = recompute ? plan_recomputation(nodes, types, max_batch)
                                          : plan_activations(nodes, types, max_batch, runs);
    activation_memory = device->allocate(plan.bytes, "activations");

    gradients = {gradient_memory.data(), compute, {arena_count}};
    calls.resize(nodes.size());
    calls[0].output = calls[0].first_output = activation(plan.value[0], 0, types[0]);
    const std::vector<std::size_t> last_consumer = last_consumers(nodes);
    for (std::size_t i = 1; i < nodes.size(); ++i) view_activations(i, plan, types, last_consumer);
    view_parameters();
}

TensorView Graph::Impl::activation(std::size_t offset, std::size_t node, DType type) const {
    if (offset == ActivationPlan::none) return {};
    return activation_memory.view(offset, type, spec.nodes()[node].shape.with_front(max_batch));
}

void Graph::Impl::view_activations(std::size_t node, const ActivationPlan& plan,
                                   const std::vector<DType>& types,
                                   const std::vector<std::size_t>& last_consumer) {
    const auto& nodes = spec.nodes();
    const GraphSpec::Node& of = nodes[node];
    Calls& call = calls[node];
    for (std::size_t k = 0; k < of.inputs.size(); ++k) {
        const NodeId input = of.inputs[k];
        const auto tensor = [&](std::size_t offset) { return activation(offset, input, types[input]); };
        call.inputs.push_back(tensor(plan.input_value(node, input)));
        call.first_inputs.push_back(tensor(plan.first_value[input]));
        call.input_gradients.push_back(tensor(plan.gradient[input]));
        call.scratch.push_back(tensor(plan.scratch[node][k]));
        call.first.push_back(last_consumer[input] == node);
    }
    call.output = activation(plan.value[node], node, types[node]);
    call.output_gradient = activation(plan.gradient[node], node, types[node]);
    call.first_output = activation(plan.first_value[node], node, types[node]);
    call.again_from = plan.again_from[node];
    if (const NodeId source = source_of_fused_gelu(nodes, node))
        call.gelu_input = activation(plan.state[source], source, types[source]);
    if (plan.state[node] != ActivationPlan::none) {
        const Shape state{max_batch, of.layer->state_bytes_per_sample()};
        call.state = activation_memory.view(plan.state[node], DType::u8, state);
        call.first_state = activation_memory.view(plan.first_state[node], DType::u8, state);
    }
    if (plan.batch_state[node] != ActivationPlan::none)
        call.batch_state =
            activation_memory.view(plan.batch_state[node], DType::u8, {of.layer->batch_state_bytes()});
}

void Graph::Impl::view_parameters() {
    const TensorView values{parameter_memory.data(), compute, {all_count}};
    const TensorView for_products =
        rounded_memory.size() > 0 ? TensorView{rounded_memory.data(), ops->product_inputs(), {all_count}}
                                  : values;
    allocate_discarded_gradients();
    std::size_t trained = parameters.size(), kept = frozen.size();
    for (std::size_t node = 1; node < calls.size(); ++node) {
        Calls& call = calls[node];
        std::size_t discarded = 0;
        for (std::size_t k = 0; k < spec.nodes()[node].layer->parameters().size(); ++k) {
            const bool is_frozen = spec.nodes()[node].is_frozen(k);
            const Parameter& parameter = is_frozen ? frozen[--kept] : parameters[--trained];
            call.parameters.push_back(parameter_view(values, parameter));
            call.product_parameters.push_back(parameter_view(for_products, parameter));
            call.parameter_places.push_back(is_frozen ? Calls::frozen : trained);
            if (!is_frozen) {
                call.parameter_numbers.push_back(trained);
                call.parameter_gradients.push_back(parameter_view(gradients, parameter));
            } else if (call.output_gradient.defined()) {
                call.parameter_gradients.push_back(
                    discarded_memory.view(discarded, compute, parameter.spec.arena_shape()));
                discarded += padded(call.parameter_gradients.back().bytes());
            } else {
                call.parameter_gradients.emplace_back();
            }
        }
    }
}

}  // namespace tutti
