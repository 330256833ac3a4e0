#include "tutti/model/graph.hpp"

#include <algorithm>
#include <array>
#include <numeric>
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

// Of one layer.
constexpr std::size_t most_inputs = 8;

void set_front(TensorView& view, std::int64_t n) {
    if (view.defined()) view.shape[0] = n;
}

/// Memory that somebody else owns.
Buffer borrowed(const Buffer& memory) {
    return {memory.data(), memory.size(), [](std::byte*, std::size_t) noexcept {}};
}

TensorView rows_of(const TensorView& view, std::int64_t begin, std::int64_t end) {
    if (!view.defined()) return {};
    TensorView rows = view;
    rows.shape[0] = 1;
    rows.data += static_cast<std::size_t>(begin) * rows.bytes();
    rows.shape[0] = end - begin;
    return rows;
}

}  // namespace

void Graph::Impl::lay_out_parameters() {
    auto& nodes = spec.nodes();
    std::size_t number = 0;
    for (const auto& node : nodes)
        if (node.layer)
            for (const ParameterSpec& one : node.layer->parameters())
                parameters.push_back(
                    {GraphSpec::full_name(node, one), one, 0, one.file_shape.count(), number++});
    std::reverse(parameters.begin(), parameters.end());

    const auto alignment = static_cast<std::int64_t>(parameter_alignment / size_of(compute)) * shards;
    for (Parameter& parameter : parameters) {
        parameter.offset = arena_count;
        arena_count += (parameter.count + alignment - 1) / alignment * alignment;
    }
}

void Graph::Impl::allocate_parameters(const std::function<Buffer(std::size_t)>& give_gradient_memory) {
    const std::size_t bytes = static_cast<std::size_t>(arena_count) * size_of(compute);
    if (give_gradient_memory) gradient_memory = give_gradient_memory(bytes);
    if (gradient_memory.size() > 0)
        ops->fill(gradient_memory.view(0, compute, {arena_count}), 0.0);
    else
        gradient_memory = device->allocate(bytes, "gradients");
    parameter_memory = device->allocate(bytes, "parameters");
    if (ops->product_inputs() != compute)
        rounded_memory =
            device->allocate(static_cast<std::size_t>(arena_count) * size_of(ops->product_inputs()),
                             "parameters, rounded for products");
}

TensorView Graph::Impl::parameter_view(const TensorView& arena, const Parameter& parameter) const {
    if (!arena.defined()) return {};  // gradients that are still to be redirected
    return {arena.data + static_cast<std::size_t>(parameter.offset) * size_of(arena.dtype), arena.dtype,
            parameter.spec.arena_shape()};
}

void Graph::Impl::lay_out_activations(const std::vector<DType>& types, bool recompute) {
    auto& nodes = spec.nodes();
    // What is computed again must get the same bits, and runs save nothing there that would be worth a second
    // plan.
    if (!recompute) runs = find_sample_runs(nodes, size_of(compute), max_batch, ops->cache_bytes());
    fuse_gradient_sums(nodes, types, *ops);
    const ActivationPlan plan = recompute ? plan_recomputation(nodes, types, max_batch)
                                          : plan_activations(nodes, types, max_batch, runs);
    activation_memory = device->allocate(plan.bytes, "activations");

    const auto tensor = [&](std::size_t offset, std::size_t node) {
        if (offset == ActivationPlan::none) return TensorView{};
        return activation_memory.view(offset, types[node], nodes[node].shape.with_front(max_batch));
    };
    const TensorView parameter_arena{parameter_memory.data(), compute, {arena_count}};
    const TensorView gradient_arena{gradient_memory.data(), compute, {arena_count}};
    const TensorView product_arena =
        rounded_memory.size() > 0 ? TensorView{rounded_memory.data(), ops->product_inputs(), {arena_count}}
                                  : parameter_arena;

    std::vector<std::size_t> last_consumer(nodes.size(), 0);
    for (std::size_t i = 1; i < nodes.size(); ++i)
        for (const NodeId input : nodes[i].inputs) last_consumer[input] = i;

    gradients = gradient_arena;
    calls.resize(nodes.size());
    calls[0].output = calls[0].first_output = tensor(plan.value[0], 0);
    std::size_t number = parameters.size();
    for (std::size_t i = 1; i < nodes.size(); ++i) {
        Calls& call = calls[i];
        for (std::size_t k = 0; k < nodes[i].inputs.size(); ++k) {
            const NodeId input = nodes[i].inputs[k];
            call.inputs.push_back(tensor(plan.input_value(i, input), input));
            call.first_inputs.push_back(tensor(plan.first_value[input], input));
            call.input_gradients.push_back(tensor(plan.gradient[input], input));
            call.scratch.push_back(tensor(plan.scratch[i][k], input));
            call.first.push_back(last_consumer[input] == i);
        }
        call.output = tensor(plan.value[i], i);
        call.output_gradient = tensor(plan.gradient[i], i);
        call.first_output = tensor(plan.first_value[i], i);
        call.again_from = plan.again_from[i];
        if (const NodeId source = source_of_fused_gelu(nodes, i))
            call.gelu_input = tensor(plan.state[source], source);
        const Shape state{max_batch, nodes[i].layer->state_bytes_per_sample()};
        if (plan.state[i] != ActivationPlan::none) {
            call.state = activation_memory.view(plan.state[i], DType::u8, state);
            call.first_state = activation_memory.view(plan.first_state[i], DType::u8, state);
        }
        if (plan.batch_state[i] != ActivationPlan::none)
            call.batch_state =
                activation_memory.view(plan.batch_state[i], DType::u8, {nodes[i].layer->batch_state_bytes()});
        for (std::size_t k = 0; k < nodes[i].layer->parameters().size(); ++k) {
            --number;
            call.parameter_numbers.push_back(number);
            call.parameters.push_back(parameter_view(parameter_arena, parameters[number]));
            call.product_parameters.push_back(parameter_view(product_arena, parameters[number]));
            call.parameter_gradients.push_back(parameter_view(gradient_arena, parameters[number]));
        }
    }
}

void Graph::Impl::set_batch(std::int64_t n) {
    assert(n >= 0 && n <= max_batch);
    if (n == batch) return;
    batch = n;
    for (Calls& call : calls) {
        for (auto* views : {&call.inputs, &call.first_inputs, &call.input_gradients, &call.scratch})
            for (TensorView& view : *views) set_front(view, n);
        for (TensorView* view : {&call.output, &call.first_output, &call.output_gradient, &call.state,
                                 &call.first_state, &call.gelu_input})
            set_front(*view, n);
    }
}

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

Graph::Graph(GraphSpec spec, Device& device, Arithmetic arithmetic, std::int64_t max_batch, bool recompute,
             int shards, const std::function<Buffer(std::size_t)>& gradient_memory)
    : impl_(std::make_unique<Impl>(std::move(spec), device, arithmetic, max_batch, recompute, shards)) {
    if (impl_->spec.nodes().size() < 2)
        throw UsageError("the model has no layers", "give model.name or model.layers");
    impl_->lay_out(gradient_memory, nullptr);
}

Graph::Graph(GraphSpec spec, Device& device, Arithmetic arithmetic, const Graph& first)
    : impl_(std::make_unique<Impl>(std::move(spec), device, arithmetic, first.impl_->max_batch,
                                   first.impl_->recomputes, first.impl_->shards)) {
    assert(arithmetic.compute == first.impl_->compute);
    impl_->lay_out({}, first.impl_.get());
    assert(impl_->arena_count == first.impl_->arena_count);
}

Graph::~Graph() = default;
Graph::Graph(Graph&&) noexcept = default;

DType Graph::compute() const {
    return impl_->compute;
}
std::int64_t Graph::max_batch() const {
    return impl_->max_batch;
}
const Shape& Graph::input_shape() const {
    return impl_->spec.nodes().front().shape;
}
const Shape& Graph::output_shape() const {
    return impl_->spec.nodes().back().shape;
}
const std::vector<Parameter>& Graph::parameters() const {
    return impl_->parameters;
}

GraphMemory Graph::memory() const {
    return {.parameters = impl_->parameter_memory.size(),
            .gradients = impl_->gradient_memory.size(),
            .activations = impl_->activation_memory.size(),
            .buffers = impl_->buffer_memory.size(),
            .rounded = impl_->rounded_memory.size(),
            .statistics = impl_->statistics_memory.size()};
}

std::vector<Graph::LayerReport> Graph::report() const {
    std::vector<LayerReport> rows;
    for (std::size_t i = 1; i < impl_->spec.nodes().size(); ++i) {
        const auto& node = impl_->spec.nodes()[i];
        std::int64_t count = 0;
        for (const ParameterSpec& one : node.layer->parameters()) count += one.file_shape.count();
        const bool input_gradient =
            std::ranges::any_of(impl_->calls[i].input_gradients, &TensorView::defined);
        rows.push_back({node.name, node.layer->kind(), node.shape, count, node.layer->forward_flops(),
                        node.layer->backward_flops(input_gradient)});
    }
    return rows;
}

TensorView Graph::parameter_arena() const {
    return impl_->parameter_memory.view(0, impl_->compute, {impl_->arena_count});
}
TensorView Graph::gradient_arena() const {
    return impl_->gradient_memory.view(0, impl_->compute, {impl_->arena_count});
}

void Graph::parameters_changed() const {
    if (impl_->rounded_memory.size() == 0) return;
    const TensorView rounded{
        impl_->rounded_memory.data(), impl_->ops->product_inputs(), {impl_->arena_count}};
    impl_->ops->round_for_products(parameter_arena(), rounded);
}

TensorView Graph::input(std::int64_t n) const {
    impl_->set_batch(n);
    return impl_->calls.front().output;
}
TensorView Graph::output_gradient(std::int64_t n) const {
    impl_->set_batch(n);
    return impl_->calls.back().output_gradient;
}

void Graph::Impl::redirect_gradients(const TensorView& arena) {
    assert(arena.count() == arena_count && arena.dtype == compute);
    gradients = arena;
    for (Calls& call : calls)
        for (std::size_t k = 0; k < call.parameter_numbers.size(); ++k)
            call.parameter_gradients[k] = parameter_view(arena, parameters[call.parameter_numbers[k]]);
}

void Graph::redirect_gradients(const TensorView& arena) {
    impl_->redirect_gradients(arena);
}

TensorView Graph::value(NodeId node, std::int64_t n) const {
    assert(impl_->spec.nodes().at(node).kept);
    impl_->set_batch(n);
    return impl_->calls.at(node).first_output;
}

void Graph::observe(GraphObserver* observer) {
    impl_->observer = observer;
}
void Graph::set_progress(std::function<void()> progress) {
    impl_->progress = std::move(progress);
}

void Graph::set_before_use(BeforeUse before_use) {
    impl_->before_use = std::move(before_use);
}

/// A layer's parameters are neighbours, the last one first.
void Graph::Impl::use_parameters_of(const Calls& call) const {
    if (!before_use) return;
    if (call.parameter_numbers.empty())
        before_use(0, 0);
    else
        before_use(call.parameter_numbers.back(), call.parameter_numbers.front() + 1);
}

TensorView Graph::forward(std::int64_t n, const StepContext& step) {
    impl_->set_batch(n);
    if (step.phase != Phase::train) impl_->use_all_parameters();
    const auto& nodes = impl_->spec.nodes();
    auto run = impl_->runs.begin();
    for (std::size_t i = 1; i < nodes.size(); ++i) {
        if (run != impl_->runs.end() && run->first == i) {
            impl_->forward_run(*run, n, step);
            i = (run++)->last;
        } else if (impl_->takes_part(i, n, step)) {
            if (step.phase == Phase::train) impl_->use_parameters_of(impl_->calls[i]);
            if (impl_->observer) impl_->observer->forward_begins(i - 1);
            impl_->forward_layer(i, step);
            if (impl_->observer) impl_->observer->forward_ends(i - 1);
        }
    }
    if (step.phase == Phase::train && !step.defers_tracking) {
        impl_->add_statistics_of_ranks(step);
        impl_->track_statistics(step);
    }
    return impl_->calls.back().output;
}

LayerCall Graph::Impl::forward_call(std::size_t node, const StepContext& step) const {
    const Calls& views = calls[node];
    LayerCall call;
    call.inputs = views.first_inputs;
    call.output = views.first_output;
    call.state = views.first_state;
    call.parameters = views.parameters;
    call.product_parameters = views.product_parameters;
    call.step = &step;
    call.buffers = views.buffers;
    call.batch_state = views.batch_state;
    call.statistics = views.statistics;
    call.number = node;
    return call;
}

void Graph::Impl::forward_layer(std::size_t node, const StepContext& step) {
    spec.nodes()[node].layer->forward(forward_call(node, step));
}

void Graph::Impl::forward_run(const SampleRun& run, std::int64_t n, const StepContext& step) {
    const std::int64_t parts = (n + run.samples - 1) / run.samples;
    for (std::int64_t part = 0, begin = 0; part < parts; ++part) {
        const std::int64_t end = n * (part + 1) / parts;
        const auto samples = [&](const TensorView& view) { return rows_of(view, begin, end); };
        StepContext part_step = step;
        if (!step.positions.empty())
            part_step.positions = step.positions.subspan(static_cast<std::size_t>(begin),
                                                         static_cast<std::size_t>(end - begin));
        for (std::size_t i = run.first; i <= run.last; ++i) {
            const Calls& views = calls[i];
            if (part == 0 && step.phase == Phase::train) use_parameters_of(views);
            std::array<TensorView, most_inputs> inputs;
            std::ranges::transform(views.first_inputs, inputs.begin(), samples);
            LayerCall call = forward_call(i, part_step);
            call.inputs = std::span(inputs).first(views.first_inputs.size());
            call.output = samples(views.first_output);
            call.state = samples(views.first_state);
            if (observer) observer->forward_begins(i - 1);
            spec.nodes()[i].layer->forward(call);
            if (observer) observer->forward_ends(i - 1);
        }
        begin = end;
    }
    if (observer) observer->forward_took_turns(run.first - 1, run.last - 1);
}

void Graph::Impl::forward_again(std::size_t from, std::size_t to, const StepContext& step) {
    StepContext again = step;
    again.recomputing = true;
    for (std::size_t i = from; i <= to; ++i) {
        const Calls& views = calls[i];
        LayerCall call = forward_call(i, again);
        call.inputs = views.inputs;
        call.output = views.output;
        call.state = views.state;
        spec.nodes()[i].layer->forward(call);
    }
}

void Graph::Impl::backward_layer(std::size_t node, std::int64_t n, const StepContext& step,
                                 const std::function<void()>& parameters_final) {
    Calls& views = calls[node];
    if (n > 0 && views.again_from > 0) forward_again(views.again_from, node, step);
    if (!takes_part(node, n, step) || !views.output_gradient.defined()) return;
    // A value with several readers gets the sum of their gradients: the first writes it, the others add to
    // it, where they can, or write to scratch memory that is added.
    std::array<TensorView, most_inputs> targets;
    assert(views.inputs.size() <= targets.size());
    for (std::size_t k = 0; k < views.inputs.size(); ++k)
        targets[k] = views.scratch[k].defined() ? views.scratch[k] : views.input_gradients[k];
    Layer& layer = *spec.nodes()[node].layer;
    layer.backward({views.inputs, views.output, views.state, views.parameters, views.product_parameters,
                    views.output_gradient, std::span(targets).first(views.inputs.size()),
                    views.parameter_gradients, &step, views.buffers, views.batch_state, views.statistics,
                    node, views.gelu_input, &parameters_final});
    for (std::size_t k = 0; k < views.inputs.size(); ++k) {
        const TensorView& sum = views.input_gradients[k];
        if (layer.is_view() && sum.defined() && sum.data != views.output_gradient.data) {
            if (views.first[k]) ops->fill(sum, 0.0);
            ops->add(views.output_gradient.reshaped(sum.shape), sum);
        } else if (views.scratch[k].defined()) {
            ops->add(views.scratch[k], sum);
        }
    }
}

void Graph::backward(std::int64_t n, const StepContext& step, const GradientReady& ready) {
    impl_->set_batch(n);
    assert(impl_->gradients.defined() || impl_->arena_count == 0);  // redirect_gradients
    impl_->use_all_parameters();
    if (n == 0) impl_->ops->fill(impl_->gradients, 0.0);
    for (std::size_t i = impl_->calls.size() - 1; i >= 1; --i) {
        if (impl_->observer) impl_->observer->backward_begins(i - 1);
        // One pointer: a function that holds no more allocates nothing.
        struct Announcement {
            const GradientReady& ready;
            const std::vector<std::size_t>& numbers;
            bool made = false;
            void make() {
                if (std::exchange(made, true) || !ready) return;
                for (std::size_t k = numbers.size(); k-- > 0;) ready(numbers[k]);
            }
        } announcement{ready, impl_->calls[i].parameter_numbers};
        impl_->backward_layer(i, n, step, [&announcement] { announcement.make(); });
        if (impl_->observer) impl_->observer->backward_ends(i - 1);
        announcement.make();
        if (impl_->progress) impl_->progress();
    }
}

}  // namespace tutti
