// Buffers and batch statistics: where they lie, and how the running statistics follow the batches.

#include "graph_impl.hpp"

namespace tutti {
namespace {

// One cache line.
constexpr std::size_t buffer_alignment = 64;

std::size_t aligned(std::size_t bytes) {
    return (bytes + buffer_alignment - 1) / buffer_alignment * buffer_alignment;
}

}  // namespace

void Graph::Impl::lay_out_buffers(const Impl* first) {
    auto& nodes = spec.nodes();
    std::size_t bytes = 0;
    for (const auto& node : nodes) {
        if (!node.layer) continue;
        for (const BufferSpec& one : node.layer->buffers())
            bytes += aligned(static_cast<std::size_t>(one.shape.count()) * size_of(one.dtype(compute)));
        statistics_count += node.layer->statistics_count();
    }
    if (!first) buffer_memory = device->allocate(bytes, "buffers");
    const Buffer& memory = first ? first->buffer_memory : buffer_memory;
    statistics_memory =
        device->allocate(static_cast<std::size_t>(statistics_count) * sizeof(double), "batch statistics");

    std::size_t offset = 0, statistics = 0;
    for (std::size_t i = 1; i < nodes.size(); ++i) {
        for (const BufferSpec& one : nodes[i].layer->buffers()) {
            calls[i].buffers.push_back(memory.view(offset, one.dtype(compute), one.shape));
            offset += aligned(calls[i].buffers.back().bytes());
        }
        const std::int64_t count = nodes[i].layer->statistics_count();
        if (count == 0) continue;
        calls[i].statistics = statistics_memory.view(statistics, DType::f64, {count});
        statistics += calls[i].statistics.bytes();
    }
    if (!first) set_buffers_to_initial_values();
}

void Graph::Impl::set_values(const TensorView& buffer, const std::vector<double>& values) {
    if (buffer.dtype == DType::f64) return device->copy_from_host(buffer, values.data());
    const std::vector<float> rounded(values.begin(), values.end());
    device->copy_from_host(buffer, rounded.data());
}

void Graph::Impl::set_buffers_to_initial_values() {
    for (std::size_t i = 1; i < calls.size(); ++i)
        for (std::size_t k = 0; k < calls[i].buffers.size(); ++k) {
            const BufferSpec& one = spec.nodes()[i].layer->buffers()[k];
            const TensorView& buffer = calls[i].buffers[k];
            if (!one.values.empty()) {
                set_values(buffer, one.values);
                continue;
            }
            if (!one.counts) {
                ops->fill(buffer, one.initial);
                continue;
            }
            const std::vector<std::int64_t> host(static_cast<std::size_t>(one.shape.count()),
                                                 static_cast<std::int64_t>(one.initial));
            device->copy_from_host(buffer, host.data());
        }
}

bool Graph::Impl::takes_part(std::size_t node, std::int64_t n, const StepContext& step) const {
    return n > 0 || (step.phase == Phase::train && calls[node].statistics.defined());
}

void Graph::Impl::add_statistics_of_ranks(const StepContext& step) {
    if (statistics_count == 0 || !step.statistics || step.sync_batch_statistics) return;
    step.statistics->sum(statistics_memory.view(0, DType::f64, {statistics_count}));
}

void Graph::Impl::track_statistics(const StepContext& step) {
    tracked.clear();
    for (std::size_t i = 1; i < calls.size(); ++i) {
        if (!calls[i].statistics.defined()) continue;
        LayerCall call;
        call.step = &step;
        call.buffers = calls[i].buffers;
        call.statistics = calls[i].statistics;
        call.number = i;
        tracked.push_back(spec.nodes()[i].layer->tracking(call));
    }
    ops->track_batch_norms(tracked);
}

TensorView Graph::batch_statistics() const {
    return impl_->statistics_memory.view(0, DType::f64, {impl_->statistics_count});
}

void Graph::track_statistics(const StepContext& step) {
    impl_->track_statistics(step);
}

TensorView Graph::buffer_arena() const {
    return impl_->buffer_memory.view(0, DType::u8, {static_cast<std::int64_t>(impl_->buffer_memory.size())});
}

}  // namespace tutti
