#include "trace.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>

#include "tutti/base/atomic_file.hpp"
#include "tutti/base/host_name.hpp"
#include "tutti/base/units.hpp"

namespace tutti {
namespace {

std::string quoted(const std::string& text) {
    return nlohmann::json(text).dump();
}

/// Writes one rank's events. Times become whole nanoseconds before anything is subtracted, so that what nests
/// in the time line nests in the file.
class EventWriter {
  public:
    EventWriter(int rank, const AlignedClock& clock, double origin)
        : rank_(rank), clock_(clock), origin_(origin) {}

    void begin_step(double local_clock) { step_ = local_clock; }

    void slice(const std::string& name, const char* category, const TimeSpan& span) {
        const std::int64_t begin = nanoseconds(span.begin), end = nanoseconds(span.end);
        text_ += fmt::format(
            ",\n{{\"name\": {}, \"cat\": \"{}\", \"ph\": \"X\", \"pid\": {}, \"tid\": 0, \"ts\": {}, "
            "\"dur\": {}}}",
            quoted(name), category, rank_, microseconds(begin), microseconds(end - begin));
    }

    /// phase: b or e. `more`: further members.
    void bucket_event(const std::string& name, char phase, const std::string& id, double time,
                      const std::string& more) {
        text_ += fmt::format(
            ",\n{{\"name\": {}, \"cat\": \"communication\", \"ph\": \"{}\", \"id\": \"{}\", \"pid\": {}, "
            "\"tid\": 0, \"ts\": {}{}}}",
            quoted(name), phase, id, rank_, microseconds(nanoseconds(time)), more);
    }

    void metadata(const char* name, const std::string& arguments) {
        text_ +=
            fmt::format(",\n{{\"name\": \"{}\", \"ph\": \"M\", \"pid\": {}, \"tid\": 0, \"args\": {{{}}}}}",
                        name, rank_, arguments);
    }

    std::string take() { return std::move(text_); }

  private:
    std::int64_t nanoseconds(double in_step) const {
        return std::llround((clock_.to_rank0(step_ + in_step) - origin_) * 1e9);
    }
    static std::string microseconds(std::int64_t nanoseconds) {
        const std::int64_t size = std::abs(nanoseconds);
        return fmt::format("{}{}.{:03}", nanoseconds < 0 ? "-" : "", size / 1000, size % 1000);
    }

    int rank_;
    const AlignedClock& clock_;
    double origin_;
    double step_ = 0;
    std::string text_;
};

void add_layers(EventWriter& out, const std::vector<Graph::LayerReport>& layers, const char* category,
                const std::vector<TimeSpan>& spans) {
    for (std::size_t i = 0; i < layers.size(); ++i) {
        // A rank without samples in a step runs no layers.
        if (spans[i].end == 0) continue;
        out.slice(layers[i].name.empty() ? layers[i].kind : layers[i].name, category, spans[i]);
    }
}

void add_buckets(EventWriter& out, const Graph& graph, const StepTimeline& timeline, std::int64_t step,
                 const std::string& prefix, const std::vector<Bucket>& plan) {
    for (std::size_t b = 0; b < plan.size(); ++b) {
        const BucketTimes& times = timeline.buckets[b];
        const std::string name = fmt::format("bucket {}", b), id = fmt::format("{}.{}", prefix, b);
        const std::string about = fmt::format(
            ", \"args\": {{\"step\": {}, \"bytes\": {}, \"first\": {}, \"last\": {}}}", step,
            plan[b].count * static_cast<std::int64_t>(size_of(graph.compute())),
            quoted(graph.parameters()[plan[b].first].name), quoted(graph.parameters()[plan[b].last].name));
        out.bucket_event(name, 'b', id, times.ready, about);
        out.bucket_event("all-reduce", 'b', id, times.issued, "");
        out.bucket_event("all-reduce", 'e', id, times.done, "");
        out.bucket_event(name, 'e', id, times.done, "");
    }
}

}  // namespace

Trace::Trace(Communicator& communicator, const Graph& graph, std::size_t micro_batches_per_step,
             std::size_t steps)
    : communicator_(communicator),
      graph_(graph),
      begin_(estimate_clock(communicator)),
      steps_(steps, Step{StepTimeline(graph, micro_batches_per_step)}) {}

void Trace::add(const StepTimeline& timeline, std::int64_t number, std::span<const Bucket> plan) {
    auto same = std::ranges::find_if(
        plans_, [&](const std::vector<Bucket>& known) { return std::ranges::equal(known, plan); });
    if (same == plans_.end()) same = plans_.insert(same, std::vector<Bucket>(plan.begin(), plan.end()));
    Step& step = steps_[used_++];
    step.timeline = timeline;
    step.number = number;
    step.plan = static_cast<std::size_t>(same - plans_.begin());
}

std::string Trace::events(const AlignedClock& clock) const {
    const int rank = communicator_.rank();
    double origin = steps_.front().timeline.clock;
    communicator_.broadcast(view_of(std::span(&origin, 1)), 0).wait();
    EventWriter out(rank, clock, origin);
    out.metadata("process_name", "\"name\": " + quoted(fmt::format("rank {} ({})", rank, host_name())));
    out.metadata("process_sort_index", fmt::format("\"sort_index\": {}", rank));
    out.metadata("thread_name", "\"name\": \"computation\"");
    const auto layers = graph_.report();
    for (std::size_t i = 0; i < used_; ++i) {
        const Step& step = steps_[i];
        const StepTimeline& timeline = step.timeline;
        out.begin_step(timeline.clock);
        out.slice(fmt::format("step {}", step.number), "step", {0, timeline.seconds});
        for (const MicroBatchTimes& micro : timeline.micro_batches()) {
            out.slice("data", "data", micro.data);
            out.slice("forward", "forward", micro.forward);
            add_layers(out, layers, "forward", micro.layer_forward);
            out.slice("backward", "backward", micro.backward);
            add_layers(out, layers, "backward", micro.layer_backward);
        }
        out.slice("communication", "communication", timeline.communication);
        out.slice("optimizer", "optimizer", timeline.optimizer);
        if (timeline.gather.seconds() > 0) out.slice("gather parameters", "communication", timeline.gather);
        add_buckets(out, graph_, step.timeline, step.number, fmt::format("{}.{}", rank, i),
                    plans_[step.plan]);
    }
    return out.take();
}

void Trace::write(const std::string& path, Log& log) const {
    const ClockEstimate end = estimate_clock(communicator_);
    const std::string mine = used_ == 0 ? "" : events(AlignedClock(begin_, end));
    const auto clocks = all_gather_text(
        communicator_,
        fmt::format(
            R"({{"rank": {}, "host": {}, "offset": {:.9f}, "round_trip": {:.9f}, "offset_at_end": {:.9f}, )"
            R"("round_trip_at_end": {:.9f}}})",
            communicator_.rank(), quoted(host_name()), begin_.offset, begin_.round_trip, end.offset,
            end.round_trip));
    std::unique_ptr<file::Temporary> file;
    // One rank's events after another: no rank ever holds all of them.
    const auto on_first_rank = [&](const auto& work) {
        if (communicator_.rank() != 0 || path.empty()) return;
        try {
            work();
        } catch (const std::system_error& error) {
            file.reset();
            log.warning("cannot write " + path + ": " + file::cause(error) + "; the run goes on without it");
        }
    };
    on_first_rank([&] {
        file = std::make_unique<file::Temporary>(path);
        std::string head = "{\"displayTimeUnit\": \"ms\", \"otherData\": {\"clocks_in_seconds\": [\n";
        for (std::size_t r = 0; r < clocks.size(); ++r) head += (r == 0 ? "" : ",\n") + clocks[r];
        file::write_all(file->descriptor(), head + "]},\n\"traceEvents\": [");
    });
    for (int rank = 0; rank < communicator_.size(); ++rank) {
        const std::string text = broadcast_text(communicator_, mine, rank);
        if (!file || text.empty()) continue;
        // Each event has a comma before it, but for the first.
        on_first_rank([&] { file::write_all(file->descriptor(), text.substr(rank == 0 ? 1 : 0)); });
    }
    if (!file) return;
    on_first_rank([&] {
        file::write_all(file->descriptor(), "\n]}\n");
        file->commit();
    });
    if (file)
        log.info(fmt::format("trace of {} on {}: {} (open it in ui.perfetto.dev)", counted(used_, "update"),
                             counted(communicator_.size(), "rank"), path));
}

}  // namespace tutti
