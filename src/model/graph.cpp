#include "tutti/model/graph.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "graph_impl.hpp"
#include "tutti/base/error.hpp"

namespace tutti {
namespace {

// Of one layer.
constexpr std::size_t most_inputs = 8;

void set_front(TensorView& view, std::int64_t n) {
    if (view.defined()) view.shape[0] = n;
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
            .statistics = impl_->statistics_memory.size(),
            .discarded = impl_->discarded_memory.size()};
}

std::vector<Graph::LayerReport> Graph::report() const {
    std::vector<LayerReport> rows;
    for (std::size_t i = 1; i < impl_->spec.nodes().size(); ++i) {
        const auto& node = impl_->spec.nodes()[i];
        std::int64_t count = 0, frozen = 0;
        for (std::size_t k = 0; k < node.layer->parameters().size(); ++k) {
            const std::int64_t one = node.layer->parameters()[k].file_shape.count();
            count += one;
            if (node.is_frozen(k)) frozen += one;
        }
        const bool input_gradient =
            std::ranges::any_of(impl_->calls[i].input_gradients, &TensorView::defined);
        const bool backward = impl_->calls[i].output_gradient.defined();
        rows.push_back({node.name, node.layer->kind(), node.shape, count, frozen, node.layer->forward_flops(),
                        backward ? node.layer->backward_flops(input_gradient) : 0.0});
    }
    return rows;
}

const std::vector<Parameter>& Graph::frozen_parameters() const {
    return impl_->frozen;
}

TensorView Graph::all_parameters() const {
    return impl_->parameter_memory.view(0, impl_->compute, {impl_->all_count});
}
TensorView Graph::parameter_arena() const {
    return impl_->parameter_memory.view(0, impl_->compute, {impl_->arena_count});
}
TensorView Graph::gradient_arena() const {
    return impl_->gradient_memory.view(0, impl_->compute, {impl_->arena_count});
}

void Graph::Impl::round_for_products(std::int64_t count) const {
    if (rounded_memory.size() == 0) return;
    ops->round_for_products(parameter_memory.view(0, compute, {count}),
                            {rounded_memory.data(), ops->product_inputs(), {count}});
}

void Graph::parameters_changed() const {
    impl_->round_for_products(impl_->arena_count);
}
void Graph::all_parameters_changed() const {
    impl_->round_for_products(impl_->all_count);
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
        for (std::size_t k = 0; k < call.parameter_places.size(); ++k)
            if (call.parameter_places[k] != Calls::frozen)
                call.parameter_gradients[k] = parameter_view(arena, parameters[call.parameter_places[k]]);
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

/// A layer's parameters that are trained are neighbours, the last one first.
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
