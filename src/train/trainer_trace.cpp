// Time lines of the first steps: for the trace, and for who else measures them.

#include <algorithm>

#include "trainer_impl.hpp"

namespace tutti {

void Trainer::Impl::record_if_needed() {
    const bool needed = tuner || trace || order_measurement;
    if (needed && !recorder) recorder.emplace(graph, static_cast<std::size_t>(training.micro_batches));
    training.record(needed ? &*recorder : nullptr);
}

void Trainer::Impl::start_trace() {
    const std::int64_t steps = std::min(config.run.trace_steps, total_steps() - progress.step);
    if (!config.run.trace || steps < 1) return;
    trace.emplace(job.control, graph, static_cast<std::size_t>(training.micro_batches),
                  static_cast<std::size_t>(steps));
    record_if_needed();
}

void Trainer::Impl::trace_step() {
    // Buckets that an update leaves on the network are done at the end of the next one's forward.
    if (untraced) trace->add(recorder->previous(), untraced->step, untraced->buckets);
    if (!trace->full()) untraced = {progress.step, training.reducer.buckets()};
    if (trace->full()) write_trace();
}

void Trainer::Impl::write_trace() {
    training.complete();
    if (untraced && !trace->full()) trace->add(recorder->timeline(), untraced->step, untraced->buckets);
    untraced.reset();
    trace->write(job.directory ? job.directory->path() + "/trace.json" : "", job.log);
    trace.reset();
    watch.restart();
    record_if_needed();
}

}  // namespace tutti
