#pragma once
// When what happened in one training step on one rank.

#include <array>
#include <chrono>
#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "tutti/device/device_marks.hpp"
#include "tutti/model/graph.hpp"
#include "tutti/model/graph_observer.hpp"

namespace tutti {

/// Seconds since the step began, on the steady clock. What did not happen is {0, 0}.
struct TimeSpan {
    double begin = 0, end = 0;
    double seconds() const { return end - begin; }
};

struct MicroBatchTimes {
    TimeSpan data;      ///< waiting for the batch, and moving it into the graph's input
    TimeSpan forward;   ///< with the loss
    TimeSpan backward;  ///< with the loss, and with issuing and polling the buckets
    /// By layer, as in Graph::report(). Layers that took turns forward lie one after the other, each as long
    /// as all its turns together.
    std::vector<TimeSpan> layer_forward, layer_backward;
};

struct BucketTimes {
    double ready = 0;  ///< its last gradient was final
    /// Its all-reduce (of several pieces the first) began: when it and all buckets issued before it were
    /// ready.
    double issued = 0;
    /// This rank saw that it had ended: at the next poll, or in the wait for it. Later than the end of the
    /// step where buckets may stay on the network during the next one.
    double done = 0;
};

/// The buckets' own plan is Reducer::buckets() at that step. Copies of a timeline made for the same graph
/// allocate nothing when they are assigned to each other.
struct StepTimeline {
    /// Memory for everything that a step of this graph can record.
    StepTimeline(const Graph& graph, std::size_t micro_batches_per_step);

    double clock = 0;    ///< the steady clock when the step began, in seconds
    double seconds = 0;  ///< of the whole step
    std::span<const MicroBatchTimes> micro_batches() const { return std::span(all_).first(used_); }
    std::vector<double> parameter_ready;  ///< by parameter, in arena order
    std::vector<BucketTimes> buckets;
    /// Waiting for the buckets and the step's sums after backward; with the updates of the buckets that were
    /// done before the last one.
    TimeSpan communication;
    double early_updates = 0;  ///< seconds of communication that these updates took
    TimeSpan optimizer;        ///< of the rest
    /// Of the step before, whose buckets were on the network when this one began: seconds of forward (with
    /// what is between it and backward) that passed in waiting for them, and in their updates.
    double late_waits = 0, late_updates = 0;
    /// The same of this step: its buckets were left to the next one.
    bool goes_on = false;
    /// Processor seconds of this thread in starting and polling transfers outside of waits for them: they are
    /// missing in the computation that the transfers are hidden behind.
    double transfer_cpu = 0;
    /// Of forward and backward, what this thread was not running: the core was at other work (the network's
    /// interrupts, other programs), or, with several threads, this one waited for them. Across steps with the
    /// waits in forward in which it gave the core away.
    double off_core = 0;
    /// Between the pieces of buckets that are cut: nothing was under way, as who was to overtake them was not
    /// ready.
    double pauses = 0;
    TimeSpan gather;  ///< with sharded state: of the parameters, after the optimizer

    /// When the last layer's backward had ended; communication after that is not hidden.
    double backward_end() const { return used_ == 0 ? 0 : all_[used_ - 1].backward.end; }
    /// Waiting that no computation hides: from the end of backward until the last bucket is done, without the
    /// updates in between, and the gathering of parameters. Where the step goes on: for the step's sums. And
    /// for the buckets of the step before.
    double exposed_communication() const;

  private:
    friend class StepRecorder;
    std::vector<MicroBatchTimes> all_;
    std::size_t used_ = 0;
};

/// Writes the timelines of the step under way and of the one before it, whose buckets may still be on the
/// network. Allocates nothing after construction, but where it has marks in the first steps. One thread.
///
/// With marks (use()) forward, backward, what is ready and the optimizer have the times at which the device
/// did it, not those at which the host issued it; they are there when the step ends, for which the host then
/// waits for the device. A transfer did not begin before the device had made what it sends. With sharded
/// state (gather) what the update takes of the device counts as gathering, which waits for it.
class StepRecorder final : public GraphObserver {
  public:
    StepRecorder(const Graph& graph, std::size_t micro_batches_per_step)
        : timelines_{StepTimeline(graph, micro_batches_per_step),
                     StepTimeline(graph, micro_batches_per_step)} {}

    /// Of the device that computes (Device::make_marks); null: calls return when their work has ended.
    void use(std::unique_ptr<DeviceMarks> marks) { marks_ = std::move(marks); }
    /// The step under way is work that the device has recorded, in which nothing can be marked.
    void leave_out_marks() { marks_this_step_ = false; }
    /// From now on no processor time is read (six system calls a step and more, of some tenths of a µs each):
    /// transfer_cpu and off_core stay 0.
    void leave_out_processor_time() { reads_processor_time_ = false; }
    /// A step begins now; what was recorded of the step before the last one is forgotten.
    void begin_step(std::size_t buckets);
    void end_step();
    MicroBatchTimes& begin_micro_batch() {
        marked_row_ = MarkedRow::none;
        return timeline().all_[timeline().used_++];
    }
    /// Forward and backward of a micro-batch. By the thread that computes.
    void compute_begins() {
        if (reads_processor_time_) compute_ = off_core_now();
    }
    void compute_ends() {
        if (marks_this_step_) mark(current().backward.end);
        if (reads_processor_time_) timeline().off_core += off_core_now() - compute_;
    }
    /// Around a call that starts or polls transfers without waiting. Not nested.
    void transfer_call_begins() {
        if (reads_processor_time_) call_ = thread_seconds();
    }
    void transfer_call_ends() {
        if (reads_processor_time_) timeline().transfer_cpu += thread_seconds() - call_;
    }
    /// Since the step began.
    double now() const { return since_begin(Clock::now()); }
    using Clock = std::chrono::steady_clock;
    double since_begin(Clock::time_point time) const {
        return std::chrono::duration<double>(time - begin_).count();
    }

    /// Of the step that began last; complete when that has ended, but for a step that goes on.
    StepTimeline& timeline() { return timelines_[current_]; }
    const StepTimeline& timeline() const { return timelines_[current_]; }
    /// Of the step before it.
    const StepTimeline& previous() const { return timelines_[1 - current_]; }

    void parameter_ready(std::size_t parameter) {
        timeline().parameter_ready[parameter] = now();
        if (marks_this_step_) mark(timeline().parameter_ready[parameter]);
    }
    /// With its last parameter, which is this one.
    void bucket_ready(std::size_t bucket, std::size_t parameter) {
        timeline().buckets[bucket].ready = timeline().parameter_ready[parameter];
        if (marks_this_step_) last_parameters_.push_back({bucket, parameter});
    }
    void bucket_issued(std::size_t bucket) {
        sending_ = current_;
        timeline().buckets[bucket].issued = now();
    }
    /// Of the step whose buckets were issued last.
    void bucket_done(std::size_t bucket) {
        StepTimeline& step = timelines_[sending_];
        step.buckets[bucket].done = now() + (timeline().clock - step.clock);
    }
    /// From now on nothing is under way.
    void link_rests() { rests_ = now(); }
    /// Since then a bucket of which some pieces were done waited for others.
    void pause_ends() { timeline().pauses += now() - rests_; }

    void forward_begins(std::size_t) override {
        turn_ = now();
        if (marks_this_step_) begin_row(MarkedRow::forward);
    }
    /// Its times add up: with turns, the end lies that long behind the begin of the first.
    void forward_ends(std::size_t layer) override {
        TimeSpan& span = current().layer_forward[layer];
        if (marks_this_step_) return mark(span);
        if (span.end == 0) span.begin = span.end = turn_;
        span.end += now() - turn_;
    }
    void forward_took_turns(std::size_t first, std::size_t last) override;
    void backward_begins(std::size_t layer) override {
        if (marks_this_step_) return begin_row(MarkedRow::backward);
        current().layer_backward[layer].begin = now();
    }
    void backward_ends(std::size_t layer) override {
        if (marks_this_step_) return mark(current().layer_backward[layer]);
        current().layer_backward[layer].end = now();
    }

  private:
    /// Processor time of the calling thread.
    static double thread_seconds();
    double off_core_now() const { return now() - thread_seconds(); }
    MicroBatchTimes& current() { return timeline().all_[timeline().used_ - 1]; }

    /// A device computes the layers of a row one behind the other: each begins at the mark where the one
    /// before it has ended.
    enum class MarkedRow { none, forward, backward };
    void begin_row(MarkedRow row) {
        if (std::exchange(marked_row_, row) != row) last_mark_ = marks_->set();
    }
    void mark(TimeSpan& layer) {
        const std::size_t begin = std::exchange(last_mark_, marks_->set());
        marked_layers_.push_back({&layer, begin, last_mark_});
    }
    void mark(double& time) { marked_.push_back({&time, marks_->set()}); }
    /// The device's times in the place of the host's.
    void read_marks();

    std::array<StepTimeline, 2> timelines_;
    std::unique_ptr<DeviceMarks> marks_;
    struct Marked {
        double* time;
        std::size_t mark;
    };
    struct LastParameter {
        std::size_t bucket, parameter;
    };
    struct MarkedLayer {
        TimeSpan* span;
        std::size_t begin, end;
    };
    std::vector<Marked> marked_;  ///< of the step under way, as the next two
    std::vector<MarkedLayer> marked_layers_;
    std::vector<LastParameter> last_parameters_;
    std::size_t last_mark_ = 0;
    MarkedRow marked_row_ = MarkedRow::none;
    bool marks_this_step_ = false;
    std::size_t current_ = 0, sending_ = 0;
    bool reads_processor_time_ = true;
    Clock::time_point begin_;
    double turn_ = 0;  ///< when the layer that runs forward began
    double compute_ = 0, call_ = 0, rests_ = 0;
};

}  // namespace tutti
